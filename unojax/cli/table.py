"""`unojax table`: a game of other people, tracked at a real table."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Optional

import tyro

from unojax.cli.options import CountOrNone, Flag, RuleOptions, Seed, Whole, naming_options
from unojax.cli.targets import SAVED_GAME
from unojax.rules import Rules
from unojax.search import TABLE_SEARCH

if TYPE_CHECKING:
    from unojax.games.at_table import Table


@dataclass(frozen=True)
class FollowTable:
    """Follow a game at a real table: enter what happens, and see what the other player may hold and what to play."""

    hand: Annotated[
        Optional[str], tyro.conf.arg(metavar="CARDS", help="Your cards: 'R1 RS W'. None: the command asks for them.")
    ] = None
    top: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="CARD", help="The top card of the pile: R0; a wild one with the active colour: W:B. None: as above."
        ),
    ] = None
    opponent_begins: Annotated[Flag, tyro.conf.arg(help="The other player moves first.")] = False
    opponent: Annotated[
        CountOrNone,
        tyro.conf.arg(help="How many cards the other player holds, to begin in the midst of a game. None: as many as are dealt."),
    ] = None
    pile: Annotated[
        str, tyro.conf.arg(metavar="CARDS", help="With --opponent: the cards under the top one, as far as they are known.")
    ] = ""
    penalty: Annotated[
        str, tyro.conf.arg(metavar="N|N?COLOR", help="With --opponent: cards to be drawn now, as in unojax advise --penalty.")
    ] = ""
    save: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json", help="Save the game there after every event, as you saw it. An older one is replaced."
        ),
    ] = None
    resume: Annotated[
        Optional[str],
        tyro.conf.arg(
            metavar="FILE.json", help="Resume a game that was saved there; it is saved there again, or where --save says."
        ),
    ] = field(default=None, metadata=SAVED_GAME)
    agent: Annotated[
        str, tyro.conf.arg(metavar="SPEC", help="The search behind belief and advice: mc or tree, with parameters.")
    ] = TABLE_SEARCH
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same figures on the same device.")] = 0
    web: Annotated[
        Flag, tyro.conf.arg(help="Follow the game in the browser, by clicks: a page from this machine, for this machine alone.")
    ] = False
    port: Annotated[Whole, tyro.conf.arg(help="Where the page is served, with --web. 0: any that is free.")] = 8378
    browser: Annotated[bool, tyro.conf.arg(help="Open the page in the browser, with --web.")] = True
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        self._check()
        rules = self.rules.build()
        if self.web:
            return self._serve(rules)
        from rich.console import Console

        from unojax.terminal.conversation import read_line
        from unojax.terminal.table_conversation import TableConversation, complete_words, words_of

        path = self.resume if self.save is None else self.save
        console = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
        table = _start(self, rules)
        complete_words(lambda: words_of(table))
        animate = sys.stdout.isatty() and console.is_interactive
        return TableConversation(table, read_line, console, path, animate=animate).run()

    def _serve(self, rules: Rules) -> int:
        """Serve the page until Ctrl-C; it asks for the cards of the deal that the options omit."""
        from unojax.cli.serving import serve_page
        from unojax.games.advising import read_search

        table = _start(self, rules) if self.resume or self.hand else None
        read_search(self.agent, rules)

        def defaults() -> Any:
            from unojax.web.tables import TableDefaults

            return TableDefaults(rules, self.agent, self.seed, table)

        return serve_page("table", defaults, port=self.port, browser=self.browser)

    def _check(self) -> None:
        """Check that the options are compatible. Raises ValueError otherwise."""
        default = FollowTable()
        if self.resume is not None:
            names = ("hand", "top", "opponent_begins", "opponent", "pile", "penalty", "seed", "rules")
            if given := [name for name in names if getattr(self, name) != getattr(default, name)]:
                what = "options of the rules" if given[0] == "rules" else f"--{given[0].replace('_', '-')}"
                raise ValueError(f"--resume brings start, seed and rules of the saved game: remove {what}")
        elif self.opponent is None and (self.pile or self.penalty):
            raise ValueError("--pile and --penalty belong to the midst of a game: add --opponent")
        if not 0 <= self.port < 2**16:
            raise ValueError(f"--port must be in [0, {2**16 - 1}], got {self.port}")
        if self.web and self.save is not None:
            raise ValueError("the page keeps and saves games itself: remove --save, or --web")
        if self.web and (self.hand is None) != (self.top is None):
            raise ValueError("with --web give both --hand and --top, or neither: the page asks for them")
        if not self.web and (self.port != default.port or not self.browser):
            raise ValueError("--port and --no-browser have no effect without --web: add --web, or remove them")


def _start(request: FollowTable, rules: Rules) -> Table:
    """Set up the table, or resume a saved game; ask for what the options omit."""
    from unojax.games.at_table import Table
    from unojax.terminal.conversation import read_line

    if request.resume is not None:
        return Table.resume(request.resume, agent=request.agent)
    hand, top, opponent_begins = request.hand, request.top, request.opponent_begins
    if hand is None:
        hand = read_line("your cards> ")
    if top is None:
        top = read_line("top card> ")
        if not opponent_begins:
            opponent_begins = read_line("who begins, you or they (y, t)> ").strip().lower().startswith("t")
    midst = {"opponent": request.opponent, "pile": request.pile, "penalty": request.penalty}
    begins = {"opponent_begins": opponent_begins, "rules": rules, "agent": request.agent, "seed": request.seed}
    with naming_options(request):
        return Table(hand, top, **midst, **begins)
