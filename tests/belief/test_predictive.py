"""Predicted observations against plain Python, the evidence of filters, and frequencies in games."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from benchmarks import harness
from benchmarks import predictive as benchmark
from tests.belief import oracle
from tests.belief.games import games_of
from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, deck_of, legal, refusals, slow_but
from tests.helpers import after as after_actions
from tests.oracle.chain import successors
from tests.oracle.positions import from_oracle, random_position, to_oracle
from unojax import belief, bits, cards, game, pomdp
from unojax.belief import exact, predictive
from unojax.belief.hands import Hands
from unojax.belief.updaters import BootstrapFilter, ExactFilter, ParticleFilter
from unojax.cards import DRAW
from unojax.observation import Observation, determinize, observe
from unojax.policies import POLICIES
from unojax.rules import Rules
from unojax.text import make_observation, make_state, parse_action, parse_observation

PROGRAMS: Final = 400  # in the slow part, several for each rule set


RULES = {
    "forfeiting": oracle.FORFEITING,
    "passing": oracle.PASSING,
    "official": Rules.official(deck=deck_of("R1 R1 RS R+2 Y1 Y2 YR B1 W W+4"), hand_size=2),
    "house": Rules.house(deck=deck_of("R1 R1 R+2 R+2 Y1 Y2 Y+2 B1 BS W"), hand_size=2),
    "rlcard": Rules.rlcard(deck=deck_of("R1 R1 RS R+2 Y1 Y2 Y+2 B1 W W+4"), hand_size=2),
}
FAMILY = belief.Family((belief.uniform_opponent, belief.PolicyOpponent(POLICIES["linear"], 0.2)))
see = jax.jit(observe)


def rows(tree: Any, number: int) -> list[Any]:
    return [jax.tree.map(lambda x, i=i: x[i], tree) for i in range(number)]


def asked(seen: Observation, action: int) -> int | None:
    """Return the argument `action` of `predict` at a position."""
    return action if bool(seen.is_my_turn) else None


def positions_of(rules: Rules, opponent: belief.Family | Any = belief.uniform_opponent) -> Iterator[tuple]:
    """Yield transitions of random games for either player: exact belief, before, action, after."""
    games, updater = games_of(rules), ExactFilter(opponent)
    for number in range(len(games.actions)):
        steps = games.steps(number % 2, number)
        known = updater.init(jax.random.key(0), steps[0][0])
        for before, action, after in steps:
            yield known, before, action, after
            known, _ = exact.exact_update(known, before, action, after, opponent=opponent)


# Against the exact filter.


MODELS = {"uniform": belief.uniform_opponent, "two types": FAMILY}


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("official", "two types"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("forfeiting", "two types"), *product(RULES, ["uniform"])]),
    ],
)
def test_it_adds_up_to_one_and_agrees_with_the_evidence(name: str, model: str) -> None:
    """The prediction of an observation is the filter's evidence for it."""
    opponent = MODELS[model]
    positions, kinds, paid = positions_of(RULES[name], opponent), Counter[tuple[str, str]](), 0
    for _ in range(40):
        known, before, action, after = next(positions)
        predicted = predictive.predict(known, before, asked(before, action), opponent=opponent)
        assert predicted.probs.sum() == pytest.approx(1, abs=1e-6)
        _, evidence = exact.exact_update(known, before, action, after, opponent=opponent)
        assert predicted.log_prob(after) == pytest.approx(evidence, abs=1e-6)
        reward = predictive.expected_reward(known, before, asked(before, action), opponent=opponent)
        assert reward == pytest.approx(predicted.expected_reward, abs=1e-9)
        paid += reward != 0
        if len(predicted) > 1:
            kinds["own" if before.is_my_turn else "theirs", "draw" if action == DRAW else "other"] += 1
    assert min(kinds["own", "draw"], kinds["theirs", "other"]) > 2 and paid


@pytest.mark.parametrize("name", slow_but(["official"], ["forfeiting", "official"]))
def test_particles_predict_what_the_exact_belief_does(name: str) -> None:
    """With 2,048 particles the standard error of a probability is at most 0.011."""
    updaters = ParticleFilter(2048, max_slots=48, max_plays=48), BootstrapFilter(2048)
    begin = [jax.jit(updater.init) for updater in updaters]
    compared: Counter[bool] = Counter()
    for seed, (_, before, action, _) in enumerate(positions_of(RULES[name])):
        known, mid_turn = exact.exact_init(before, prior="deal"), bool(before.has_drawn) and not before.is_my_turn
        if len(known.hands()[1]) == 1 or compared[mid_turn] == 4:
            continue
        # In mid-turn, the card just drawn must be known, which hands alone do not show.
        found = begin[0 if mid_turn else seed % 2](jax.random.key(seed), before)
        found = found if mid_turn else Hands(found.packed, found.log_weights)
        predicted, estimated = (predictive.predict(one, before, asked(before, action)) for one in (known, found))
        assert estimated.probs.sum() == pytest.approx(1, abs=1e-6)
        for row, prob in zip(rows(predicted.observations, len(predicted)), predicted.probs, strict=True):
            assert np.exp(estimated.log_prob(row)) == pytest.approx(prob, abs=0.06)
        compared[mid_turn] += 1
        if compared.total() == (4 if name == "forfeiting" else 8):
            break
    assert compared[False] == 4


@pytest.mark.slow
def test_calibrated_on_the_full_deck(tmp_path: Path) -> None:
    """A share near p of the predictions with probability near p comes true.

    In each bin of thirty predictions or more: within four standard errors, with games as independent, and 0.03 for 256 particles.
    """
    path = tmp_path / "predictive.json"
    options = "--games 24 --max-steps 16 --particles 256 --seed 7 --json".split()
    (row,) = harness.main(benchmark.predictive.name, [*options, str(path)])
    assert harness.read_rows(path) == [row] and row.figures["transitions"] > 150
    assert row.figures["missed"] <= row.figures["transitions"] / 20
    bins = [one for one in row.figures["bins"] if one["number"] >= 30]
    assert len(bins) >= 2 and sum(one["number"] for one in bins) > 2000
    for one in bins:
        assert abs(one["surplus"]) < 4 * one["standard_error"] + 0.03


# Against plain Python.


def test_every_outcome_is_that_of_plain_python() -> None:
    """Compare with all successors of the oracle's worlds at starts of games."""
    for number in range(10):
        before, action, _ = games_of(RULES["forfeiting"]).steps(number % 2, number)[0]
        expected: dict[oracle.View, float] = defaultdict(float)
        for w, p in oracle.deal(before, sees_start=False).items():
            options = oracle.legal_actions(w.hands[w.mover], w.top, w.color, w.penalty)
            for a in [action] if w.mover == 0 else options:
                share = 1.0 if w.mover == 0 else 1 / len(options)
                branches = oracle._after_draw(w, None) if a == DRAW else [(1.0, oracle._play(w, a, True))]
                for chance, after in branches:
                    expected[oracle.view_of(after)] += p * share * chance
        predicted = predictive.predict(exact.exact_init(before), before, asked(before, action))
        views = map(oracle.view_from, rows(predicted.observations, len(predicted)))
        assert dict(zip(views, predicted.probs, strict=True)) == pytest.approx(dict(expected), abs=1e-9)
        assert len(predicted) == len(expected)


def test_known_rewards() -> None:
    """A winner gets the points of the other hand, on average over the belief if hidden."""
    rules = Rules(deck=deck_of("R1 R5 Y3 Y9 W"), hand_size=1, points=True)
    mine = parse_observation("R1/1/-/2 R5 0 0 0 - *", rules=rules)
    earned = predictive.expected_reward(exact.exact_init(mine), mine, parse_action("R1"))
    assert earned == pytest.approx((3 + 9 + 50) / 3 / 500)
    # The opponent holds the red 1, the yellow 9 or the wild card, and goes out with two of them.
    theirs = parse_observation("Y3/1/-/2 R5 1 0 0 - *", rules=rules)
    assert predictive.expected_reward(exact.exact_init(theirs), theirs) == pytest.approx(-2 / 3 * 3 / 500)


# Through the opponent's replies.


def composed(position: Any, me: int) -> dict[bytes, float]:
    """Return all positions at the player's next move against a uniform opponent, in plain Python."""
    if position.is_over or position.player == me:
        return {key_of(from_oracle(position, Rules())): 1.0}
    result: dict[bytes, float] = defaultdict(float)
    options = sorted(position.legal_actions())
    for action in options:
        for after, prob in successors(position, action):
            for key, rest in composed(after, me).items():
                result[key] += prob * rest / len(options)
    return result


def key_of(tree: game.State | Observation) -> bytes:
    names = ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "terminated", "winner", "step_count")
    leaves = [getattr(tree, name) for name in names] if isinstance(tree, game.State) else jax.tree.leaves(tree)
    return b"".join(np.asarray(leaf).tobytes() for leaf in leaves)


SKIPS = Rules(deck=deck_of("R1 R1 R2 RS RR Y1 Y2 YS B1 W"), hand_size=2)
CHAINS = {
    "Skips": ("R1 Y1", "RS YS RR Y2", SKIPS),
    "a penalty": ("R+2 Y1", "RS B1", Rules(deck=deck_of("R1 R2 R+2 RS Y1 Y2 B1 W"), hand_size=2)),
    "passed": ("R1 Y1", "RS YS", Rules(deck=deck_of("R1 R1 R2 RS Y1 YS B1"), hand_size=2, skip_forfeits=False)),
}


@pytest.mark.parametrize("name", slow_but(["Skips", "a penalty"], CHAINS))
def test_the_composed_transition_is_that_of_plain_python(name: str) -> None:
    *hands, rules = CHAINS[name]
    state = jax.device_get(make_state(*hands, "R2", rules=rules))
    for action in sorted(legal(state)):
        expected: dict[bytes, float] = defaultdict(float)
        for after, prob in successors(to_oracle(state, state.rules), action):
            for key, rest in composed(after, 0).items():
                expected[key] += prob * rest
        found = predictive.own_successors(state, action)
        states = rows(found.states, len(found.log_probs))
        listed = dict(zip(map(key_of, states), np.exp(found.log_probs), strict=True))
        assert listed == pytest.approx(dict(expected), abs=1e-9) and len(listed) == len(states)
        assert all(row.is_over or row.current_player == 0 for row in states)
        won = [{-1: 0, 0: 1, 1: -1}[int(row.winner)] for row in states]
        np.testing.assert_allclose(found.rewards[:, 0], won)


@pytest.mark.slow
def test_the_single_seat_environment_is_as_frequent_as_the_sum() -> None:
    """Chi-square test of the environment's states after one own action; the error probability is 1e-6."""
    from unojax.adapters import encoding, solo
    from unojax.agents import PolicyAgent
    from unojax.device.static import Argument
    from unojax.policies import uniform

    state = make_state("R1 Y1", "RS YS RR Y2", "R2", rules=SKIPS)
    action, number = parse_action("R1"), 4096
    expected = predictive.own_successors(state, action)
    table = solo.Table(encoding.Encoder("none", rules=state.rules), 0)
    agent = Argument(PolicyAgent("uniform", uniform))
    keys = jax.random.key_data(jax.random.key(8)) + np.arange(number, dtype=np.uint32)[:, None]
    lanes, _ = solo.begin(agent, keys, np.zeros(number, np.int32), table=table)
    packed = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *jnp.shape(x))), game.pack_state(state))
    lanes, _ = solo.step(agent, lanes.replace(packed=packed), np.full(number, action), table=table)
    seen = Counter(map(key_of, rows(jax.device_get(jax.jit(lambda packed: packed.unpack())(lanes.packed)), number)))
    observed = np.array([seen[key_of(row)] for row in rows(expected.states, len(expected.log_probs))])
    assert observed.sum() == number
    means = number * np.exp(expected.log_probs)
    large = means >= 5
    parts = [np.append(x[large], x[~large].sum()) for x in (observed, means)]
    assert stats.chisquare(*(part[parts[1] > 0] for part in parts)).pvalue > ERROR_PROBABILITY
    assert large.sum() >= 5


def test_until_the_own_turn_is_the_mean_over_the_hands() -> None:
    games = games_of(RULES["forfeiting"])
    number = next(n for n in range(9) if games.states.current_player[n, 0] == 0)
    state, seen = jax.tree.map(lambda x: x[number, 0], games.states), games.view(0, number, 0)
    known, action = exact.exact_init(seen), min(legal(state))
    predicted = predictive.predict(known, seen, action, until_own_turn=True)
    by_view: dict[bytes, float] = defaultdict(float)
    reward = 0.0
    for hand, prob in zip(*known.hands(), strict=True):
        world = pomdp.on_host(determinize(cards.onehot_of(hand), seen), "test")
        found = predictive.own_successors(world, action)
        reward += prob * np.exp(found.log_probs) @ found.rewards[:, 0]
        for row, log_prob in zip(rows(found.states, len(found.log_probs)), found.log_probs, strict=True):
            by_view[key_of(jax.device_get(see(row, np.int8(0))))] += prob * np.exp(log_prob)
    views = map(key_of, rows(predicted.observations, len(predicted)))
    assert dict(zip(views, predicted.probs, strict=True)) == pytest.approx(dict(by_view), abs=1e-9)
    assert predictive.expected_reward(known, seen, action, until_own_turn=True) == pytest.approx(reward, abs=1e-9)


@pytest.mark.parametrize("name", slow_but(["official"], RULES))
def test_successors_have_the_probabilities_of_the_transition(name: str) -> None:
    """Each successor occurs once, with the probability of `transition_log_prob`."""
    rules, rng, number = RULES[name], random.Random(9), 0
    compute = jax.jit(jax.vmap(pomdp.transition_log_prob, in_axes=(None, None, 0)))
    while number < 20:
        state = from_oracle(random_position(rules, rng), rules)
        action = rng.choice(sorted(legal(state)))
        found = pomdp.successors(state, action)
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(found))
        number, size = number + (len(found.log_probs) > 1), len(found.log_probs)
        if size > 256:
            continue
        padded = pomdp.take(found.states, np.minimum(np.arange(256), size - 1))
        np.testing.assert_allclose(found.log_probs, np.asarray(compute(state, action, padded))[:size], atol=2e-6)
        assert np.exp(found.log_probs).sum() == pytest.approx(1, abs=1e-9)
        if size == 1:
            after = jax.jit(game.step)(state, np.int32(action), jax.random.key(0))
            assert_trees_equal(jax.tree.map(lambda x: x[0], found.states), jax.device_get(after))


# Bad input.


def test_refusals() -> None:
    begin = jax.jit(partial(belief.belief_init, num_particles=64))
    seen, other, drawing = (
        make_observation("R1 R2", "R5", 3),
        make_observation("R1 R2", "R5", 4),
        make_observation("R1 R2", "W+4:B", 3, penalty=4),
    )
    theirs = parse_observation("R1,R2/3/-/* R5 1 0 1 R5 *")
    known, of_theirs, of_drawing = (begin(view, jax.random.key(0)) for view in (seen, theirs, drawing))
    state, predict = make_state("R1", "Y1", "R5"), predictive.predict
    over = after_actions(state, "R1")
    mid_turn = next(before for _, before, _, _ in positions_of(RULES["official"]) if before.has_drawn and not before.is_my_turn)
    hands = exact.exact_init(mid_turn).hands()
    packed = Hands(bits.pack(cards.onehot_of(hands[0])), np.log(hands[1]).astype(np.float32))
    refusals(
        {
            "action": lambda: predict(known, seen),
            "action (illegal)": lambda: predict(known, seen, 60),
            "action (on their turn)": lambda: predict(of_theirs, theirs, 1),
            "action (illegal, from a state)": lambda: predictive.own_successors(state, 5),
            "belief": lambda: predict(known, other, 1),
            "types of opponents": lambda: predict(known, seen, 1, opponent=FAMILY),
            "jit": lambda: jax.jit(partial(predictive.expected_reward, known))(seen, 1),
            "opponent model": lambda: predict(of_theirs, theirs, opponent=belief.consistent_opponent),
            "4 cards": lambda: predict(of_drawing, drawing, DRAW),
            "limit": lambda: pomdp.successors(make_state("Y1", "Y2", "R5"), DRAW, limit=3),
            "over": lambda: pomdp.successors(over, 0),
            "which card the opponent has just drawn": lambda: predict(packed, mid_turn),
        }
    )
    assert predictive.expected_reward(of_drawing, drawing, DRAW) == 0
