"""The rules of the game, and what of them may vary.

Two players. The full deck has 108 cards: in each colour (red, yellow, blue, green) one 0, two each of 1-9, two Skip, two
Reverse, two +2, and four Wild and four Wild+4.

* Shuffle, deal `hand_size` cards to each player, turn one card up (`start_card` says which are put back). The start card has no
  effect.
* A card is playable if it is Wild or Wild+4, has the active colour, or has the rank of the top card.
* Play is forced: with no penalty pending, a player who holds a playable card plays one. Otherwise the player draws exactly one
  card and the turn passes; that card is not played in this turn.
* Every play declares a colour: a coloured card its own, a Wild or Wild+4 any of the four.
* After +2 (Wild+4) a penalty of 2 (4) is pending: the next player draws that many, plays nothing, and the turn goes back.
* Skip and Reverse, identical with two players, forfeit the next player's turn: the same player moves again
  (`skip_forfeits=True`).
* The draw deck is an unordered multiset: each draw is uniform over the cards in it at that moment.
* If a draw of k finds fewer than k cards, the pile except its top card first goes back into the deck. If there are still fewer
  than k, the game ends at once: fewer cards in hand wins, equal hands are a draw.
* A player whose hand becomes empty wins at once, whatever the card was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Real
from typing import Final, Literal, TypeGuard, get_args

import numpy as np

from unojax import cards

RULES_VERSION: Final = 1
"""Changes when the same keys and actions give another game, and never for a speed-up. Stored in records and checkpoints."""

StartCard = Literal["non_wild", "any"]
FirstPlayer = Literal["zero", "random"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Options of the game. Frozen and hashable, so that it can be a static argument under `jit`.

    Attributes:
        skip_forfeits: Skip and Reverse make the same player move again; False: they just pass the turn.
        start_card: "non_wild" puts a Wild or Wild+4 back and turns another card; "any" keeps it, the active colour is then
            uniformly random.
        hand_size: cards dealt to each player.
        deck: how many copies of each of the 54 types are in the game, at most `cards.COPIES`.
        first_player: "zero", or "random" for a fair coin.
        max_steps: the game is truncated after that many steps; None: never.
        step_penalty: subtracted from both players' rewards at each step that does not end the game.

    Raises:
        ValueError: a field is out of its range.
    """

    skip_forfeits: bool = True
    start_card: StartCard = "non_wild"
    hand_size: int = 7
    deck: tuple[int, ...] = tuple(cards.COPIES.tolist())
    first_player: FirstPlayer = "zero"
    max_steps: int | None = None
    step_penalty: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "deck", _checked_deck(self.deck))
        if not isinstance(self.skip_forfeits, bool):
            raise ValueError(f"skip_forfeits must be True or False, got {self.skip_forfeits!r}")
        if self.start_card not in get_args(StartCard):
            raise ValueError(f"start_card must be one of {get_args(StartCard)}, got {self.start_card!r}")
        if self.first_player not in get_args(FirstPlayer):
            raise ValueError(f"first_player must be one of {get_args(FirstPlayer)}, got {self.first_player!r}")
        check_max_steps(self.max_steps)
        is_number = isinstance(self.step_penalty, Real) and not isinstance(self.step_penalty, bool)
        if not (is_number and np.isfinite(self.step_penalty)):
            raise ValueError(f"step_penalty must be a finite number, got {self.step_penalty!r}")
        object.__setattr__(self, "step_penalty", float(self.step_penalty))
        # Under "non_wild" a coloured card must be left to turn up, however the hands were dealt.
        usable = sum(self.deck[: cards.WILD_TYPE]) if self.start_card == "non_wild" else self.num_cards
        largest = (usable - 1) // 2
        if not (is_int(self.hand_size) and 1 <= self.hand_size <= largest):
            what = "coloured cards" if self.start_card == "non_wild" else "cards"
            if largest < 1:
                raise ValueError(
                    f"deck: {usable} {what} are too few for start_card={self.start_card!r}; two hands and the start card need at "
                    "least 3"
                )
            raise ValueError(
                f"hand_size must be an integer in [1, {largest}] for a deck with {usable} {what} and "
                f"start_card={self.start_card!r} (two hands and the start card), got {self.hand_size!r}"
            )

    @property
    def num_cards(self) -> int:
        """Cards in the game, 108 by default."""
        return sum(self.deck)


def small_deck(*, colors: int = 4, ranks: Sequence[int] = tuple(range(13)), copies: int = 2, wilds: int = 4) -> tuple[int, ...]:
    """Make the copy counts of a smaller deck, for exact solving: `Rules(deck=small_deck(colors=2, ranks=(1, 2, 10), wilds=1))`.

    Args:
        colors: the first so many of red, yellow, blue, green.
        ranks: coloured ranks 0..12 (Skip 10, Reverse 11, +2 12).
        copies: at most so many copies of each coloured card (there is only one 0).
        wilds: so many Wild and as many Wild+4.

    Raises:
        ValueError: an argument is out of its range.
    """
    for name, value, low, high in (("colors", colors, 1, 4), ("copies", copies, 1, 2), ("wilds", wilds, 0, 4)):
        if not (is_int(value) and low <= value <= high):
            raise ValueError(f"{name} must be an integer in [{low}, {high}], got {value!r}")
    if bad := [r for r in ranks if not (is_int(r) and 0 <= r < cards.NUM_COLORED_RANKS)]:
        raise ValueError(f"ranks must be integers in [0, 12], got {bad}")
    deck = np.zeros(cards.NUM_TYPES, int)
    for color in range(colors):
        for rank in ranks:
            deck[color * 13 + rank] = min(copies, int(cards.COPIES[color * 13 + rank]))
    deck[cards.WILD_TYPE :] = wilds
    return tuple(deck.tolist())


def agreed_rules(carried: Rules, given: Rules | None) -> Rules:
    """Return the rules that a state, an observation or a belief carries, if those given beside it (or None) are the same.

    Raises:
        ValueError: the two differ.
    """
    if given is None or given == carried:
        return carried
    names = [field.name for field in fields(Rules) if getattr(given, field.name) != getattr(carried, field.name)]
    told = ", ".join(
        f"{name} of {sum(getattr(given, name))} cards instead of {sum(getattr(carried, name))}"
        if name == "deck"
        else f"{name}={getattr(given, name)!r} instead of {getattr(carried, name)!r}"
        for name in names
    )
    raise ValueError(
        f"rules differ from those that the game began with: {told}; leave `rules` out, what began with them carries them"
    )


def check_max_steps(max_steps: object) -> None:
    """Check a limit on the steps of a game.

    Raises:
        ValueError: it is neither None nor an integer in [1, 2^31 - 1], the range of `State.step_count`.
    """
    if max_steps is not None and not (is_int(max_steps) and 1 <= max_steps < 2**31):
        raise ValueError(f"max_steps must be None or an integer in [1, {2**31 - 1}], got {max_steps!r}")


def is_int(value: object) -> TypeGuard[int]:
    """Tell a Python or NumPy integer, True and False excepted."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _checked_deck(deck: Sequence[int]) -> tuple[int, ...]:
    values = np.asarray(deck)
    if values.shape != (cards.NUM_TYPES,) or values.dtype.kind not in "iu":
        raise ValueError(f"deck must be {cards.NUM_TYPES} integer copy counts, one per card type, got {deck!r}")
    if (bad := np.flatnonzero((values < 0) | (values > cards.COPIES))).size:
        t = int(bad[0])
        raise ValueError(f"deck[{t}] ({cards.TYPE_NAMES[t]}) must be in [0, {cards.COPIES[t]}], got {values[t]}")
    return tuple(int(v) for v in values)
