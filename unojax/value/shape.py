"""The configuration of a network: its sizes, heads and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from unojax.decks import is_int
from unojax.pomdp import check_discount
from unojax.rules import as_rules
from unojax.value.features import COLOR_COLUMNS, COLOR_TURN_COLUMNS, SHARED_COLUMNS, SHARED_TURN_COLUMNS, has_turn_columns

_LARGEST: Final = {"width": 4096, "color_layers": 64, "trunk_layers": 64}
"""Limits on the sizes in a file, far beyond any trained network, because layers are built one by one before any computation."""
_FLAGS: Final = ("matches", "policy_head", "belief_head", "types")


@dataclass(frozen=True)
class NetworkConfig:
    """Configuration of a network: layers of one `width`, of the colours and of the trunk, and optional heads (see `Outputs`).

    With `matches` it also reads `Features.matches`, with `types` `Features.types`. `rules` are the rules it plays by, as text
    for `unojax.rules.as_rules`; it reads the further columns of a turn if these rules have them (`has_turn_columns`). `discount`
    is that of the returns which its values estimate, per transition of the game as played (`unojax.pomdp.check_discount`).

    Raises:
        ValueError: If a size is no integer from 1 to its limit, rules are unknown or differ in their columns, or another
            field is neither True nor False.
    """

    width: int = 64
    color_layers: int = 2
    trunk_layers: int = 2
    matches: bool = False
    policy_head: bool = False
    belief_head: bool = False
    types: bool = False
    discount: float = 1.0
    rules: tuple[str, ...] = ("default",)

    @property
    def turns(self) -> bool:
        """Whether it reads the columns of rules that `has_turn_columns`."""
        return has_turn_columns(as_rules(self.rules[0]))

    @property
    def color_columns(self) -> tuple[str, ...]:
        """Columns of `Features.color` that it reads."""
        return COLOR_COLUMNS + COLOR_TURN_COLUMNS * self.turns

    @property
    def shared_columns(self) -> tuple[str, ...]:
        """Columns of `Features.shared` that it reads."""
        return SHARED_COLUMNS + SHARED_TURN_COLUMNS * self.turns

    def __post_init__(self) -> None:
        for name, largest in _LARGEST.items():
            if not (is_int(value := getattr(self, name)) and 1 <= value <= largest):
                raise ValueError(f"{name} must be an integer from 1 to {largest}, got {value!r}")
        for name in _FLAGS:
            if not isinstance(value := getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {value!r}")
        check_discount(self.discount)
        # A file has a list.
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.rules:
            raise ValueError(f"rules must name at least one game, such as 'default', got {self.rules!r}")
        if len({has_turn_columns(as_rules(text)) for text in self.rules}) > 1:
            raise ValueError(
                f"rules must all have columns for what else a turn depends on, or none of them: {self.rules!r} need two networks"
            )


class Outputs(NamedTuple):
    """Outputs of a network for information states of any shape.

    Attributes:
        win_logit: float32[...] log odds of winning.
        policy_logits: float32[..., 60] of the plays, legal or not; None without the head.
        slot_logits: float32[..., 108] log odds that each canonical slot of the opponent's hand is set; None without the head.
    """

    win_logit: Array
    policy_logits: Array | None = None
    slot_logits: Array | None = None

    @property
    def value(self) -> Array:
        """float32[...] expected return in [-1, 1]: without a discount 2 P(win) - 1, with half a win for a drawn game."""
        return jnp.tanh(self.win_logit / 2)

    @property
    def win_prob(self) -> Array:
        """float32[...] in [0, 1]."""
        return jax.nn.sigmoid(self.win_logit)
