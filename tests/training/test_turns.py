"""Learning under rules with optional draws: inputs and losses by hand, and a whole run."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.training.runs import interrupted, trained
from tests.value.positions import TURNS, legal_all, random_network, random_states, says
from training import loop
from training.evaluation import Standing, evaluate
from training.value import trainer
from training.value.config import ValueConfig
from training.value.learning import Loss, loss_and_gradient, states_of
from training.value.selfplay import Episodes, SelfPlay
from unojax import cards, game
from unojax.arena import play_match
from unojax.arena.ratings import paired_score
from unojax.device.process import EXIT_INTERRUPTED
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.value import SHARED_COLUMNS, Features, NetworkConfig, features, load_network, outlook_of_unseen
from unojax.value.features import SHARED_TURN_COLUMNS
from unojax.view import view_of

STEPS, GAMES = 4, 6
NUM = STEPS * GAMES
DECISIONS = 256
NETWORK = random_network(config=NetworkConfig(width=8, rules=("official",)))
DRAWS, CHALLENGES = (len(SHARED_COLUMNS) + SHARED_TURN_COLUMNS.index(f"about to {what}") for what in ("draw", "challenge"))
NOBODY = jnp.zeros((GAMES, 2), bool)


@pytest.fixture(scope="module")
def states() -> State:
    """Return decisions of random games, every third after a Wild+4."""
    found = random_states(8, 800, deciding=True, rules=TURNS)
    contested, others = (list(np.flatnonzero((found.contested >= 0) == is_one)) for is_one in (True, False))
    chosen = [(others if place % 3 else contested).pop() for place in range(NUM)]
    return jax.tree.map(lambda leaf: leaf[chosen], found)


def look(states: State, players: jax.Array | np.ndarray) -> tuple[Features, object]:
    """Return features and outlooks of players, in batches of one size."""
    number = len(players)
    some = jax.tree.map(lambda leaf: np.resize(leaf, (DECISIONS, *np.shape(leaf)[1:])), (states, np.asarray(players, np.int32)))
    return jax.tree.map(lambda leaf: leaf[:number], look_at(*some))


@jax.jit
def look_at(states: State, players: jax.Array) -> tuple[Features, object]:
    view = view_of(jax.vmap(observe)(states, players))
    outlook = jax.tree.map(lambda leaf: leaf.astype(jnp.float16), outlook_of_unseen(view))
    return features(view, jax.tree.map(lambda leaf: leaf.astype(jnp.float32), outlook)), outlook


@pytest.fixture(scope="module")
def legal(states: State) -> np.ndarray:
    return np.asarray(legal_all(states))


@pytest.fixture(scope="module")
def games(states: State, legal: np.ndarray) -> Episodes:
    """Return games of unrelated positions: challenges after a Wild+4, else plays and draws in turn."""
    rng = np.random.default_rng(1)
    action = np.array([rng.choice(np.flatnonzero(row[: cards.DRAW])) if row[: cards.DRAW].any() else 60 for row in legal])
    action[::3] = cards.CHALLENGE
    action[1::3] = cards.DRAW
    assert legal[np.arange(NUM), action].all()
    search = np.where(legal, rng.uniform(-1, 1, legal.shape), np.nan)
    # At most the number that takes part in the loss; the last ones are draws and challenges.
    for row in search:
        row[np.flatnonzero(~np.isnan(row))[:-8]] = np.nan

    def by_step(leaf):
        return np.asarray(leaf).reshape(STEPS, GAMES, *leaf.shape[1:])

    outlook = look(jax.tree.map(lambda leaf: np.repeat(leaf, 2, axis=0), states), np.arange(2 * NUM) % 2)[1]
    return Episodes(
        table=jax.tree.map(by_step, jax.jit(jax.vmap(game.to_table))(states)),
        outlook=jax.tree.map(lambda leaf: leaf.reshape(STEPS, GAMES, 2, *leaf.shape[1:]), outlook),
        action=by_step(action.astype(np.int8)),
        is_choice=jnp.ones((STEPS, GAMES), bool),
        search=by_step(search.astype(np.float16)),
        num_steps=jnp.full(GAMES, STEPS),
        outcome=jnp.ones(GAMES),
        is_over=jnp.ones(GAMES, bool),
        learns=jnp.ones((GAMES, 2), bool),
        number=jnp.arange(GAMES),
    )


def chances(states: State, action: np.ndarray) -> dict[int, np.ndarray]:
    """Mark the choices followed by chance, by their column."""
    return {DRAWS: (action == cards.DRAW) & (states.drawn < 0), CHALLENGES: action == cards.CHALLENGE}


@pytest.fixture(scope="module")
def inputs(games: Episodes, states: State) -> Features:
    """Return the network's inputs, [2 NUM]: by observations, and chance columns by hand at steps 0 and 1 of the four."""
    twice = jax.tree.map(lambda leaf: np.repeat(leaf, 2, axis=0), states)
    made = jax.tree.map(np.array, look(twice, np.arange(2 * NUM) % 2)[0])
    action, step = np.asarray(games.action).reshape(-1), np.arange(NUM) // GAMES
    for column, is_chance in chances(states, action).items():
        rows = np.flatnonzero(is_chance & (step < 2))
        assert len(rows) >= 2 and (is_chance & (step >= 2)).any()
        made.shared[2 * rows + states.current_player[rows], column] = 1
    return made


@pytest.mark.slow
def test_half_of_the_draws_and_challenges_are_learned_from_with_the_column_of_chance(games: Episodes, inputs: Features):
    found = jax.jit(lambda games: states_of(games, jnp.arange(2 * NUM), NOBODY, TURNS).features)(games)
    for one, other in zip(found, inputs, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@jax.jit
def learn(games: Episodes, targets: jax.Array):
    return loss_and_gradient(jax.random.key(0), NETWORK, games, NOBODY, targets, Loss(advantage_weight=1.0), TURNS)[0]


@pytest.mark.slow
@pytest.mark.long
def test_the_losses_by_hand(games: Episodes, states: State, inputs: Features, legal: np.ndarray):
    targets = np.random.default_rng(2).uniform(-1, 1, (STEPS, GAMES, 2)).astype(np.float32)
    sums = jax.device_get(learn(games, targets))
    prob = np.asarray(says(NETWORK, inputs).win_prob, float)
    wanted = (1 + targets.reshape(-1)) / 2
    assert sums.states == 2 * NUM
    assert float(sums.win) == pytest.approx(-(wanted * np.log(prob) + (1 - wanted) * np.log1p(-prob)).sum(), rel=1e-4)

    # Each choice alone: the game after it, or before it and about to.
    search = np.asarray(games.search, float).reshape(NUM, -1)
    decision, action = np.nonzero(~np.isnan(search))
    assert len(decision) < DECISIONS
    filled = np.arange(DECISIONS) % len(decision)
    where, choice = decision[filled], action[filled]
    before = jax.tree.map(lambda leaf: leaf[where], states)
    after, is_won = after_choices(before, jnp.asarray(choice, jnp.int32))
    of_before, made = (jax.tree.map(np.array, look(these, before.current_player)[0]) for these in (before, after))
    by_chance = chances(before, choice)
    for column, rows in by_chance.items():
        for found, old in zip(made, of_before, strict=True):
            found[rows] = old[rows]
        made.shared[rows, column] = 1
    assert (after.error == before.error).all()
    # The choice changes neither the belief nor the unseen cards, except for the outlook on drawn cards.
    won = np.asarray(is_won) & ~np.any(list(by_chance.values()), axis=0)
    value = np.where(won, 1.0, np.asarray(says(NETWORK, made).value, float))[: len(decision)]
    total = 0.0
    for number in range(NUM):
        rows = decision == number
        difference = value[rows] - search[number, action[rows]]
        total += ((difference - difference.mean()) ** 2).sum()
    assert sums.decisions == NUM
    assert float(sums.advantage) == pytest.approx(total, rel=1e-3)


@jax.jit
def after_choices(states: State, actions: jax.Array) -> tuple[State, jax.Array]:
    after = jax.vmap(game.step)(states, actions, jax.random.split(jax.random.key(0), len(actions)))
    return after, after.terminated & (after.winner == states.current_player)


TINY = ValueConfig(
    iterations=3,
    games=16,
    updates=2,
    checkpoint_every=1,
    network=dataclasses.replace(ValueConfig().network, width=8),
    play=SelfPlay(rules="official", opponents=("self", "uniform"), belief="unseen", search=2, temperature=0.1, max_steps=40),
    loss=dataclasses.replace(ValueConfig().loss, trace=0.9),
    evaluation=dataclasses.replace(ValueConfig().evaluation, every=2, games=8, final_games=8, opponents=("linear",)),
)


@pytest.mark.slow
@pytest.mark.long
def test_a_run_is_resumed_exactly_and_its_network_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config, parts_config = (dataclasses.replace(TINY, run=tmp_path / name) for name in ("whole", "parts"))
    # One program for all runs; the network is evaluated once, at the end.
    monkeypatch.setattr(trainer, "make_iteration", cache(trainer.make_iteration))
    standings = [Standing("linear", paired_score(np.full((4, 2), 0.5)))]
    monkeypatch.setattr(loop, "prepare_evaluation", lambda *_: lambda *_: standings)
    assert trained(config)[0] == 0
    assert interrupted(parts_config, 1, monkeypatch)[0] == EXIT_INTERRUPTED
    assert trained(parts_config, resume=True)[0] == 0
    path = config.run / "last.safetensors"
    whole, parts = (load_file(each.run / "last.safetensors") for each in (config, parts_config))
    assert whole.keys() == parts.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(array.view(np.uint32), parts[name].view(np.uint32), err_msg=name)
    rows = [json.loads(line) for line in (config.run / "metrics.jsonl").read_text().splitlines()]
    assert all(0.1 < row["loss/win"] < 1.5 and row["loss/advantage"] > 0 for row in rows)
    assert load_network(path).config == NetworkConfig(width=8, matches=True, types=True, rules=("official",))
    # Against an agent that plays if it can: two that draw when they need not have some thousand decisions.
    (standing,) = evaluate(load_network(path), config, 8)
    assert standing.score.num_pairs == 4
    official = Rules.official()
    agents = [parse_agent(spec, rules=official) for spec in (f"mc:rollouts=4,belief=unseen,leaf={path}", "linear")]
    pairs = play_match(jax.random.key(0), (agents[0], agents[1]), 2, rules=official)
    assert (np.asarray(pairs.num_choices) > 0).all() and np.isin(pairs.winner, (-1, 0, 1)).all()
