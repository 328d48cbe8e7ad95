"""What a player sees next, against plain Python, against the evidence of filters, and against what happens in games."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import harness
from benchmarks import predictive as benchmark
from tests.belief import oracle
from tests.helpers import ERROR_PROBABILITY, assert_trees_equal, deck_of, jitted_step, legal, slow_but
from tests.oracle.chain import successors
from tests.oracle.game import DRAW
from tests.oracle.positions import from_oracle, to_oracle
from unojax import belief, bits, cards, game, pomdp
from unojax.belief import exact, predictive
from unojax.belief.hands import Hands
from unojax.belief.updaters import BootstrapFilter, ExactFilter, ParticleFilter
from unojax.observation import Observation, determinize
from unojax.rules import Rules
from unojax.text import make_observation, make_state, parse_action, parse_observation

RULES = {
    "forfeiting": oracle.FORFEITING,
    "passing": oracle.PASSING,
    "official": Rules.official(deck=deck_of("R1 R1 RS R+2 Y1 Y2 YR B1 W W+4"), hand_size=2),
    "house": Rules.house(deck=deck_of("R1 R1 R+2 R+2 Y1 Y2 Y+2 B1 BS W"), hand_size=2),
    "rlcard": Rules.rlcard(deck=deck_of("R1 R1 RS R+2 Y1 Y2 Y+2 B1 W W+4"), hand_size=2),
}
POSITIONS = 200
see, begin = jax.jit(oracle.observe), jax.jit(game.init, static_argnames="rules")
FAMILY = belief.Family((belief.uniform_opponent, belief.PolicyOpponent(belief.opponents.get_policy("linear"), 0.2)))


def asked(seen: Observation, action: int):
    """The argument `action` of `predict` at a position of a game."""
    return action if bool(seen.is_my_turn) else None


def games_of(rules: Rules, seed: int, opponent, prior="deal"):
    """Positions of random games as one player sees them: (belief, before, action, after) without end."""
    updater = ExactFilter(opponent, prior=prior)
    rng = np.random.default_rng(seed)
    for number in range(10_000):
        key = jax.random.key(1000 * seed + number)
        state, player = begin(key, rules=rules), np.int8(rng.integers(2))
        before = jax.device_get(see(state, player))
        known = updater.init(key, before)
        for step in range(30):
            if state.is_over:
                break
            action = int(rng.choice(sorted(legal(state))))
            state = jitted_step(state, np.int32(action), jax.random.fold_in(key, step))
            after = jax.device_get(see(state, player))
            yield known, before, action, after
            known, _ = exact.exact_update(known, before, action, after, opponent=opponent)
            before = after


# Against the exact filter


@pytest.mark.parametrize("name", slow_but(["forfeiting", "official"], RULES))
def test_it_adds_up_to_one_and_agrees_with_the_evidence(name: str):
    """What is predicted of what comes is the evidence that the filter finds afterwards, in either player's turn."""
    positions, seen = games_of(RULES[name], 1, belief.uniform_opponent), Counter()
    for _ in range(POSITIONS):
        known, before, action, after = next(positions)
        predicted = predictive.predict(known, before, asked(before, action))
        assert predicted.probs.sum() == pytest.approx(1, abs=1e-6)
        _, evidence = exact.exact_update(known, before, action, after)
        assert predicted.log_prob(after) == pytest.approx(evidence, abs=1e-6)
        seen["own" if before.is_my_turn else "theirs", "draw" if action == DRAW else "other", len(predicted) > 1] += 1
    assert min(seen["own", "draw", True], seen["theirs", "other", True]) > 20


def test_types_of_the_opponent_are_summed_out():
    positions = games_of(RULES["forfeiting"], 2, FAMILY)
    for _ in range(40):
        known, before, action, after = next(positions)
        predicted = predictive.predict(known, before, asked(before, action), opponent=FAMILY)
        _, evidence = exact.exact_update(known, before, action, after, opponent=FAMILY)
        assert predicted.probs.sum() == pytest.approx(1, abs=1e-6)
        assert predicted.log_prob(after) == pytest.approx(evidence, abs=1e-6)


# Against plain Python


def test_every_outcome_is_that_of_plain_python():
    """Each position: all that the worlds of the oracle's belief lead to, by what the observer sees of it."""
    rules = RULES["forfeiting"]
    positions = games_of(rules, 3, belief.uniform_opponent, prior="uniform")
    number = 0
    while number < 40:
        known, before, action, _ = next(positions)
        if before.last_action >= 0:
            continue
        number += 1
        expected: dict[oracle.View, float] = defaultdict(float)
        for w, p in oracle.deal(before, sees_start=False).items():
            options = oracle.legal_actions(w.hands[w.mover], w.top, w.color, w.penalty)
            for a in [action] if w.mover == 0 else options:
                share = 1.0 if w.mover == 0 else 1 / len(options)
                branches = oracle._after_draw(w, None) if a == DRAW else [(1.0, oracle._play(w, a, True))]
                for chance, after in branches:
                    expected[oracle.view_of(after)] += p * share * chance
        predicted = predictive.predict(known, before, asked(before, action))
        rows = [jax.tree.map(lambda x, i=i: x[i], predicted.observations) for i in range(len(predicted))]
        told = {oracle.view_from(row): prob for row, prob in zip(rows, predicted.probs, strict=True)}
        assert told == pytest.approx(dict(expected), abs=1e-9) and len(told) == len(rows)


# Particles


@pytest.mark.parametrize("name", slow_but(["forfeiting"], ["forfeiting", "official"]))
def test_particles_predict_what_the_exact_belief_does(name: str):
    """In games, after a few updates; 4,096 particles, so that a probability is off by 0.008 in one standard error at most."""
    rules, key = RULES[name], jax.random.key(4)
    updater = ParticleFilter(4096, max_slots=48, max_plays=48)
    positions, compared, mid_turn = games_of(rules, 5, belief.uniform_opponent), 0, 0
    update = jax.jit(updater.update)
    cloud = None
    while compared < 25:
        known, before, action, after = next(positions)
        key, key_update = jax.random.split(key)
        if before.last_action < 0:
            cloud = updater.init(key_update, before)
        if len(known.hands()[1]) > 1:
            predicted, told = (predictive.predict(b, before, asked(before, action)) for b in (known, cloud))
            assert told.probs.sum() == pytest.approx(1, abs=1e-6)
            for i in range(len(predicted)):
                row = jax.tree.map(lambda x, i=i: x[i], predicted.observations)
                assert np.exp(told.log_prob(row)) == pytest.approx(predicted.probs[i], abs=0.05)
            compared += 1
            mid_turn += bool(before.has_drawn) and not before.is_my_turn
        cloud, _ = update(key_update, cloud, before, jnp.int32(action), after)
    assert mid_turn or name == "forfeiting"


def test_hands_and_bootstrap_particles_predict_too():
    seen = make_observation("R1 R2", "R5", 3)
    begun = BootstrapFilter(256).init(jax.random.key(0), seen)
    for one in (begun, Hands(begun.packed, begun.log_weights)):
        told = predictive.predict(one, seen, parse_action("R1"))
        assert len(told) == 1 and told.probs[0] == pytest.approx(1)


def test_calibrated_on_the_full_deck(tmp_path: Path):
    """Of all that is predicted with a probability near p, a share near p happens: opponents' actions and own draws.

    In each bin of thirty predictions or more, within four standard errors, which take games as independent, and three
    hundredths, which 256 particles may be off by themselves.
    """
    path = tmp_path / "predictive.json"
    (row,) = harness.main(
        benchmark.predictive.name, [*"--games 24 --max-steps 16 --particles 256 --seed 7 --json".split(), str(path)]
    )
    assert harness.read_rows(path) == [row] and row.figures["transitions"] > 150
    assert row.figures["missed"] <= row.figures["transitions"] / 20
    bins = [one for one in row.figures["bins"] if one["number"] >= 30]
    assert len(bins) >= 2 and sum(one["number"] for one in bins) > 2000
    for one in bins:
        assert abs(one["surplus"]["mean"]) < 4 * one["surplus"]["standard_error"] + 0.03


# Rewards


def test_expected_rewards_are_the_means_of_the_predicted():
    positions, seen = games_of(RULES["official"], 6, belief.uniform_opponent), 0
    for _ in range(60):
        known, before, action, _ = next(positions)
        predicted = predictive.predict(known, before, asked(before, action))
        reward = predictive.expected_reward(known, before, asked(before, action))
        assert reward == pytest.approx(predicted.expected_reward, abs=1e-9)
        seen += reward != 0
    assert seen


def test_a_known_reward():
    """The opponent holds one of the two cards left, R1 or Y1, and only the first can be laid: it wins half of the time."""
    rules = Rules(deck=deck_of("R1 R2 R5 Y1 Y2"), hand_size=1)
    seen = parse_observation("R2,Y2/1/-/1 R5 1 0 1 R5 *", rules=rules)
    known = exact.exact_init(seen)
    assert predictive.expected_reward(known, seen) == pytest.approx(-0.5)
    mine = parse_observation("R2/2/-/1 R5 0 0 1 R5 *", rules=rules)
    assert predictive.expected_reward(exact.exact_init(mine), mine, parse_action("R2")) == 1


def test_points_are_expected_over_the_belief():
    """A player who goes out wins the points of the hidden hand: their mean over the belief."""
    rules = Rules(deck=deck_of("R1 R5 Y3 Y9 W"), hand_size=1, points=True)
    seen = parse_observation("R1/1/-/2 R5 0 0 0 - *", rules=rules)
    earned = predictive.expected_reward(exact.exact_init(seen), seen, parse_action("R1"))
    assert earned == pytest.approx((3 + 9 + 50) / 3 / 500)


# Through the opponent's replies


def composed(told, me: int) -> dict[bytes, float]:
    """Plain Python: all positions at the player's next move, if the opponent plays uniformly."""
    if told.is_over or told.player == me:
        return {state_key(told): 1.0}
    result: dict[bytes, float] = defaultdict(float)
    options = sorted(told.legal_actions())
    for action in options:
        for after, prob in successors(told, action):
            for key, rest in composed(after, me).items():
                result[key] += prob * rest / len(options)
    return result


def state_key(told) -> bytes:
    return key_of(from_oracle(told, Rules()))


def key_of(state: game.State) -> bytes:
    names = ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "terminated", "winner", "step_count")
    return b"".join(np.asarray(getattr(state, name)).tobytes() for name in names)


CHAINS = {
    "Skips": {
        "hand0": "R1 Y1",
        "hand1": "RS YS RR Y2",
        "top": "R2",
        "rules": Rules(deck=deck_of("R1 R1 R2 RS RR Y1 Y2 YS B1 W"), hand_size=2),
    },
    "a penalty": {
        "hand0": "R+2 Y1",
        "hand1": "RS B1",
        "top": "R2",
        "rules": Rules(deck=deck_of("R1 R2 R+2 RS Y1 Y2 B1 W"), hand_size=2),
    },
    "passed": {
        "hand0": "R1 Y1",
        "hand1": "RS YS",
        "top": "R2",
        "rules": Rules(deck=deck_of("R1 R1 R2 RS Y1 YS B1"), hand_size=2, skip_forfeits=False),
    },
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_composed_transition_is_that_of_plain_python(name: str):
    state = jax.device_get(make_state(**CHAINS[name]))
    for action in sorted(legal(state)):
        expected: dict[bytes, float] = defaultdict(float)
        for after, prob in successors(to_oracle(state, state.rules), action):
            for key, rest in composed(after, 0).items():
                expected[key] += prob * rest
        found = predictive.own_successors(state, action)
        rows = [jax.tree.map(lambda x, i=i: x[i], found.states) for i in range(len(found.log_probs))]
        told = {key_of(row): prob for row, prob in zip(rows, np.exp(found.log_probs), strict=True)}
        assert told == pytest.approx(dict(expected), abs=1e-9) and len(told) == len(rows)
        assert all(row.is_over or row.current_player == 0 for row in rows)
        won = np.array([{-1: 0, 0: 1, 1: -1}[int(row.winner)] for row in rows])
        np.testing.assert_allclose(found.rewards[:, 0], won)


def test_the_single_seat_environment_is_as_frequent_as_the_sum():
    """Chi-square test of the environment's states after one own action; a right program fails with probability 1e-6."""
    from scipy import stats

    from unojax.adapters import encoding, solo
    from unojax.agents import PolicyAgent
    from unojax.device import static
    from unojax.policies import uniform

    state = make_state(**CHAINS["Skips"])
    action, number = parse_action("R1"), 4096
    expected = predictive.own_successors(state, action)
    table = solo.Table(encoding.Encoder("none", rules=state.rules), 0)
    numbers, skeleton = static.split(PolicyAgent("uniform", uniform))
    keys = (
        np.stack([jax.random.key_data(jax.random.key(seed)) for seed in (8, 9)])[0] + np.arange(number, dtype=np.uint32)[:, None]
    )
    lanes, _ = solo.begin(numbers, keys, np.zeros(number, np.int32), skeleton=skeleton, table=table)
    packed = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *jnp.shape(x))), game.pack_state(state))
    lanes, _ = solo.step(numbers, lanes.replace(packed=packed), np.full(number, action), skeleton=skeleton, table=table)
    reached = jax.device_get(jax.jit(lambda packed: packed.unpack())(lanes.packed))
    seen = Counter(key_of(jax.tree.map(lambda x, i=i: x[i], reached)) for i in range(number))
    rows = [jax.tree.map(lambda x, i=i: x[i], expected.states) for i in range(len(expected.log_probs))]
    observed = np.array([seen[key_of(row)] for row in rows])
    assert observed.sum() == number
    means = number * np.exp(expected.log_probs)
    large = means >= 5
    parts = [np.append(x[large], x[~large].sum()) for x in (observed, means)]
    assert stats.chisquare(*(part[parts[1] > 0] for part in parts)).pvalue > ERROR_PROBABILITY
    assert large.sum() >= 5


def test_until_the_own_turn_is_the_mean_over_the_hands():
    rules = RULES["forfeiting"]
    state = begin(jax.random.key(3), rules=rules)
    seen = jax.device_get(see(state, np.int8(0)))
    known = exact.exact_init(seen)
    action = min(legal(state))
    told = predictive.predict(known, seen, action, until_own_turn=True)
    by_view: dict[bytes, float] = defaultdict(float)
    reward = 0.0
    for hand, prob in zip(*known.hands(), strict=True):
        found = predictive.own_successors(pomdp.on_host(determined(seen, hand), "test"), action)
        reward += prob * np.exp(found.log_probs) @ found.rewards[:, 0]
        for i, p in enumerate(np.exp(found.log_probs)):
            row = jax.device_get(see(jax.tree.map(lambda x, i=i: x[i], found.states), np.int8(0)))
            by_view[b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(row))] += prob * p
    rows = [jax.tree.map(lambda x, i=i: x[i], told.observations) for i in range(len(told))]
    keys = [b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(row)) for row in rows]
    assert dict(zip(keys, told.probs, strict=True)) == pytest.approx(dict(by_view), abs=1e-9)
    assert predictive.expected_reward(known, seen, action, until_own_turn=True) == pytest.approx(reward, abs=1e-9)


def determined(seen: Observation, hand: np.ndarray) -> game.State:
    return determinize(cards.onehot_of(hand), seen)


# Single transitions of a state


@pytest.mark.parametrize("name", slow_but(["official"], RULES))
def test_successors_have_the_probabilities_of_the_transition(name: str):
    """All that follows, each once, with T(s' | s, a) as `transition_log_prob` has it."""
    import random

    from tests.oracle.positions import random_position

    rules, rng = RULES[name], random.Random(9)
    compute = jax.jit(jax.vmap(pomdp.transition_log_prob, in_axes=(None, None, 0)))
    number = 0
    while number < 30:
        state = from_oracle(random_position(rules, rng), rules)
        action = rng.choice(sorted(legal(state)))
        found = pomdp.successors(state, action)
        number += len(found.log_probs) > 1
        size = len(found.log_probs)
        if size > 256:
            continue
        padded = pomdp.take(found.states, np.minimum(np.arange(256), size - 1))
        told = np.asarray(compute(state, action, padded))[:size]
        np.testing.assert_allclose(found.log_probs, told, atol=2e-6)
        assert np.exp(found.log_probs).sum() == pytest.approx(1, abs=1e-9)


# Bad input


def test_bad_input_is_refused():
    seen = make_observation("R1 R2", "R5", 3)
    known = belief.belief_init(seen, jax.random.key(0), num_particles=64)
    with pytest.raises(ValueError, match="own turn alone, got None on the player's own turn"):
        predictive.predict(known, seen)
    with pytest.raises(ValueError, match="action 60 is not legal here; legal are 1, 2"):
        predictive.predict(known, seen, 60)
    other = make_observation("R1 R2", "R5", 4)
    with pytest.raises(ValueError, match="not one of this observation"):
        predictive.predict(known, other, 1)
    with pytest.raises(ValueError, match="no types of opponents"):
        predictive.predict(known, seen, 1, opponent=FAMILY)
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(partial(predictive.expected_reward, known))(seen, 1)
    theirs = parse_observation("R1,R2/3/-/* R5 1 0 1 R5 *")
    known = belief.belief_init(theirs, jax.random.key(0), num_particles=64)
    with pytest.raises(ValueError, match="leave action out"):
        predictive.predict(known, theirs, 1)
    with pytest.raises(ValueError, match="must give probabilities of the legal actions, with sum 1"):
        predictive.predict(known, theirs, opponent=belief.consistent_opponent)
    drawing = make_observation("R1 R2", "W+4:B", 3, penalty=4)
    known = belief.belief_init(drawing, jax.random.key(0), num_particles=64)
    with pytest.raises(ValueError, match=r"4 cards can be drawn in [\d,]+ ways from 64 decks"):
        predictive.predict(known, drawing, DRAW)
    assert predictive.expected_reward(known, drawing, DRAW) == 0
    state = make_state("R1", "Y1", "R5")
    with pytest.raises(ValueError, match="more than limit=3"):
        pomdp.successors(make_state("Y1", "Y2", "R5"), DRAW, limit=3)
    with pytest.raises(ValueError, match="action 5 is not legal"):
        predictive.own_successors(state, 5)
    over = game.step(state, parse_action("R1"), jax.random.key(0))
    with pytest.raises(ValueError, match="the game is over"):
        pomdp.successors(over, 0)


def test_mid_turn_hands_alone_are_refused():
    rules = RULES["official"]
    for known, before, _, _ in games_of(rules, 10, belief.uniform_opponent):
        if bool(before.has_drawn) and not before.is_my_turn:
            counts, probs = known.hands()
            packed = tuple(np.asarray(w) for w in bits.pack(cards.onehot_of(counts)))
            with pytest.raises(ValueError, match="which card the opponent has just drawn"):
                predictive.predict(Hands(packed, jnp.log(probs)), before)
            return


def test_what_comes_back_is_on_the_host():
    state = make_state("R1 Y1", "Y2", "R5")
    found = pomdp.successors(state, parse_action("R1"))
    assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(found))
    after = game.step(state, parse_action("R1"), jax.random.key(0))
    assert_trees_equal(jax.tree.map(lambda x: x[0], found.states), jax.device_get(after))
