"""`unojax belief`: a belief about the other hand, turn by turn through one game."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Optional, cast

from unojax.cli import output
from unojax.cli.options import (
    POLICY_HELP,
    Count,
    CountOrNone,
    Flag,
    JsonTarget,
    Quiet,
    RuleFields,
    RuleOptions,
    Seed,
    SeedOrNone,
    WholeOrNone,
    blaming,
    command,
    get_opponent,
    option,
)
from unojax.rules import Rules
from unojax.specs import check_policy_names, load_policies
from unojax.terminal import person, tables

if TYPE_CHECKING:
    from jax import Array
    from rich.console import RenderableType
    from rich.status import Status

    from unojax.analysis.turns import BeliefReport, BeliefTurn, Summary
    from unojax.belief.updaters import ParticleFilter
    from unojax.games.seen import SeenGame

_MAX_PARTICLES: Final = 2**20


@command
class ShowBelief:
    """Show what one player can know of the other's hand, turn by turn through a game."""

    seed: Seed = option(0, "The same seed gives the same game, and on the same device the same belief.")
    belief_seed: SeedOrNone = option(
        None,
        "Seed of the particles: beliefs of the same game with different seeds differ by their errors. none: --seed.",
    )
    policies: tuple[str, str] = option(("uniform", "uniform"), f"Players 0 and 1. {POLICY_HELP}", "A B")
    player: Literal[0, 1] = option(0, "The player whose knowledge is shown.")
    particles: Count = option(1024, "Number of hypothetical hands in the belief.")
    opponent_model: str = option(
        "uniform",
        "Model of the other player's choices. uniform: any legal action. consistent: a play shows only that the card was "
        "held. A policy: guard+0.05 acts at random with probability 0.05, as guard does by default. Several, as in "
        "uniform|guard*2|linear: the belief infers the type, with the second twice as likely at first. family, minimax, "
        "peer: named lists of types.",
        "MODEL",
    )
    start: Optional[str] = option(
        None,
        "Initial position instead of a deal, in the notation of unojax.format_position; needs --actions: "
        "'B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 0 - *'.",
        "POSITION",
    )
    actions: Optional[str] = option(
        None,
        "Actions from --start, separated by blanks: R5, YS, G+2, W:B (wild, colour), W+4:R, draw. The cards of a "
        "draw, of either player, can be named, as in draw(R5,W); else they are random.",
        "ACTIONS",
    )
    game: Optional[str] = option(
        None,
        "Follow a game that unojax play or unojax table saved, under its own rules. A game of unojax table is followed "
        "as its player saw it, without the truth.",
        "FILE.json",
        is_saved_game=True,
    )
    steps: CountOrNone = option(
        None, "Stop after N turns, a play or a whole draw each. none: a game of policies stops after 1,000."
    )
    turn: WholeOrNone = option(None, "Show turn N alone and in full; turn 0 is the deal.")
    hide_truth: Flag = option(False, "Omit the other player's real hand.")
    json: JsonTarget = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        self._check()
        rules = self.rules.build()
        import jax

        from unojax.analysis.turns import summarize
        from unojax.belief.updaters import ParticleFilter

        filter = ParticleFilter(self.particles, get_opponent(self.opponent_model))
        setting = output.setting_of(rules)
        key = jax.random.key(self.seed, impl="threefry2x32")
        request = self
        with output.status("the game", quiet=self.quiet) as status:
            game = _game(self, key, rules)
            rules = game.start.rules
            if game.shows_one_hand:
                # The file holds one player's view only.
                request = replace(self, player=cast(Any, game.player), hide_truth=True)
            game = game.since_count()
            first, last = game.steps_before, game.num_steps
            if self.turn is not None and not first <= self.turn <= last:
                raise ValueError(f"--turn must be in [{first}, {last}], the turns of this game, got {self.turn}")
            # A separate stream: the game is independent of beliefs about it.
            if self.belief_seed is not None:
                key = jax.random.key(self.belief_seed, impl="threefry2x32")
            turns = _show_turns(request, game, filter, jax.random.fold_in(key, 2), status)
        summary = summarize(turns)
        setting = replace(setting, rules=rules)
        output.report(
            "belief",
            self.json,
            lambda: _tables(self, turns, summary, rules),
            lambda: _report(request, game, turns, summary),
            setting,
        )
        return 0

    def _check(self) -> None:
        check_policy_names(self.policies)
        if (self.start is None) != (self.actions is None):
            raise ValueError("--start and --actions need each other: give both")
        if self.game is not None and (self.start is not None or self.rules != RuleOptions()):
            raise ValueError("--game has a start, actions and rules of its own: remove --start, --actions and those of the rules")
        if self.policies != ("uniform", "uniform") and not (self.start is None and self.game is None):
            raise ValueError("--policies play a new game, but with --start or --game all actions are given: remove one of them")
        if self.turn is not None and self.turn < 0:
            raise ValueError(f"--turn must be at least 0, the start, got {self.turn}")
        if self.particles > _MAX_PARTICLES:
            raise ValueError(f"--particles must be at most {_MAX_PARTICLES}, got {self.particles}")


def _show_turns(request: ShowBelief, game: SeenGame, filter: ParticleFilter, key: Array, status: Status) -> list[BeliefTurn]:
    """Show the turns when they are ready, up to the requested one."""
    from unojax.analysis.turns import track_turns
    from unojax.terminal import belief

    with_truth, last = not request.hide_truth, game.num_steps
    shows_all = request.json != output.STDOUT and request.turn is None
    # If another program shows the output, a status line would overwrite it.
    shows_status = output.shows_progress(quiet=request.quiet) and (sys.stdout.isatty() or not shows_all)
    turns: list[BeliefTurn] = []
    status.update(person.COMPILING)
    for turn in track_turns(game, request.player, key, filter):
        # While a status line runs, rich sends printed output to the status line's stream.
        status.stop()
        if shows_all and not turns:
            tables.show(belief.legend(request.player, with_truth=with_truth), "")
        turns.append(turn)
        if shows_all:
            tables.show(belief.compact(turn, with_truth=with_truth))
        elif turn.number == request.turn:
            if request.json != output.STDOUT:
                tables.show(belief.full(turn, with_truth=with_truth))
            break
        # The first turn after the start is compiled too.
        if len(turns) > 1:
            status.update(f"turn {turn.number} of {last}")
        if shows_status and turn.number < last:
            status.start()
    return turns


def _game(request: ShowBelief, key: Array, rules: Rules) -> SeenGame:
    """Return the game as the player saw it."""
    import jax

    from unojax.games import replay
    from unojax.games.gamefile import read_game
    from unojax.games.seen import SeenGame
    from unojax.text import parse_position

    steps = request.steps
    if request.game is not None:
        saved = read_game(request.game)
        with blaming(repr(request.game)):
            game = saved.seen(None if saved.shows_one_hand else request.player)
        return game if steps is None else game.back(max(len(game.events) - steps, 0))
    if request.start is None or request.actions is None:
        played = replay.play(key, load_policies(request.policies)[0], rules=rules, max_steps=steps)
    else:
        with blaming("--start"):
            start = parse_position(request.start, rules=rules)
        with blaming("--actions"):
            played = replay.replay(start, request.actions, jax.random.fold_in(key, 1), max_steps=steps)
    return SeenGame.of(played, request.player)


def _tables(request: ShowBelief, turns: list[BeliefTurn], summary: Summary, rules: Rules) -> list[RenderableType]:
    """Return the figures of the whole game; none if one turn was requested."""
    from unojax.terminal import belief

    if request.turn is not None:
        return []
    facts = {"Game": belief.outcome(turns[-1], steps=request.steps)}
    facts |= belief.facts(turns, summary, model=request.opponent_model, particles=request.particles)
    if request.start is None and request.game is None:
        facts["Policies"] = f"{request.policies[0]} as player 0, {request.policies[1]} as player 1; seed {request.seed}"
    return ["", tables.facts(facts | {"Rules": tables.rules_text(rules)})]


def _report(request: ShowBelief, game: SeenGame, turns: list[BeliefTurn], summary: Summary) -> BeliefReport:
    from unojax.analysis.turns import BeliefReport
    from unojax.text import format_position

    shown = not request.hide_truth
    rows = [turn.row(with_truth=shown) for turn in turns]
    return BeliefReport(
        seed=request.seed,
        belief_seed=request.seed if request.belief_seed is None else request.belief_seed,
        policies=request.policies if request.start is None and request.game is None else None,
        player=request.player,
        particles=request.particles,
        opponent_model=request.opponent_model,
        start=format_position(game.states[0]) if shown and game.states else None,
        actions=" ".join(str(row.action) for row in rows[1:]),
        turns=rows,
        summary=summary,
    )
