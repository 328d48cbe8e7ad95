"""`unojax table`: a game of other people, tracked at a real table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from unojax.cli.options import CountOrNone, Flag, RuleFields, RuleOptions, Seed, command, given, naming_options, option
from unojax.cli.serving import PageFields, PageOptions
from unojax.cli.targets import file_of_game
from unojax.rules import Rules
from unojax.search import TABLE_SEARCH

if TYPE_CHECKING:
    from unojax.games.at_table import Table


@command
class FollowTable:
    """Track a game at a real table: enter its events, see the belief and the advice."""

    hand: Optional[str] = option(None, "Your cards: 'R1 RS W'. None: the command asks for them.", "CARDS")
    top: Optional[str] = option(
        None, "The top card of the pile: R0; a wild one with the active colour: W:B. None: as above.", "CARD"
    )
    opponent_begins: Flag = option(False, "The other player moves first.")
    opponent: CountOrNone = option(None, "Number of cards in the other hand, to begin in mid-game. none: as many as are dealt.")
    pile: str = option("", "With --opponent: the cards under the top one, as far as they are known.", "CARDS")
    penalty: str = option("", "With --opponent: cards to be drawn now, see unojax advise --penalty.", "N|N?COLOR")
    save: Optional[str] = option(
        None,
        "Save the game after every event, as you saw it. It replaces a finished game; an unfinished one is not overwritten.",
        "FILE.json",
    )
    resume: Optional[str] = option(
        None,
        "Resume a saved game. It is saved there again, or where --save says.",
        "FILE.json",
        is_saved_game=True,
    )
    agent: str = option(TABLE_SEARCH, "The search behind belief and advice: mc or tree, with parameters.", "SPEC")
    seed: Seed = option(0, "The same seed gives the same figures on the same device.")
    page: PageFields = PageOptions(port=8378)
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        self._check()
        rules = self.rules.build()
        if self.page.web:
            return self._serve(rules)
        from unojax.terminal.table_conversation import TableConversation, complete_words, words_of

        path = file_of_game(self.save, self.resume)
        if self.resume is not None and path == self.resume:
            _check_shows_one_hand(self.resume)
        if (table := _start(self, rules)) is None:
            return 0
        complete_words(lambda: words_of(table))
        return TableConversation(table, path).run()

    def _serve(self, rules: Rules) -> int:
        from unojax.games.advising import read_search

        table = _start(self, rules) if self.resume or self.hand else None
        read_search(self.agent, rules)

        def defaults() -> Any:
            from unojax.web.tables import TableDefaults

            return TableDefaults(rules, self.agent, self.seed, table)

        return self.page.serve("table", defaults)

    def _check(self) -> None:
        self.page.check(FollowTable.page)
        if self.resume is not None:
            if others := given(self, "hand", "top", "opponent_begins", "opponent", "pile", "penalty", "seed", "rules"):
                raise ValueError(f"--resume continues with the start, seed and rules of the saved game: remove {others[0]}")
        elif self.opponent is None and (self.pile or self.penalty):
            raise ValueError("--pile and --penalty describe a game in progress: add --opponent")
        if self.page.web and self.save is not None:
            raise ValueError("--save has no effect with --web, whose page keeps games: remove one of them")
        if self.page.web and (self.hand is None) != (self.top is None):
            raise ValueError("--web needs both --hand and --top, or neither: the page asks for them")


def _check_shows_one_hand(path: str) -> None:
    """Check that a game with both hands is not overwritten by one player's view of it."""
    from unojax.games.gamefile import read_game

    if not read_game(path).shows_one_hand:
        raise ValueError(
            f"--resume: the game in {path!r} has both hands, and a table would keep one player's view of it: unojax play "
            "--resume continues it; to track it at a table, add --save with another name"
        )


def _start(request: FollowTable, rules: Rules) -> Table | None:
    """Set up the table, or resume a saved game; ask for what the options omit. None: the person stopped."""
    from unojax.games.advising import read_search
    from unojax.games.at_table import Table
    from unojax.terminal.table_conversation import ask_for_table

    if request.resume is not None:
        return Table.resume(request.resume, agent=request.agent)
    midst: dict[str, Any] = {"opponent": request.opponent, "pile": request.pile, "penalty": request.penalty}

    def begin(hand: str, top: str, *, opponent_begins: bool) -> Table:
        with naming_options(request):
            others = midst | {"rules": rules, "agent": request.agent, "seed": request.seed}
            return Table(hand, top, opponent_begins=opponent_begins, **others)

    if request.hand is not None and request.top is not None:
        return begin(request.hand, request.top, opponent_begins=request.opponent_begins)
    read_search(request.agent, rules)
    return ask_for_table(begin, request.hand, request.top, opponent_begins=request.opponent_begins)
