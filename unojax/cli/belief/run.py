"""A belief through a game: follow it, and show it turn by turn."""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from typing import Any, cast

import jax
from jax import Array
from rich.status import Status

from unojax.analysis.turns import BeliefTurn, Summary, summarize, track_turns
from unojax.belief.updaters import ParticleFilter
from unojax.cli import output, targets
from unojax.cli.belief import view
from unojax.cli.belief.command import ShowBelief
from unojax.cli.options import get_opponent, get_policies
from unojax.games import replay
from unojax.games.gamefile import read_game
from unojax.games.replay import Replay
from unojax.games.seen import SeenGame
from unojax.rules import Rules
from unojax.text import format_position, parse_position
from unojax.viz.words import plays_like


def run(request: ShowBelief, rules: Rules) -> int:
    filter = ParticleFilter(request.particles, get_opponent(request.opponent_model))
    targets.check_json_target(request.json)
    about = output.machine()
    key = jax.random.key(request.seed, impl="threefry2x32")
    with output.status("the game", quiet=request.quiet) as status:
        game = _game(request, key, rules)
        rules = game.start.rules
        if isinstance(game, SeenGame):
            # It knows one player's view alone.
            request, game = replace(request, player=cast(Any, game.player), hide_truth=True), game.since_count()
        first, last = _turns(game)
        if request.turn is not None and not first <= request.turn <= last:
            raise ValueError(f"--turn must be in [{first}, {last}], the turns of this game, got {request.turn}")
        # A stream of its own: the game is the same whatever is believed about it.
        if request.belief_seed is not None:
            key = jax.random.key(request.belief_seed, impl="threefry2x32")
        turns = _show_turns(request, game, filter, jax.random.fold_in(key, 2), status)
    summary = summarize(turns)
    if request.json != output.STDOUT and request.turn is None:
        facts = {"Game": view.outcome(turns[-1], steps=request.steps)} | _facts(request, turns, summary, rules)
        output.show("", output.facts(facts))
    if request.json is not None:
        output.write_json(request.json, _record(request, game, turns, summary, rules) | about)
    return 0


def _turns(game: Replay | SeenGame) -> tuple[int, int]:
    """Number the first and the last turn."""
    if isinstance(game, SeenGame):
        return game.steps_before, game.num_steps
    return int(game.start.step_count), int(game.end.step_count)


def _show_turns(
    request: ShowBelief, game: Replay | SeenGame, filter: ParticleFilter, key: Array, status: Status
) -> list[BeliefTurn]:
    """Show the turns as they come, up to the one asked for."""
    with_truth, (_, last) = not request.hide_truth, _turns(game)
    shows_all = request.json != output.STDOUT and request.turn is None
    # Where another program shows what comes, a status line would write across it.
    shows_status = output.shows_progress(quiet=request.quiet) and (sys.stdout.isatty() or not shows_all)
    turns: list[BeliefTurn] = []
    status.update(output.COMPILING)
    for turn in track_turns(game, request.player, key, filter):
        # While a status line runs, rich sends what is printed to where the line is.
        status.stop()
        if shows_all and not turns:
            output.show(view.legend(request.player, with_truth=with_truth), "")
        turns.append(turn)
        if shows_all:
            output.show(view.compact(turn, with_truth=with_truth))
        elif turn.number == request.turn:
            if request.json != output.STDOUT:
                output.show(view.full(turn, with_truth=with_truth))
            break
        # The first turn after the start is compiled too.
        if len(turns) > 1:
            status.update(f"turn {turn.number} of {last}")
        if shows_status and turn.number < last:
            status.start()
    return turns


def _game(request: ShowBelief, key: Array, rules: Rules) -> Replay | SeenGame:
    if request.game is not None:
        return _saved_game(request.game, request.steps)
    if request.start is None or request.actions is None:
        return replay.play(key, get_policies(request.policies), rules=rules, max_steps=request.steps)
    try:
        start = parse_position(request.start, rules=rules)
    except ValueError as error:
        raise ValueError(f"--start: {error}") from error
    try:
        return replay.replay(start, request.actions, jax.random.fold_in(key, 1), max_steps=request.steps)
    except ValueError as error:
        raise ValueError(f"--actions: {error}") from error


def _saved_game(path: str, max_steps: int | None) -> Replay | SeenGame:
    saved = read_game(path)
    try:
        game = saved.seen() if saved.shows_one_hand else saved.replay()
    except ValueError as error:
        raise ValueError(f"{path!r}: {error}") from None
    if isinstance(game, SeenGame):
        return game if max_steps is None else game.back(max(len(game.events) - max_steps, 0))
    return replace(game, steps=game.steps[:max_steps])


def _facts(request: ShowBelief, turns: list[BeliefTurn], summary: Summary, rules: Rules) -> dict[str, str]:
    facts = {}
    if summary.log_score is not None and summary.uniform_log_score is not None:
        facts["Log score"] = (
            f"{summary.log_score:.3f} ({summary.log_score - summary.uniform_log_score:+.3f}: uniform belief "
            f"{summary.uniform_log_score:.3f}), sum over the card types of ln P(copies really held), mean of "
            f"{output.count(summary.scored, 'turn')}"
        )
    facts["Smallest ESS"] = f"{summary.smallest_ess:,.0f} of {request.particles:,}, in turn {summary.smallest_ess_turn}"
    if summary.log_evidence is not None:
        facts["Evidence"] = f"ln p {summary.log_evidence:.2f} of all that player {request.player} saw"
    if summary.begun_anew:
        facts["Begun anew"] = f"in turn {', '.join(map(str, summary.begun_anew))}"
    facts["Model"] = f"player {1 - request.player} is taken for {request.opponent_model}"
    if types := turns[-1].types:
        facts["Model"] = f"player {1 - request.player} {plays_like(types)}, one of {request.opponent_model}"
    if request.start is None and request.game is None:
        facts["Policies"] = f"{request.policies[0]} as player 0, {request.policies[1]} as player 1; seed {request.seed}"
    return facts | {"Rules": output.rules_text(rules)}


def _record(
    request: ShowBelief, game: Replay | SeenGame, turns: list[BeliefTurn], summary: Summary, rules: Rules
) -> dict[str, Any]:
    shown = not request.hide_truth
    records = [turn.to_json(with_truth=shown) for turn in turns]
    return {
        "command": "belief",
        "seed": request.seed,
        "belief_seed": request.seed if request.belief_seed is None else request.belief_seed,
        "policies": request.policies if request.start is None and request.game is None else None,
        "player": request.player,
        "particles": request.particles,
        "opponent_model": request.opponent_model,
        "rules": asdict(rules),
        "start": format_position(game.start) if shown and isinstance(game, Replay) else None,
        "actions": " ".join(record["action"] for record in records[1:]),
        "turns": records,
        "summary": summary._asdict(),
    }
