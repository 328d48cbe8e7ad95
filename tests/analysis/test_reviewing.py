"""Reviews: costs of choices against a search with ten times the rollouts, and agents that can't review."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals
from unojax import make_state
from unojax.analysis.reviewing import Choice, review
from unojax.belief.tracking import track
from unojax.decks import small_deck
from unojax.games.advising import read_search
from unojax.games.choices import choices
from unojax.games.replay import Replay, play, replay
from unojax.games.seen import SeenGame
from unojax.policies import get_policy
from unojax.rules import Rules
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.pooling import pool, search_once
from unojax.specs import parse_agent
from unojax.text import format_action

PROGRAMS: Final = 80  # a search of two sizes

SPEC = "mc:rollouts=200,particles=1024"
REPLICATES = 8
NUM_GAMES = 8


def costs_at_length(game: Replay, numbers: Sequence[int], agent: SearchAgent, key: jax.Array) -> Iterator[tuple[float, float]]:
    """Yield the costs of player 0's actions `numbers`, and their errors, directly from the search."""
    views = game.observations(0)[: max(numbers)]
    rounds_of = [jax.random.split(one) for one in jax.random.split(key, REPLICATES)]
    beliefs = zip(*(track(agent.updater, key_follow, views) for key_follow, _ in rounds_of), strict=True)
    for place, (seen, known) in enumerate(zip(views, beliefs, strict=True)):
        if place + 1 not in numbers:
            continue
        legal, rounds = choices(seen), []
        for (belief, _), (_, key_search) in zip(known, rounds_of, strict=True):
            memory = Remembered(belief, jnp.int32(place))
            one = search_once(jax.random.fold_in(key_search, place), memory, seen, legal, agent=agent)
            rounds.append(jax.device_get(one))
        played = next(p for p in pool(rounds, legal, agent.keep).plays if p.action == format_action(game.steps[place].action))
        yield played.behind, played.behind_error


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.optimized
def test_costs_are_those_of_ten_times_the_rollouts():
    """A random player makes expensive errors.

    At least 88% of the choices are within 1.96 errors, and the mean difference is within four of its own.
    """
    agent, longer = (read_search(spec, Rules()) for spec in (SPEC, SPEC.replace("=200", "=2000")))
    found: list[tuple[Choice, float, float]] = []
    for number in range(NUM_GAMES):
        key_game, key_search = jax.random.split(jax.random.key(number, impl="threefry2x32"))
        game = play(key_game, (get_policy("uniform"), get_policy("linear")), rules=Rules())
        made = {
            turn.number: turn.choice
            for turn in review(game, 0, agent, replicates=REPLICATES, seed=number)
            if turn.choice is not None
        }
        for choice, (cost, error) in zip(made.values(), costs_at_length(game, list(made), longer, key_search), strict=True):
            found.append((choice, cost, error))
    costs, errors, expected, expected_errors = (
        np.array(column) for column in zip(*((c.cost, c.cost_error, cost, error) for c, cost, error in found), strict=True)
    )
    off = costs - expected
    both = np.hypot(errors, expected_errors)
    inside = np.abs(off) <= 1.96 * both
    print(
        f"{len(off)} choices, {inside.mean():.1%} within 95 % intervals; costs {costs.mean():.4f}, longer {expected.mean():.4f}"
    )
    print(f"mean difference {off.mean():.4f} ± {off.std(ddof=1) / np.sqrt(len(off)):.4f}, largest {np.abs(off).max():.4f}")
    assert len(found) >= 40 and expected.mean() > 0.01
    assert inside.mean() >= 0.88
    assert abs(off.mean()) <= 4 * off.std(ddof=1) / np.sqrt(len(off)) + 0.002


@pytest.mark.slow
def test_a_truncated_game_counts_half() -> None:
    """From the start on, since nobody can win in two steps."""
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2, 3, 4), wilds=1), hand_size=2, max_steps=2)
    agent = parse_agent("mc:rollouts=8,particles=16,belief=unseen,policy=uniform", rules=rules)
    assert isinstance(agent, SearchAgent)
    game = replay(make_state("R1 R3 Y2 Y3", "Y4 Y1 R4", "R2", rules=rules), "R1 R4", jax.random.key(0))
    assert game.steps[-1].after.truncated
    turns = list(review(game, 0, agent, replicates=4))
    assert [(turn.win, turn.win_error) for turn in turns] == [(0.5, 0)] * 3
    seen = SeenGame.of(game, 0)
    one_sided = list(review(replace(seen, states=()), 0, agent, replicates=4))
    assert [(turn.win, turn.win_error) for turn in one_sided] == [(0.5, 0)] * 3


@pytest.mark.slow
def test_a_review_under_points_is_of_wins() -> None:
    """All figures are win probabilities, although the agent plays for points."""
    rules = Rules.official(deck=small_deck(colors=2, ranks=(1, 2, 3, 4), wilds=1), hand_size=2)
    agent = parse_agent("mc:rollouts=8,particles=16,belief=unseen,policy=uniform", rules=rules)
    assert isinstance(agent, SearchAgent) and agent.rollouts.has_points
    game = replay(make_state("R1 Y2 Y3", "Y4 Y1", "R2", rules=rules), "R1", jax.random.key(0))
    start, turn = review(game, 0, agent, replicates=4)
    assert 0 <= start.win <= 1 and turn.choice is not None
    assert all(0 <= play.win <= 1 for play in turn.choice.plays)


def test_refusals() -> None:
    def call(spec: str = "mc", rules: Rules = Rules(), player: int = 0, **options: int) -> object:
        game = replay(make_state("R1 Y2 B3", "G4 B5", "R7", rules=rules), "R1", jax.random.key(0))
        return next(review(game, player, parse_agent(spec, rules=rules), **options))

    refusals(
        {
            "belief": lambda: call("mc:belief=truth"),
            "returns less a penalty": lambda: call("tree", Rules(step_penalty=0.1)),
            "replicates": lambda: call(replicates=3),
            "player": lambda: call(player=2, replicates=4),
        }
    )
