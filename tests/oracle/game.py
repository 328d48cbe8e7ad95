"""The game of UNO for two in plain Python, written from the rules and not from the JAX code.

Cards are strings (`R5`, `YS`, `BR`, `G+2`, `W`, `W+4`), sets of cards are `Counter`s. The caller of a step says which cards were
drawn, and the oracle rejects impossible ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

COLORS = "RYBG"
RANKS = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "S", "R", "+2", "W", "W+4")
WILDS = ("W", "W+4")
CARDS = (*(color + rank for color in COLORS for rank in RANKS[:13]), *WILDS)
"""Name of each of the 54 types, in the order of their numbers."""
FULL_DECK = Counter({card: 4 if card in WILDS else 1 if card[1:] == "0" else 2 for card in CARDS})

DRAW, CHALLENGE = 60, 61
CARDS_TO_DRAW = {"+2": 2, "W+4": 4}
ILLEGAL, OUT_OF_RANGE = 1, 2


class Impossible(Exception):
    """An event is impossible under the rules."""


def color_of(card: str) -> str | None:
    """R, Y, B or G; None for a Wild or Wild+4."""
    return None if card in WILDS else card[0]


def rank_of(card: str) -> str:
    """0-9, S, R, +2, W or W+4."""
    return card if card in WILDS else card[1:]


def action_of(card: str, declared: str) -> int:
    """Return the action that plays `card` and declares a colour."""
    return COLORS.index(declared) * 15 + RANKS.index(rank_of(card))


def card_and_color(action: int) -> tuple[str, str]:
    """Return the card that an action 0..59 plays, and the declared colour."""
    color, rank = COLORS[action // 15], RANKS[action % 15]
    return (rank if rank in WILDS else color + rank), color


@dataclass
class Variant:
    """Options of the rules."""

    deck: Counter[str] = field(default_factory=FULL_DECK.copy)
    hand_size: int = 7
    skip_forfeits: bool = True
    wild_may_start: bool = False
    anyone_may_start: bool = False
    max_steps: int | None = None
    step_penalty: float = 0.0
    draw_four_may_start: bool | None = None
    may_draw: bool = False
    play_drawn: str = "no"
    draw_until_playable: bool = False
    wild_draw_four: str = "any"
    stacking: bool = False
    start_effects: str = "none"
    reverse_passes: bool = False
    reshuffle_top: bool = False
    points: bool = False

    @property
    def num_actions(self) -> int:
        return 62 if self.wild_draw_four == "challenge" else 61


@dataclass
class Game:
    """One game. `events` counts what happened."""

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
    drawn: str | None = None
    contested: str | None = None

    @classmethod
    def deal(cls, variant: Variant, hands: list[Counter[str]], top: str, color: str, player: int) -> Game:
        """Return a new game after the deal.

        Raises:
            Impossible: If the rules don't allow this deal.
        """
        deck = variant.deck.copy()
        for dealt in (*hands, Counter([top])):
            if dealt - deck:
                raise Impossible(f"{dealt - deck} was dealt but is not in the deck")
            deck -= dealt
        draw_four = variant.wild_may_start if variant.draw_four_may_start is None else variant.draw_four_may_start
        if (top == "W" and not variant.wild_may_start) or (top == "W+4" and not draw_four):
            raise Impossible(f"{top} must be put back")
        if color not in COLORS or color_of(top) not in (None, color):
            raise Impossible(f"{top} with colour {color}")
        passed_over = variant.start_effects != "none" and rank_of(top) in ("S", "R")
        if player not in (0, 1) or (player != passed_over and not variant.anyone_may_start):
            raise Impossible(f"player {player} begins")
        game = cls(variant, [hand.copy() for hand in hands], deck, Counter([top]), top, color, player)
        if passed_over:
            game.events["start: passed over"] += 1
        due = CARDS_TO_DRAW.get(rank_of(top), 0) if variant.start_effects != "none" else 0
        sizes = [variant.hand_size, variant.hand_size]
        if due and variant.start_effects == "forfeit":
            game.penalty = due
            game.events[f"start: penalty of {due}"] += 1
        elif due:
            left = variant.deck.total() - 2 * variant.hand_size - 1
            game.events[f"start: {due} drawn"] += 1
            if left < due and variant.reshuffle_top:
                left, game.pile, game.deck = left + 1, Counter(), game.deck + Counter([top])
            if left < due:
                game.terminated = True
                game.events["start: no draw possible"] += 1
            else:
                sizes[player] += due
        if [hand.total() for hand in hands] != sizes:
            raise Impossible(f"hands of {[hand.total() for hand in hands]} cards")
        return game

    def copy(self) -> Game:
        hands = [hand.copy() for hand in self.hands]
        return replace(self, hands=hands, deck=self.deck.copy(), pile=self.pile.copy(), events=self.events.copy())

    @property
    def is_over(self) -> bool:
        return self.terminated or self.truncated

    def fits(self, card: str) -> bool:
        """Return whether a card is wild, has the active colour, or the rank of the top card."""
        return card in WILDS or color_of(card) == self.color or rank_of(card) == rank_of(self.top)

    def is_playable(self, card: str, hand: Counter[str]) -> bool:
        """Return whether a card of a hand may be played, if any may."""
        if not self.fits(card):
            return False
        if card == "W+4" and self.variant.wild_draw_four == "no_color":
            return not any(color_of(other) == self.color for other in +hand)
        if card == "W+4" and self.variant.wild_draw_four == "last":
            return not any(self.fits(other) for other in +hand if other != "W+4")
        return True

    def plays(self) -> set[int]:
        """Return all legal plays."""
        hand = self.hands[self.player]
        playable = {card for card in +hand if self.is_playable(card, hand)}
        if self.penalty:
            # Answered by its like; a Wild+4 that was challenged or that nobody played can't be answered where one may challenge.
            closed = self.variant.wild_draw_four == "challenge" and self.top == "W+4" and self.contested is None
            can_answer = self.variant.stacking and not closed
            playable = {card for card in playable if can_answer and rank_of(card) == rank_of(self.top)}
        if self.drawn is not None:
            playable &= {self.drawn} if self.variant.play_drawn == "may" else set()
        return {action_of(card, color) for card in playable for color in (COLORS if card in WILDS else card[0])}

    def legal_actions(self) -> set[int]:
        """Return all legal actions; every action once the game is over."""
        if self.is_over:
            return set(range(self.variant.num_actions))
        plays = self.plays()
        if self.contested is not None:
            return plays | {DRAW, CHALLENGE}
        if not plays:
            return {DRAW}
        if self.drawn is not None:
            return plays | {DRAW}
        under_the_top = self.pile if self.variant.reshuffle_top else self.pile - Counter([self.top])
        is_card_left = (self.deck + under_the_top).total() > 0
        return plays | ({DRAW} if self.variant.may_draw and (self.penalty or is_card_left) else set())

    def step(self, action: int, drawn: Counter[str], laid_color: str | None = None) -> None:
        """Play an action with the cards drawn, if any.

        `laid_color` is the colour of a wild played by chance.

        Raises:
            Impossible: If these cards could not have been drawn.
        """
        self.rewards = (0.0, 0.0)
        is_legal = action in self.legal_actions()
        draws = action == DRAW and is_legal and not self.is_over
        if drawn and not draws:
            raise Impossible(f"{drawn} drawn without a legal draw")
        if self.is_over:
            return
        if not is_legal:
            in_range = 0 <= action < self.variant.num_actions
            self.error |= ILLEGAL if in_range else OUT_OF_RANGE
            self.events["illegal action" if in_range else "action out of range"] += 1
            return

        self.step_count += 1
        self.last_action = action
        if draws and self.drawn is not None and self.plays():
            self.events["passed with a playable card drawn"] += 1
            self.drawn = None
            self.player = 1 - self.player
            if drawn:
                raise Impossible(f"{drawn} drawn with a pass")
        elif draws:
            self._draw(drawn, laid_color)
        elif action == CHALLENGE:
            self._challenge()
        else:
            self._play(*card_and_color(action))

        if self.terminated:
            worth = 1.0
            if self.variant.points and self.winner is not None:
                worth = sum(points_of(card) * n for card, n in self.hands[1 - self.winner].items()) / 500
            sign = {None: 0.0, 0: worth, 1: -worth}[self.winner]
            self.rewards = (sign, -sign)
        else:
            self.rewards = (-self.variant.step_penalty, -self.variant.step_penalty)
            if self.step_count == self.variant.max_steps:
                self.truncated = True
                self.events["truncated"] += 1

    def _play(self, card: str, color: str) -> None:
        hand = self.hands[self.player]
        if self.drawn is not None:
            self.events["played the card drawn"] += 1
        elif self.penalty:
            self.events[f"answered a penalty of {self.penalty} with {rank_of(card)}"] += 1
        hand[card] -= 1
        self.drawn = None
        before, added_up = self.color, self.penalty
        self._turn_up(card, color)
        self.contested = None
        if hand.total() == 0:
            # Whatever the last card was, its effect does not come to pass.
            self.terminated, self.winner, self.penalty = True, self.player, 0
            self.events[f"won with {rank_of(card)}"] += 1
            return
        self.events[f"played {rank_of(card)}"] += 1
        due = CARDS_TO_DRAW.get(rank_of(card), 0)
        self.penalty = added_up + due if due else 0
        if card == "W+4" and self.variant.wild_draw_four == "challenge":
            self.contested = before
        if not self._moves_again(card):
            self.player = 1 - self.player

    def _turn_up(self, card: str, color: str) -> None:
        self.pile[card] += 1
        self.top, self.color = card, color

    def _moves_again(self, card: str) -> bool:
        if not self.variant.skip_forfeits:
            return False
        return rank_of(card) == "S" or (rank_of(card) == "R" and not self.variant.reverse_passes)

    def _challenge(self) -> None:
        held = self.hands[1 - self.player]
        if any(color_of(card) == self.contested for card in +held):
            self.events["challenged, guilty"] += 1
            self.player = 1 - self.player
        else:
            self.events["challenged, innocent"] += 1
            self.penalty += 2
        self.contested = None

    def _draw(self, drawn: Counter[str], laid_color: str | None) -> None:
        due, is_penalty = self.penalty or 1, self.penalty > 0
        if self.plays():
            self.events["drew a penalty that could be answered" if is_penalty else "drew though it could play"] += 1
        self.contested = None
        if self.deck.total() < due:
            under_the_top = self.pile if self.variant.reshuffle_top else self.pile - Counter([self.top])
            if under_the_top:
                self.events[f"reshuffled for {due} with {self.deck.total()} left"] += 1
            self.deck += under_the_top
            self.pile = Counter() if self.variant.reshuffle_top else Counter([self.top])
        if self.deck.total() < due:
            if drawn:
                raise Impossible(f"{drawn} drawn where the game ends")
            mine, theirs = self.hands[self.player].total(), self.hands[1 - self.player].total()
            self.terminated, self.drawn = True, None
            self.winner = None if mine == theirs else self.player if mine < theirs else 1 - self.player
            how = "tied" if mine == theirs else "won" if mine < theirs else "lost"
            self.events[f"{how} as {due} could not be drawn"] += 1
            return
        if drawn.total() != due:
            raise Impossible(f"{drawn.total()} cards drawn instead of {due}")
        if drawn - self.deck:
            raise Impossible(f"{drawn - self.deck} drawn, which the deck does not hold")
        self.deck -= drawn
        self.drawn = None
        self.events[f"drew {due}"] += 1
        if is_penalty:
            self.hands[self.player] += drawn
            self.penalty = 0
            self.player = 1 - self.player
            return
        (card,) = drawn
        if self.variant.play_drawn == "auto" and (card in WILDS or color_of(card) == self.color):
            self._lay(card, laid_color)
            return
        hand = self.hands[self.player]
        hand[card] += 1
        could_be_played = self.variant.play_drawn != "auto" and self.is_playable(card, hand)
        if could_be_played and self.variant.play_drawn == "may":
            self.events["drew a card that it may play"] += 1
            self.drawn = card
        elif self.variant.draw_until_playable and not could_be_played:
            self.events["drew a card and must draw again"] += 1
            self.drawn = card
        else:
            self.player = 1 - self.player

    def _lay(self, card: str, laid_color: str | None) -> None:
        color = color_of(card) or laid_color
        if color is None:
            raise Impossible(f"{card} laid without a colour")
        self.events[f"laid {rank_of(card)}"] += 1
        self._turn_up(card, color)
        self.penalty = 2 if rank_of(card) == "+2" else 0
        if not self._moves_again(card):
            self.player = 1 - self.player


def points_of(card: str) -> int:
    """Return the points of a card in the loser's hand."""
    if card in WILDS:
        return 50
    return int(rank_of(card)) if rank_of(card).isdigit() else 20
