"""Advice in a position: follow the belief, search, report."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.status import Status
from rich.text import Text

from unojax import cards
from unojax.belief.digest import Digest, digest
from unojax.belief.follow import follow
from unojax.belief.history import looks_dealt
from unojax.belief.knowledge import Tracked, Truth
from unojax.cli import drawing, output
from unojax.cli.advise import view
from unojax.cli.advise.command import DEFAULT_ROUNDS, Advise
from unojax.games.seen import ImpossibleActionError, SeenGame, legal_actions, read_seen, shows_one_hand
from unojax.rules import Rules
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.pooling import MIN_ROUNDS, Pooled, search_in_rounds
from unojax.specs import parse_agent, settings_of
from unojax.text import format_action, format_observation


def run(request: Advise, rules: Rules) -> int:
    if request.rounds is not None and request.rounds < MIN_ROUNDS:
        raise ValueError(f"--rounds must be at least {MIN_ROUNDS}, from which standard errors come, got {request.rounds}")
    agent = read_agent(request.agent, rules)
    output.check_json_target(request.json)
    about = output.machine()
    keys = jax.random.split(jax.random.key(request.seed, impl="threefry2x32"), 3)
    try:
        with output.status(output.COMPILING, quiet=request.quiet) as status:
            game = _read(request, rules)
            memory = _believe(game, agent, keys[0], status)
            told = jax.device_get(digest(agent.hands(keys[1], memory, game.end), game.end))
            pooled, seconds = _search(request, game, agent, memory, keys[2], status)
    except ImpossibleActionError as error:
        raise ValueError(f"--history: {error}") from None
    if request.json != output.STDOUT:
        main = Text(view.forced_draw(game.end) + "\n", style="bold") if pooled is None else view.plays(pooled, agent)
        facts = output.facts(_facts(request, game, told, pooled, seconds, agent))
        output.show(*drawing.view_lines(game.end), "", view.belief(told, game.end, request.top), main, facts)
    if request.json is not None:
        output.write_json(request.json, _record(request, game, told, pooled, seconds) | about)
    return 0


def read_agent(spec: str, rules: Rules) -> SearchAgent:
    """Read a search. Raises ValueError for an agent that does not say how likely a play is to win from what a player sees."""
    agent = parse_agent(spec, rules=rules)
    if not isinstance(agent, SearchAgent):
        raise ValueError(f"agent {spec!r} has no estimates; choose a search, mc or tree")
    if isinstance(agent.knowledge, Truth):
        raise ValueError(f"agent {spec!r}: belief=truth needs the hidden hand; choose belief=particles or belief=unseen")
    if agent.search.discount != 1.0:
        raise ValueError(f"agent {spec!r}: discounted returns are no win probabilities; leave discount out")
    if rules.step_penalty:
        raise ValueError("returns less a penalty for each step are no win probabilities; leave --step-penalty out")
    return agent


def _read(request: Advise, rules: Rules) -> SeenGame:
    """Read the game up to a position in which the player is to move."""
    game = read_seen(request.position, request.history, request.player, rules)
    if game.end.terminated:
        raise ValueError("--history: the game is over at its end; there is nothing to advise")
    if not game.end.is_my_turn:
        when = " at the end of --history" if game.actions else ""
        raise ValueError(
            f"player {int(game.end.current_player)} is to move{when}, but the view is that of player {int(game.end.player)}; "
            "advice is for the player to move"
        )
    return game


def _believe(game: SeenGame, agent: SearchAgent, key: Array, status: Status) -> Remembered:
    """Give what the agent remembers at the end of a game."""
    start = game.observations[0]
    known: Any = ()
    if isinstance(agent.knowledge, Tracked):
        filter = replace(agent.knowledge.filter, prior="deal" if looks_dealt(start) else "uniform")
        for number, (belief, info) in enumerate(follow(filter, key, game.observations)):
            status.update(f"belief: action {number + 1} of {len(game.actions)}")
            if info is not None and info.depleted:
                raise ImpossibleActionError(
                    number,
                    f"no hand of player {1 - int(start.player)} explains this after what came before; check the history, or take "
                    f"more particles than {filter.num_particles}",
                )
            known = belief
    return Remembered(known, jnp.int32(game.steps_before + len(game.actions)))


def _search(
    request: Advise, game: SeenGame, agent: SearchAgent, memory: Remembered, key: Array, status: Status
) -> tuple[Pooled | None, float]:
    """Search the plays, if there are any; with the seconds that it took."""
    legal = legal_actions(game.end)[: cards.DRAW]
    if not legal.any():
        return None, 0.0
    num_rounds = None if request.seconds is not None else request.rounds or DEFAULT_ROUNDS
    status.update(output.COMPILING)
    goal = "" if num_rounds is None else f" of {num_rounds}"

    def tell(number: int) -> None:
        status.update(f"search: round {number + 1}{goal}")

    limits = {"num_rounds": num_rounds, "seconds": request.seconds or 0.0}
    return search_in_rounds(agent, memory, game.end, legal, key, **limits, on_round=tell)


def _facts(
    request: Advise, game: SeenGame, told: Digest, pooled: Pooled | None, seconds: float, agent: SearchAgent
) -> dict[str, str]:
    other = 1 - int(game.end.player)
    if not isinstance(agent.knowledge, Tracked):
        basis = "any of the cards not seen, all hands alike"
    elif game.actions:
        basis = f"from {output.count(len(game.actions), 'action')}, player {other} taken for {settings_of(agent.name)['model']}"
    else:
        basis = "from this position alone, any cards not seen; --history would sharpen it"
    facts = {"Belief": f"{basis}; {told.num_hands:,} hands, ESS {told.ess:,.0f}"}
    if not shows_one_hand(request.position):
        facts["Hidden"] = f"the hand of player {other} was given and not looked at"
    if pooled is not None:
        facts["Search"] = (
            f"{request.agent}, both players going on by the policy {agent.policies[0].name}; {pooled.rounds} rounds in "
            f"{seconds:.2f} s, seed {request.seed}"
        )
    return facts | {"Rules": output.rules_text(game.end.rules)}


def _record(request: Advise, game: SeenGame, told: Digest, pooled: Pooled | None, seconds: float) -> dict[str, Any]:
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
            "prob_holds": {cards.TYPE_NAMES[t]: float(told.prob_holds[t]) for t in np.flatnonzero(seen.rules.deck).tolist()},
            "prob_color": dict(zip(cards.COLOR_NAMES, told.prob_color.tolist(), strict=True)),
            "num_distinct": int(told.num_distinct),
            "ess": float(told.ess),
            "num_hands": int(told.num_hands),
        },
        "forced": len(plays) <= 1,
        "recommended": format_action(cards.DRAW if pooled is None else pooled.recommended),
        "policy_play": None if pooled is None else format_action(pooled.own),
        "plays": plays,
        "rounds": 0 if pooled is None else pooled.rounds,
        "seconds": seconds,
    }
