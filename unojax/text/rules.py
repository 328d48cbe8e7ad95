"""The rules in words, from a table of conditions and sentences. Imports no JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from unojax import cards
from unojax.rules import Rules


class _Words:
    """Words for `{names}` in the sentences, under some rules and for cards in the deck."""

    def __init__(self, rules: Rules):
        def names(ranks: dict[str, int]) -> list[str]:
            return [name for name, rank in ranks.items() if has_rank(rules, rank)]

        self.rules = rules
        self.cards = rules.num_cards
        self.dealt = "1 card" if rules.hand_size == 1 else f"{rules.hand_size} cards"
        self.steps = "1 step" if rules.max_steps == 1 else f"{rules.max_steps or 0:,} steps"
        self.penalty = f"{-rules.step_penalty:+g}"
        wilds = [name for name, t in (("Wild", cards.WILD_TYPE), ("Wild+4", cards.WILD_DRAW_FOUR_TYPE)) if rules.deck[t]]
        self.wild, self.fours, self.only_fours = " or ".join(wilds), "Wild+4" in wilds, wilds == ["Wild+4"]
        self.twos = has_rank(rules, cards.DRAW_TWO)
        self.again = " or ".join(names({"Skip": cards.SKIP, "Reverse": cards.REVERSE}))
        # Cards that let the same player move again, and one that just passes the turn if the others do not.
        passes = rules.skip_forfeits and rules.reverse_passes and "Reverse" in self.again
        self.passes = "Reverse" if passes else ""
        self.repeats = ("Skip" if "Skip" in self.again else "") if passes else self.again if rules.skip_forfeits else ""
        self.starts = rules.start_effects != "none"
        self.starts_four = self.starts and self.fours and rules.start_card == "any"
        self.has_start = self.starts and bool(self.again or self.twos or self.starts_four)
        self.challenge = rules.wild_draw_four == "challenge"
        self.then = "forfeits the turn" if rules.start_effects == "forfeit" else "still moves first"
        self.answer_two = _answer(rules, "+2", is_free=rules.may_draw)
        self.answer_four = _answer(rules, "Wild+4", is_free=rules.may_draw or self.challenge)
        self.answers_start = rules.stacking and rules.start_effects == "forfeit"
        self.until = rules.draw_until_playable
        self.unknown = ", ".join(f"{name}={getattr(rules, name)!r}" for name in rules.unknown)


def _answer(rules: Rules, name: str, *, is_free: bool) -> str:
    """Return the cards that answer a penalty."""
    if not rules.stacking:
        return "no card can be played against it"
    who = "it may instead play" if is_free else "if it can, it must instead play"
    return f"{who} another {name}, and the next player draws for both"


_Sentence = tuple[Callable[[_Words], Any], str]
_LAID: Final = (
    "it is laid on the pile at once, a wild with a random colour, and works as if it had been played, but a Wild+4 makes "
    "nobody draw."
)
_COLOR: Final = "the active colour is then any of the four, with equal probability."

_SENTENCES: Final[dict[str, tuple[tuple[_Sentence, ...], ...]]] = {
    "Start": (
        ((lambda w: True, "Two players, {cards} cards. They are shuffled, each player is dealt {dealt}, and one is turned up."),),
        (
            (lambda w: w.fours and w.rules.start_card == "not_draw_four", "A Wild+4 goes back and another card is turned up."),
            (
                lambda w: w.wild and not w.only_fours and w.fours and w.rules.start_card == "not_draw_four",
                f"A Wild stays; {_COLOR}",
            ),
            (lambda w: w.wild and w.rules.start_card == "non_wild", "A {wild} goes back and another card is turned up."),
            (
                lambda w: w.wild and (w.rules.start_card == "any" or (w.rules.start_card == "not_draw_four" and not w.fours)),
                f"A {{wild}} may be turned up; {_COLOR}",
            ),
            (lambda w: not w.has_start, "The start card has no effect."),
            (lambda w: w.starts and w.again, "A {again} turned up passes the first player over: the other one begins."),
            (
                lambda w: w.starts and w.twos and not w.answers_start,
                "For a +2 turned up the first player draws 2 cards and {then}.",
            ),
            (
                lambda w: w.starts and w.twos and w.answers_start,
                "For a +2 turned up the first player draws 2 cards and {then}; {answer_two}.",
            ),
            # A turned-up Wild+4 that could be challenged has no player, and no card can be played on it.
            (
                lambda w: w.starts_four and (w.challenge or not w.answers_start),
                "For a Wild+4 turned up the first player draws 4 cards and {then}.",
            ),
            (
                lambda w: w.starts_four and w.answers_start and not w.challenge,
                "For a Wild+4 turned up the first player draws 4 cards and {then}; {answer_four}.",
            ),
            (lambda w: w.rules.first_player == "zero", "Player 0 moves first."),
            (lambda w: w.rules.first_player == "random", "A fair coin decides which player moves first."),
        ),
    ),
    "Turn": (
        (
            (lambda w: w.wild, "A card is playable if it is a {wild}, or has the active colour or the rank of the top card."),
            (lambda w: not w.wild, "A card is playable if it has the active colour or the rank of the top card."),
            (
                lambda w: w.fours and w.rules.wild_draw_four == "no_color",
                "A Wild+4 is playable only by a player without a card of the active colour.",
            ),
            (
                lambda w: w.fours and w.rules.wild_draw_four == "last",
                "A Wild+4 is playable only by a player who can play nothing else.",
            ),
            (
                lambda w: w.fours and w.challenge,
                "A Wild+4 should be played without a card of the active colour only; it can be challenged.",
            ),
            (lambda w: not w.rules.may_draw, "A player who holds a playable card must play one."),
            (
                lambda w: w.rules.may_draw,
                "A player who holds a playable card may play one, or draw if there is a card to draw.",
            ),
            (
                lambda w: w.rules.play_drawn == "no" and not w.until,
                "A player who holds none draws one card, and the turn passes: that card is not played in this turn.",
            ),
            (
                lambda w: w.rules.play_drawn == "no" and w.until,
                (
                    "A player who holds none draws one card, and continues drawing until a card comes that is playable; then "
                    "the turn passes: that card is not played in this turn."
                ),
            ),
            (
                lambda w: w.rules.play_drawn == "may" and not w.until,
                (
                    "A player who holds none draws one card. If it is playable, it may be played at once (that card only); "
                    "else the turn passes."
                ),
            ),
            (
                lambda w: w.rules.play_drawn == "may" and w.until,
                (
                    "A player who holds none draws one card, and continues drawing until a card comes that is playable; it "
                    "may be played at once (that card only), or the turn passes."
                ),
            ),
            (
                lambda w: w.rules.play_drawn == "auto" and not w.until,
                (
                    f"A player who holds none draws one card. If it is wild or has the active colour, {_LAID} Else it is kept "
                    "and the turn passes."
                ),
            ),
            (
                lambda w: w.rules.play_drawn == "auto" and w.until,
                (
                    "A player who holds none draws one card, and continues drawing until a card comes that is wild or has the "
                    f"active colour; {_LAID}"
                ),
            ),
        ),
        (
            (
                lambda w: w.wild,
                (
                    "Every play declares the active colour: a coloured card its own, a {wild} any of the four, as its "
                    "player chooses."
                ),
            ),
            (lambda w: not w.wild, "Every play declares the active colour: a coloured card its own."),
        ),
    ),
    "Effects": (
        (
            (lambda w: w.repeats, "After {repeats} the same player moves again: the other player's turn is forfeited."),
            (lambda w: w.passes, "{passes} has no effect: the turn just passes to the other player."),
            (
                lambda w: w.again and not w.rules.skip_forfeits,
                "{again} has no effect: the turn just passes to the other player.",
            ),
        ),
        ((lambda w: w.twos, "After +2 the other player draws 2 cards and forfeits the turn; {answer_two}."),),
        ((lambda w: w.fours, "After Wild+4 the other player draws 4 cards and forfeits the turn; {answer_four}."),),
        (
            (
                lambda w: w.fours and w.challenge,
                (
                    "Before drawing for a Wild+4, the other player may challenge it. If its player held a card of the colour "
                    "that was active before, that player draws the cards instead, and the challenger moves. If not, the "
                    "challenger draws 2 cards more and forfeits the turn. Which of the two it is, is announced; the hand is "
                    "not shown."
                ),
            ),
        ),
    ),
    "Deck": (
        ((lambda w: True, "Every draw is uniformly random among the cards of the deck at that moment."),),
        (
            (
                lambda w: not w.rules.reshuffle_top,
                "If they are too few, the pile except its top card first goes back into the deck.",
            ),
            (
                lambda w: w.rules.reshuffle_top,
                "If they are too few, the pile first goes back into the deck; the top card's colour and rank stay in force.",
            ),
        ),
        (
            (
                lambda w: True,
                "If they are still too few, the game ends at once: the smaller hand wins, and equal hands are a draw.",
            ),
        ),
    ),
    "End": (
        ((lambda w: True, "A player whose last card is played wins at once, whatever that card was."),),
        (
            (
                lambda w: w.rules.max_steps is not None,
                "A game that is not over after {steps} (plays and draws of both players) is cut off without a winner.",
            ),
        ),
        (
            (
                lambda w: not w.rules.points,
                "Reward: +1 for the winner and -1 for the loser at the end, 0 for both in a drawn game.",
            ),
            (
                lambda w: w.rules.points,
                (
                    "The winner scores the cards in the loser's hand: 0-9 their number, Skip, Reverse and +2 20, Wild and "
                    "Wild+4 50. 500 points win a match. Reward: the points, as a share of 500, for the winner, and as much "
                    "less for the loser; 0 for both in a drawn game."
                ),
            ),
            (lambda w: w.rules.step_penalty, "At each step before the end, both players' rewards are {penalty}."),
        ),
    ),
    "Not described here": (((lambda w: w.unknown, "{unknown}."),),),
    "Left out of the official sheet": (
        ((lambda w: w.rules.name == "official", 'Calling "UNO" with one card left, and the 2 cards for forgetting it.'),),
        (
            (
                lambda w: w.rules.name == "official",
                "A Wild turned up at the start goes back; on the sheet it stays, and the first player names its colour.",
            ),
        ),
        (
            (
                lambda w: w.rules.name == "official",
                "A challenged hand is not shown to the challenger, only whether the play was right.",
            ),
        ),
        (
            (
                lambda w: w.rules.name == "official",
                "After a last +2 or Wild+4 the loser does not draw: its cards count as they are.",
            ),
        ),
    ),
}
"""Paragraphs under each heading, as sentences with their conditions."""


def rules_in_words(rules: Rules) -> dict[str, list[str]]:
    """Return the rules as paragraphs under headings, for cards in the deck."""
    words = _Words(rules)
    sections = {}
    for heading, paragraphs in _SENTENCES.items():
        said = [" ".join(text.format_map(vars(words)) for holds, text in rows if holds(words)) for rows in paragraphs]
        if said := [paragraph for paragraph in said if paragraph]:
            sections[heading] = said
    return sections


def has_rank(rules: Rules, rank: int) -> bool:
    """Return whether the deck holds a coloured card of a rank."""
    return any(rules.deck[rank : cards.WILD_TYPE : cards.NUM_COLORED_RANKS])
