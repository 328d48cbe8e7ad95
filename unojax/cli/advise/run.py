"""Advice in a position: follow the belief, search, report."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from unojax import cards
from unojax.belief.updaters import UniformFilter
from unojax.cli import drawing, output, targets
from unojax.cli.advise import view
from unojax.cli.advise.command import Advise
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.advising import COMPILING, Advised, improve, read_game, read_search
from unojax.games.seen import ImpossibleActionError
from unojax.rules import Rules
from unojax.specs import settings_of
from unojax.text import format_action, format_observation
from unojax.viz.words import plays_like


def run(request: Advise, rules: Rules) -> int:
    targets.check_json_target(request.json)
    about = output.machine()
    position = _read_position() if request.position == output.STDIN else request.position
    words = {
        name: getattr(request, name)
        for name in ("hand", "top", "opponent", "pile", "penalty", "opponent_begins", "history", "player")
    }
    advised, stopped = None, False
    try:
        with output.status(output.COMPILING, quiet=request.quiet) as status:

            def say(words: str) -> None:
                status.update(output.COMPILING if words == COMPILING else words)

            search = read_search(request.agent, rules)
            how = {"replicates": request.replicates, "seconds": request.seconds, "seed": request.seed}
            for advised in improve(read_game(position, **words, rules=rules), search, **how, on_status=say):  # noqa: B007 - the last is shown after it
                pass
    except ImpossibleActionError as error:
        raise ValueError(f"--history: {error}") from None
    except KeyboardInterrupt:
        if advised is None:
            raise
        stopped = True
    assert advised is not None
    if stopped:
        output.note("advise", f"stopped after {advised.seconds:.1f} s of the search")
    if request.json != output.STDOUT:
        end, pooled = advised.game.end, advised.pooled
        if pooled is None:
            main: RenderableType = Text(view.no_choice(end) + "\n", style="bold")
        else:
            main = view.plays(pooled, advised.agent, has_drawn=bool(end.has_drawn))
        facts = output.facts(_facts(request, advised))
        output.show(*drawing.view_lines(end), "", view.belief(advised.belief, end, request.bars), main, facts)
    if request.json is not None:
        output.write_json(request.json, _record(request, advised) | about)
    return EXIT_INTERRUPTED if stopped else 0


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
    game, belief, pooled, agent = advised.game, advised.belief, advised.pooled, advised.agent
    other = 1 - int(game.end.player)
    if isinstance(agent.updater, UniformFilter):
        basis = "any of the cards not seen, all hands alike"
    elif game.actions:
        model = settings_of(agent.name)["model"]
        taken = f"{plays_like(advised.types)}, one of {model}" if advised.types else f"taken for {model}"
        basis = f"from {output.count(len(game.actions), 'action')}, player {other} {taken}"
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
    return facts | {"Rules": output.rules_text(game.end.rules)}


def _record(request: Advise, advised: Advised) -> dict[str, Any]:
    game, belief, pooled = advised.game, advised.belief, advised.pooled
    seen = game.end
    plays = [] if pooled is None else [play._asdict() | {"action": format_action(play.action)} for play in pooled.plays]
    return {
        "command": "advise",
        "seed": request.seed,
        "player": int(seen.player),
        "agent": request.agent,
        "rules": asdict(seen.rules),
        "start": format_observation(game.observations[0]),
        "history": game.notation,
        "observation": format_observation(seen),
        "belief": {
            "prob_holds": {cards.TYPE_NAMES[t]: float(belief.prob_holds[t]) for t in np.flatnonzero(seen.rules.deck).tolist()},
            "prob_color": dict(zip(cards.COLOR_NAMES, belief.prob_color.tolist(), strict=True)),
            "num_distinct": int(belief.num_distinct),
            "ess": float(belief.ess),
            "num_hands": int(belief.num_hands),
            "type_probs": dict(advised.types) or None,
        },
        "forced": len(plays) <= 1,
        "recommended": advised.play or None,
        "policy_play": None if pooled is None else format_action(pooled.own),
        "plays": plays,
        "replicates": 0 if pooled is None else pooled.replicates,
        "seconds": advised.seconds,
    }
