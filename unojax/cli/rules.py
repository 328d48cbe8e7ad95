"""`unojax rules`: the rules in words, under the rule options, and the cards of the deck."""

from __future__ import annotations

import tyro
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unojax import cards
from unojax.cli.options import DescribedRuleOptions, command
from unojax.rules import Rules
from unojax.terminal import tables
from unojax.text.rules import has_rank, rules_in_words


@command
class ShowRules:
    """Print the rules in words, as the options have them, and the cards."""

    rules: tyro.conf.OmitArgPrefixes[DescribedRuleOptions] = DescribedRuleOptions()

    def run(self) -> int:
        rules = self.rules.build()
        for heading, paragraphs in rules_in_words(rules).items():
            tables.show(Text(heading, style="bold"), *(Padding(paragraph, (0, 0, 0, 2)) for paragraph in paragraphs))
        wilds = "wild     {} Wild, {} Wild+4".format(*rules.deck[cards.WILD_TYPE :])
        tables.show("", card_table(rules), wilds)
        return 0


def card_table(rules: Rules) -> Table:
    """Count the copies of each card; missing colours and ranks are omitted."""
    ranks = [rank for rank in range(cards.NUM_COLORED_RANKS) if has_rank(rules, rank)]
    table = tables.grid(f"The {rules.num_cards} cards", ("",), [*(cards.RANK_NAMES[rank] for rank in ranks), "sum"])
    for color, name in enumerate(cards.COLOR_NAMES):
        copies = rules.deck[color * cards.NUM_COLORED_RANKS : (color + 1) * cards.NUM_COLORED_RANKS]
        if any(copies):
            table.add_row(Text(name, style=name), *(str(copies[rank]) for rank in ranks), str(sum(copies)))
    return table
