"""The game of UNO for two as the rules tell it: plain Python, written from the rules and not from the JAX code.

Cards are strings (`R5`, `YS`, `BR`, `G+2`, `W`, `W+4`), sets of cards are `Counter`s, nothing is fast. The oracle draws nothing
at random: whoever steps the game says which cards were drawn, and the oracle refuses those that could not have been.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

COLORS = "RYBG"
RANKS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "S", "R", "+2", "W", "W+4")
WILDS = ("W", "W+4")
CARDS = (*(color + rank for color in COLORS for rank in RANKS[:13]), *WILDS)
"""Name of each of the 54 types, in the order of their numbers."""
FULL_DECK = Counter({card: 4 if card in WILDS else 1 if card[1:] == "0" else 2 for card in CARDS})

DRAW = 60
ILLEGAL, OUT_OF_RANGE = 1, 2


class Impossible(Exception):
    """What is said to have happened is not possible under the rules."""


def color_of(card: str) -> str | None:
    """R, Y, B or G; None for a Wild or Wild+4."""
    return None if card in WILDS else card[0]


def rank_of(card: str) -> str:
    """0-9, S, R, +2, W or W+4."""
    return card if card in WILDS else card[1:]


def action_of(card: str, declared: str) -> int:
    """Number of the action that plays `card` and declares a colour."""
    return COLORS.index(declared) * 15 + RANKS.index(rank_of(card))


def card_and_color(action: int) -> tuple[str, str]:
    """The card that an action 0..59 plays, and the colour it declares."""
    color, rank = COLORS[action // 15], RANKS[action % 15]
    return (rank if rank in WILDS else color + rank), color


@dataclass
class Variant:
    """What may vary."""

    deck: Counter[str] = field(default_factory=FULL_DECK.copy)
    hand_size: int = 7
    skip_forfeits: bool = True
    wild_may_start: bool = False
    anyone_may_start: bool = False
    max_steps: int | None = None
    step_penalty: float = 0.0


@dataclass
class Game:
    """One game. `events` counts what happened, so that tests can say what they have seen."""

    variant: Variant
    hands: list[Counter[str]]
    deck: Counter[str]
    pile: Counter[str]
    top: str
    color: str
    player: int
    penalty: int = 0
    terminated: bool = False
    truncated: bool = False
    winner: int | None = None
    rewards: tuple[float, float] = (0.0, 0.0)
    step_count: int = 0
    error: int = 0
    last_action: int | None = None
    events: Counter[str] = field(default_factory=Counter)

    @classmethod
    def deal(cls, variant: Variant, hands: list[Counter[str]], top: str, color: str, player: int) -> Game:
        """A new game after the deal.

        Raises:
            Impossible: the rules don't allow this deal.
        """
        deck = variant.deck.copy()
        for dealt in (*hands, Counter([top])):
            if dealt - deck:
                raise Impossible(f"{dealt - deck} was dealt but is not in the deck")
            deck -= dealt
        if any(hand.total() != variant.hand_size for hand in hands):
            raise Impossible(f"hands of {[hand.total() for hand in hands]} cards")
        if top in WILDS and not variant.wild_may_start:
            raise Impossible(f"{top} must be put back")
        if color not in COLORS or color_of(top) not in (None, color):
            raise Impossible(f"{top} with colour {color}")
        if player not in (0, 1) or (player == 1 and not variant.anyone_may_start):
            raise Impossible(f"player {player} begins")
        return cls(variant, [hand.copy() for hand in hands], deck, Counter([top]), top, color, player)

    @property
    def is_over(self) -> bool:
        return self.terminated or self.truncated

    def is_playable(self, card: str) -> bool:
        """A card can be played if it is wild, has the active colour, or has the rank of the top card."""
        return card in WILDS or color_of(card) == self.color or rank_of(card) == rank_of(self.top)

    def legal_actions(self) -> set[int]:
        """What the player to move may do; everything, to no effect, once the game is over."""
        if self.is_over:
            return set(range(61))
        if self.penalty:
            return {DRAW}
        plays = set()
        for card in +self.hands[self.player]:
            if self.is_playable(card):
                declared = COLORS if card in WILDS else card[0]
                plays |= {action_of(card, color) for color in declared}
        return plays or {DRAW}

    def step(self, action: int, drawn: Counter[str]) -> None:
        """One action of the player to move, with the cards that came off the deck, if any did.

        Raises:
            Impossible: these cards could not have been drawn.
        """
        self.rewards = (0.0, 0.0)
        is_legal = action in self.legal_actions()
        draws = action == DRAW and is_legal and not self.is_over
        if drawn and not draws:
            raise Impossible(f"{drawn} drawn without a legal draw")
        if self.is_over:
            return
        if not is_legal:
            self.error |= ILLEGAL if 0 <= action <= 60 else OUT_OF_RANGE
            self.events["illegal action" if 0 <= action <= 60 else "action out of range"] += 1
            return

        self.step_count += 1
        self.last_action = action
        if draws:
            self._draw(drawn)
        else:
            self._play(*card_and_color(action))

        if self.terminated:
            sign = {None: 0.0, 0: 1.0, 1: -1.0}[self.winner]
            self.rewards = (sign, -sign)
        else:
            self.rewards = (-self.variant.step_penalty, -self.variant.step_penalty)
            if self.step_count == self.variant.max_steps:
                self.truncated = True
                self.events["truncated"] += 1

    def _play(self, card: str, color: str) -> None:
        hand = self.hands[self.player]
        hand[card] -= 1
        self.pile[card] += 1
        self.top, self.color = card, color
        if hand.total() == 0:
            # Whatever the last card was, its effect does not come to pass.
            self.terminated, self.winner = True, self.player
            self.events[f"won with {rank_of(card)}"] += 1
            return
        self.events[f"played {rank_of(card)}"] += 1
        self.penalty = {"+2": 2, "W+4": 4}.get(rank_of(card), 0)
        if not (rank_of(card) in ("S", "R") and self.variant.skip_forfeits):
            self.player = 1 - self.player

    def _draw(self, drawn: Counter[str]) -> None:
        due = self.penalty or 1
        if self.deck.total() < due:
            under_the_top = self.pile - Counter([self.top])
            if under_the_top:
                self.events[f"reshuffled for {due} with {self.deck.total()} left"] += 1
            self.deck += under_the_top
            self.pile = Counter([self.top])
        if self.deck.total() < due:
            if drawn:
                raise Impossible(f"{drawn} drawn where the game ends")
            mine, theirs = self.hands[self.player].total(), self.hands[1 - self.player].total()
            self.terminated = True
            self.winner = None if mine == theirs else self.player if mine < theirs else 1 - self.player
            how = "tied" if mine == theirs else "won" if mine < theirs else "lost"
            self.events[f"{how} as {due} could not be drawn"] += 1
            return
        if drawn.total() != due:
            raise Impossible(f"{drawn.total()} cards drawn instead of {due}")
        if drawn - self.deck:
            raise Impossible(f"{drawn - self.deck} drawn, which the deck does not hold")
        self.hands[self.player] += drawn
        self.deck -= drawn
        self.penalty = 0
        self.player = 1 - self.player
        self.events[f"drew {due}"] += 1
