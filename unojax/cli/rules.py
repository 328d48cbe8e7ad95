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

    turned_up = "The start card has no effect."
    if wild and rules.start_card == "non_wild":
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
                f"A card is playable if it {or_wild}has the active colour or the rank of the top card. "
                "A player who holds a playable card must play one. A player who holds none draws one card, and the turn passes: "
                "that card is not played in this turn."
            ),
            "Every play declares the active colour: a coloured card its own"
            + (f", a {wild} any of the four, as its player chooses." if wild else "."),
        ],
    }
    effects = []
    if again:
        effects.append(
            f"After {again} the same player moves again: the other player's turn is forfeited."
            if rules.skip_forfeits
            else f"{again} has no effect: the turn just passes to the other player."
        )
    effects += [
        f"After {name} the other player draws {number} cards and forfeits the turn; no card can be played against it."
        for name, number in penalties.items()
    ]
    if effects:
        sections["Effects"] = effects
    sections["Deck"] = [
        "Every draw is uniformly random among the cards of the deck at that moment.",
        "If they are too few, the pile except its top card first goes back into the deck.",
        "If they are still too few, the game ends at once: the smaller hand wins, and equal hands are a draw.",
    ]
    end = ["A player whose last card is played wins at once, whatever that card was."]
    if rules.max_steps is not None:
        steps = "1 step" if rules.max_steps == 1 else f"{rules.max_steps:,} steps"
        end.append(f"A game that is not over after {steps} (plays and draws of both players) is cut off without a winner.")
    reward = "Reward: +1 for the winner and -1 for the loser at the end, 0 for both in a drawn game."
    if rules.step_penalty:
        reward += f" At each step before the end, both players' rewards are {-rules.step_penalty:+g}."
    sections["End"] = [*end, reward]
    return sections


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
