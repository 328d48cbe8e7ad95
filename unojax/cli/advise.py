"""`unojax advise`: advice for a position, from the observations of the player to move."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final, Optional

import tyro

from unojax.cli import output
from unojax.cli.options import (
    CountOrNone,
    Flag,
    JsonTarget,
    PlayerOrNone,
    Quiet,
    RuleFields,
    RuleOptions,
    Seed,
    Whole,
    command,
    naming_options,
    option,
)
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.question import check_effort, check_words
from unojax.search import ADVISE_REPLICATES, DEFAULT_SEARCH
from unojax.terminal import person, tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unojax.games.advising import Advised

_MAX_BARS: Final = 54


@command
class Advise:
    """Say what to play in a position, and how likely each play is to win."""

    position: tyro.conf.Positional[Optional[str]] = option(
        None,
        "What the player to move sees: unojax.format_position's line with the number of the other player's cards in "
        "place of that hand, 'B7,R2,W/3/Y5/* R5 0 0 0 - *', or the lines of unojax.format_observation. Of a line with both "
        "hands, the other one is ignored. -: read from standard input. Instead: --hand, --top and --opponent.",
        "POSITION",
    )
    hand: Optional[str] = option(None, "The player's cards, in place of POSITION: 'R1 RS W'.", "CARDS")
    top: Optional[str] = option(None, "The top card of the pile: R0; a wild one with the declared colour: W:B.", "CARD")
    opponent: CountOrNone = option(None, "Number of cards in the other hand.")
    opponent_begins: Flag = option(False, "The other player moves first, with --hand.")
    pile: str = option("", "The cards under the top one, as far as they are known: 'R2 G2 GS'.", "CARDS")
    penalty: str = option(
        "",
        "The cards that the player must draw now, after a +2 or Wild+4: 2, 4, or more where penalties add up (name the "
        "other +2 or Wild+4 with --pile). Of a Wild+4 that may be challenged with the colour that was active before it: "
        "'4?R'.",
        "N|N?COLOR",
    )
    history: str = option(
        "",
        "Actions since POSITION, separated by blanks: R5, YS, W:B (wild, colour), draw(R5,W) for cards that the "
        "player drew and draw for a draw of the other, draw+ if that left its turn open, pass, challenge, challenge(won) or "
        "challenge(lost) for the player's own. The advice is for the position after them; the belief uses "
        "them.",
        "ACTIONS",
    )
    player: PlayerOrNone = option(None, "Player to advise, if POSITION has both hands. none: the player to move after --history.")
    agent: str = option(
        DEFAULT_SEARCH,
        "The search: mc or tree, with parameters as in mc:rollouts=4000,policy=guard,belief=unseen,model=uniform.",
        "SPEC",
    )
    replicates: CountOrNone = option(
        None, f"Repeat the search N times with fresh samples and pool them. none: {ADVISE_REPLICATES}."
    )
    seconds: Optional[float] = option(None, "Repeat the search for so long instead, not counting compilation.", "S")
    seed: Seed = option(0, "The same seed and replicates give the same advice on the same device.")
    bars: Whole = option(12, "Show the N cards that the other player most likely holds.")
    json: JsonTarget = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        check_effort(self.replicates, self.seconds, "--")
        if not 0 <= self.bars <= _MAX_BARS:
            raise ValueError(f"--bars must be in [0, {_MAX_BARS}], got {self.bars}")
        check_words(self.position, vars(self), "--")
        rules = self.rules.build()
        from unojax.games.advising import COMPILING, improve, read_game, read_search
        from unojax.games.seen import ImpossibleActionError

        setting = output.setting_of(rules)
        position = _read_position() if self.position == output.STDIN else self.position
        words = {name: getattr(self, name) for name in ("hand", "top", "opponent", "pile", "penalty", "opponent_begins")}
        advised, stopped = None, False
        try:
            with output.status(person.COMPILING, quiet=self.quiet) as status, naming_options(self):

                def say(words: str) -> None:
                    status.update(person.COMPILING if words == COMPILING else words)

                search = read_search(self.agent, rules)
                how = {"replicates": self.replicates, "seconds": self.seconds, "seed": self.seed}
                game = read_game(position, words, history=self.history, player=self.player, rules=rules)
                answers = improve(game, search, **how, on_status=say)
                # The last answer is shown, also after Ctrl-C.
                while (latest := next(answers, None)) is not None:
                    advised = latest
        except ImpossibleActionError as error:
            raise ValueError(f"--history: {error}") from None
        except KeyboardInterrupt:
            if advised is None:
                raise
            stopped = True
        assert advised is not None
        if stopped:
            output.note("advise", f"stopped after {advised.seconds:.1f} s of the search")
        results = partial(advised.report, seed=self.seed, agent=self.agent)
        output.report("advise", self.json, partial(_tables, self, advised), results, setting)
        return EXIT_INTERRUPTED if stopped else 0


def _tables(request: Advise, advised: Advised) -> list[RenderableType]:
    from rich.text import Text

    from unojax.terminal import advice
    from unojax.terminal.cards import view_lines

    end = advised.game.end
    main: RenderableType = Text(advice.no_choice(end) + "\n", style="bold")
    if advised.pooled is not None:
        main = advice.plays(advised.pooled, advised.agent, has_drawn=bool(end.has_drawn))
    return [*view_lines(end), "", advice.belief(advised.belief, end, request.bars), main, tables.facts(_facts(request, advised))]


def _read_position() -> str:
    """Read a position from standard input: one line, or the lines of `format_observation`."""
    try:
        text = sys.stdin.read().removeprefix("\ufeff").strip() if sys.stdin is not None else ""
    except UnicodeDecodeError:
        raise ValueError("POSITION -: standard input is not text") from None
    if not text:
        raise ValueError("POSITION -: standard input is empty")
    return text


def _facts(request: Advise, advised: Advised) -> dict[str, str]:
    from unojax.belief.updaters import UniformFilter
    from unojax.specs import settings_of
    from unojax.viz.words import plays_like

    game, belief, pooled, agent = advised.game, advised.belief, advised.pooled, advised.agent
    other = 1 - int(game.end.player)
    if isinstance(agent.updater, UniformFilter):
        basis = "any of the cards not seen, all hands alike"
    elif game.actions:
        model = settings_of(agent.name)["model"]
        taken = f"{plays_like(advised.types)}, one of {model}" if advised.types else f"taken for {model}"
        basis = f"from {tables.count(len(game.actions), 'action')}, player {other} {taken}"
    else:
        basis = "from this position alone, any cards not seen; --history would sharpen it"
    facts = {"Belief": f"{basis}; {belief.num_hands:,} hands, ESS {belief.ess:,.0f}"}
    if request.position is not None and not game.shows_one_hand:
        facts["Hidden"] = f"the hand of player {other} was given and not looked at"
    if pooled is not None:
        facts["Search"] = (
            f"{request.agent}; in its rollouts {agent.whom_rollouts_follow}; {pooled.replicates} replicates in "
            f"{advised.seconds:.2f} s, seed {request.seed}"
        )
    return facts | {"Rules": tables.rules_text(game.end.rules)}
