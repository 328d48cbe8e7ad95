"""`unojax rules`: the rules in words, as the rule options have them, and the cards of the deck."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import tyro

from unojax.cli.options import RuleOptions

if TYPE_CHECKING:
    from rich.table import Table

    from unojax.rules import Rules


@dataclass(frozen=True)
class ShowRules:
    """Print the rules in words, as the options have them, and the cards."""

    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        rules = self.rules.build()
        from rich.padding import Padding
        from rich.text import Text

        from unojax import cards
        from unojax.cli import output

        for heading, sentences in rules_in_words(rules).items():
            output.show(Text(heading, style="bold"), *(Padding(sentence, (0, 0, 0, 2)) for sentence in sentences))
        output.show("", card_table(rules), "wild     {} Wild, {} Wild+4".format(*rules.deck[cards.WILD_TYPE :]))
        return 0


def rules_in_words(rules: Rules) -> dict[str, list[str]]:
    """Write the rules as sentences under headings. They speak only of cards that the deck holds."""
    from unojax import cards

    wilds = [name for name, t in (("Wild", cards.WILD_TYPE), ("Wild+4", cards.WILD_DRAW_FOUR_TYPE)) if rules.deck[t]]
    wild = " or ".join(wilds)
    or_wild = f"is a {wild}, or " if wild else ""
    again = " or ".join(name for name, rank in (("Skip", cards.SKIP), ("Reverse", cards.REVERSE)) if _has_rank(rules, rank))
    penalties = {"+2": 2} if _has_rank(rules, cards.DRAW_TWO) else {}
    if "Wild+4" in wilds:
        penalties["Wild+4"] = 4

    turned_up = _start_effects(rules, again, penalties)
    if rules.start_card == "not_draw_four" and "Wild+4" in wilds:
        stays = " A Wild stays; the active colour is then any of the four, with equal probability." if "Wild" in wilds else ""
        turned_up = f"A Wild+4 goes back and another card is turned up.{stays} {turned_up}"
    elif wild and rules.start_card == "non_wild":
        turned_up = f"A {wild} goes back and another card is turned up. " + turned_up
    elif wild:
        turned_up = f"A {wild} may be turned up; the active colour is then any of the four, with equal probability. " + turned_up
    dealt = "1 card" if rules.hand_size == 1 else f"{rules.hand_size} cards"
    first = "Player 0 moves first." if rules.first_player == "zero" else "A fair coin decides which player moves first."
    sections = {
        "Start": [
            f"Two players, {rules.num_cards} cards. They are shuffled, each player is dealt {dealt}, and one is turned up.",
            f"{turned_up} {first}",
        ],
        "Turn": [
            (
                f"A card is playable if it {or_wild}has the active colour or the rank of the top card."
                f"{_wild_draw_four(rules) if 'Wild+4' in wilds else ''} {_turn(rules)}"
            ),
            "Every play declares the active colour: a coloured card its own"
            + (f", a {wild} any of the four, as its player chooses." if wild else "."),
        ],
    }
    effects = []
    if again:
        effects.append(
            _moves_again(rules, again)
            if rules.skip_forfeits
            else f"{again} has no effect: the turn just passes to the other player."
        )
    effects += [
        f"After {name} the other player draws {number} cards and forfeits the turn; {_answer(rules, name)}."
        for name, number in penalties.items()
    ]
    if rules.wild_draw_four == "challenge" and "Wild+4" in penalties:
        effects.append(
            "Before drawing for a Wild+4, the other player may challenge it. If who played it held a card of the colour that was "
            "active before, that player draws the cards instead, and the challenger moves. If not, the challenger draws 2 cards "
            "more and forfeits the turn. Which of the two it is, is announced; the hand is not shown."
        )
    if effects:
        sections["Effects"] = effects
    sections["Deck"] = [
        "Every draw is uniformly random among the cards of the deck at that moment.",
        "If they are too few, the pile"
        + ("" if rules.reshuffle_top else " except its top card")
        + " first goes back into the deck"
        + ("; the top card's colour and rank stay in force." if rules.reshuffle_top else "."),
        "If they are still too few, the game ends at once: the smaller hand wins, and equal hands are a draw.",
    ]
    end = ["A player whose last card is played wins at once, whatever that card was."]
    if rules.max_steps is not None:
        steps = "1 step" if rules.max_steps == 1 else f"{rules.max_steps:,} steps"
        end.append(f"A game that is not over after {steps} (plays and draws of both players) is cut off without a winner.")
    reward = "Reward: +1 for the winner and -1 for the loser at the end, 0 for both in a drawn game."
    if rules.points:
        reward = (
            "The winner scores the cards in the loser's hand: 0-9 their number, Skip, Reverse and +2 20, Wild and Wild+4 50. 500 "
            "points win a match. Reward: the points, as a share of 500, for the winner, and as much less for the loser; 0 for "
            "both in a drawn game."
        )
    if rules.step_penalty:
        reward += f" At each step before the end, both players' rewards are {-rules.step_penalty:+g}."
    sections["End"] = [*end, reward]
    if rules.name == "official":
        sections["Left out of the official sheet"] = [
            'Calling "UNO" with one card left, and the 2 cards for forgetting it.',
            "A challenged hand is not shown to the challenger, only whether the play was right.",
            "After a last +2 or Wild+4 the loser does not draw: its cards count as they are.",
        ]
    return sections


def _start_effects(rules: Rules, again: str, penalties: dict[str, int]) -> str:
    """Say what a start card does."""
    draws = {name: n for name, n in penalties.items() if name == "+2" or rules.start_card == "any"}
    if rules.start_effects == "none" or not (again or draws):
        return "The start card has no effect."
    said = []
    if again:
        said.append(f"A {again} turned up passes the first player over: the other one begins.")
    for name, number in draws.items():
        then = "forfeits the turn" if rules.start_effects == "forfeit" else "still moves first"
        # Turned up, a Wild+4 that could be challenged was played by nobody, and no card goes on it.
        if rules.start_effects == "forfeit" and rules.stacking and not (name == "Wild+4" and rules.wild_draw_four == "challenge"):
            then += f"; {_answer(rules, name)}"
        said.append(f"For a {name} turned up the first player draws {number} cards and {then}.")
    return " ".join(said)


def _wild_draw_four(rules: Rules) -> str:
    """Say when a Wild+4 is playable, unless it always is."""
    return {
        "any": "",
        "no_color": " A Wild+4 is playable only by a player without a card of the active colour.",
        "last": " A Wild+4 is playable only by a player who can play nothing else.",
        "challenge": " A Wild+4 should be played without a card of the active colour only; it can be challenged.",
    }[rules.wild_draw_four]


def _turn(rules: Rules) -> str:
    """Say what a player may do in a turn."""
    must = "A player who holds a playable card may play one, or draw if there is a card to draw. Who holds none draws"
    if not rules.may_draw:
        must = "A player who holds a playable card must play one. A player who holds none draws"
    until = ", and goes on drawing until a card comes that" if rules.draw_until_playable else ". If it"
    after = {
        "no": " is playable; then the turn passes: that card is not played in this turn.",
        "may": " is playable, it may be played at once (that card only); else the turn passes.",
        "auto": " is wild or has the active colour, it is laid on the pile at once, a wild with a random colour, and works as if "
        "it had been played, but a Wild+4 makes nobody draw. Else it is kept and the turn passes.",
    }[rules.play_drawn]
    if rules.play_drawn == "no" and not rules.draw_until_playable:
        return f"{must} one card, and the turn passes: that card is not played in this turn."
    if rules.play_drawn == "auto" and rules.draw_until_playable:
        after = after.replace(" Else it is kept and the turn passes.", "").replace(", it is laid", "; it is laid")
    if rules.play_drawn == "may" and rules.draw_until_playable:
        after = " is playable; it may be played at once (that card only), or the turn passes."
    return f"{must} one card{until}{after}"


def _moves_again(rules: Rules, again: str) -> str:
    """Say which cards let the same player move again."""
    if rules.reverse_passes and "Reverse" in again:
        passes = "Reverse has no effect: the turn just passes to the other player."
        skips = "After Skip the same player moves again: the other player's turn is forfeited. "
        return (skips if "Skip" in again else "") + passes
    return f"After {again} the same player moves again: the other player's turn is forfeited."


def _answer(rules: Rules, name: str) -> str:
    """Say what can be played against a penalty."""
    if not rules.stacking:
        return "no card can be played against it"
    is_free = rules.may_draw or (name == "Wild+4" and rules.wild_draw_four == "challenge")
    who = "it may instead play" if is_free else "if it can, it must instead play"
    return f"{who} another {name}, and the next player draws for both"


def card_table(rules: Rules) -> Table:
    """Count the copies of each card in the deck; colours and ranks that it lacks are left out."""
    from rich.text import Text

    from unojax import cards
    from unojax.cli import output

    ranks = [rank for rank in range(cards.NUM_COLORED_RANKS) if _has_rank(rules, rank)]
    table = output.grid(title=f"The {rules.num_cards} cards")
    table.add_column("")
    for rank in ranks:
        table.add_column(cards.RANK_NAMES[rank], justify="right")
    table.add_column("sum", justify="right")
    for color, name in enumerate(cards.COLOR_NAMES):
        copies = rules.deck[color * cards.NUM_COLORED_RANKS : (color + 1) * cards.NUM_COLORED_RANKS]
        if any(copies):
            table.add_row(Text(name, style=name), *(str(copies[rank]) for rank in ranks), str(sum(copies)))
    return table


def _has_rank(rules: Rules, rank: int) -> bool:
    from unojax import cards

    return any(rules.deck[rank : cards.WILD_TYPE : cards.NUM_COLORED_RANKS])
