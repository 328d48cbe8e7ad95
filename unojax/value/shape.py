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
    """Configuration of a network.

    Attributes:
        width: Width of all layers.
        color_layers, trunk_layers: Number of layers for each colour and of the trunk.
        matches, types: Whether it reads `Features.matches` and `Features.types`.
        policy_head, belief_head: Whether it has these outputs (see `Outputs`).
        discount: Discount of the returns that its values estimate, per transition (`unojax.pomdp.check_discount`).
        rules: Rules that it was trained for, as text for `unojax.rules.as_rules`.

    Raises:
        ValueError: If a field is out of its range, or the rules are unknown or differ in `has_turn_columns`.
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
        """Whether it reads the further columns of a turn, see `has_turn_columns`."""
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
    """Outputs of a network for information states of any shape. A missing head gives None.

    Attributes:
        win_logit: Log odds of winning, float32[...].
        policy_logits: Logits of the plays, legal or not, float32[..., 60].
        slot_logits: Log odds that each canonical slot of the opponent's hand is set, float32[..., 108].
    """

    win_logit: Array
    policy_logits: Array | None = None
    slot_logits: Array | None = None

    @property
    def value(self) -> Array:
        """Expected return in [-1, 1], float32[...]: without a discount 2 P(win) - 1."""
        return jnp.tanh(self.win_logit / 2)

    @property
    def win_prob(self) -> Array:
        """Probability of winning, float32[...]."""
        return jax.nn.sigmoid(self.win_logit)
