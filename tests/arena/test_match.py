"""Matches: fair, repeatable, and clear about agents that misbehave."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import Array

from tests.helpers import ERROR_PROBABILITY, run_on_devices, slow_but
from unojax import cards, legal_mask, make_state
from unojax.agents import PolicyAgent
from unojax.arena import AgentError, Batch, Pairs, compile_match, default_batch_size, lanes, play_batches, play_match
from unojax.arena.ratings import paired_score
from unojax.belief import infer_action
from unojax.game import State
from unojax.observation import Observation
from unojax.rules import as_rules
from unojax.simulation import simulate
from unojax.specs import parse_agent

BATCH = 64
FEW = 16
"""Lanes where there are to be more batches; no third number, so that few programs are compiled."""
NUM_PAIRS = 128
MANY_PAIRS = 512
"""For statistics."""


def lowest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """A policy without chance."""
    del key, observation
    return legal_mask.argmax()


UNIFORM, SCARCEST, KEEP_WILDS = (parse_agent(name) for name in ("uniform", "scarcest-color", "keep-wilds"))
LOWEST = PolicyAgent("lowest", lowest_action)


def assert_same(one: Pairs, other: Pairs) -> None:
    """The same games; times aside."""
    for field in fields(Pairs):
        if field.name != "seconds":
            a, b = getattr(one, field.name), getattr(other, field.name)
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b, err_msg=field.name)


@pytest.fixture(scope="module")
def match() -> Pairs:
    return play_match(jax.random.key(1), (SCARCEST, UNIFORM), NUM_PAIRS, batch_size=BATCH)


@pytest.fixture(scope="module")
def long_match() -> Pairs:
    return play_match(jax.random.key(1), (SCARCEST, UNIFORM), MANY_PAIRS, batch_size=BATCH)


@pytest.mark.slow
def test_games_are_those_of_simulate_in_distribution(long_match: Pairs):
    match = long_match
    games = simulate(jax.random.key(0), 40_000, (SCARCEST.policy, UNIFORM.policy), batch_size=256)
    # The first games of the pairs; the second ones are the first ones of the match the other way round.
    samples = [
        (match.winner[:, 0] == 0, games.winner == 0),
        (match.num_steps[:, 0], games.num_steps),
        (match.num_choices[:, 0].sum(-1), games.num_choices),
    ]
    for mine, theirs in samples:
        # Two-sample z test; both have a thousand games or more.
        error = math.sqrt(mine.var() / len(mine) + theirs.var() / len(theirs))
        assert abs(mine.mean() - theirs.mean()) < error * scipy.stats.norm.isf(ERROR_PROBABILITY / 2 / len(samples))
    assert match.points.mean() > 0.6
    assert (match.seconds > 0).all()


def test_names_policies_and_agents_are_taken_alike(match: Pairs):
    for agents in (("scarcest-color", UNIFORM.policy), (SCARCEST, "uniform")):
        some = play_match(jax.random.key(1), agents, 10, batch_size=BATCH)
        np.testing.assert_array_equal(some.winner, match.winner[:10])


@pytest.mark.parametrize(
    ("agents", "message"),
    [
        (("uniform",), "agents must be two"),
        ("uniform", "agents must be two"),
        (("uniform", "smart"), "no agent is called 'smart'; choose one of uniform"),
        (("uniform", 3), "must be the spec of an agent, .*a policy.*or an agent"),
    ],
)
def test_what_is_no_agent_is_refused(agents: Any, message: str):
    with pytest.raises(ValueError, match=message):
        play_match(jax.random.key(1), agents, 2)


def test_a_key_that_is_none_is_refused():
    with pytest.raises(ValueError, match="play_match takes a random key"):
        play_match(3, ("uniform", "uniform"), 2)  # pyright: ignore[reportArgumentType]  # that it is refused is the test


def test_an_action_that_is_no_integer_is_refused():
    def half(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
        return legal_mask.argmax() + 0.5

    with pytest.raises(AgentError, match=r"half.*act must return one integer, got float32"):
        play_match(jax.random.key(1), (half, "uniform"), 2)


def test_result_shapes(match: Pairs):
    np.testing.assert_array_equal(match.index, np.arange(NUM_PAIRS))
    assert match.winner.shape == match.num_steps.shape == (NUM_PAIRS, 2)
    assert match.num_choices.shape == (NUM_PAIRS, 2, 2)
    assert set(np.unique(match.winner)) <= {-1, 0, 1}
    assert (match.num_choices.sum(-1) <= match.num_steps).all()


@pytest.mark.parametrize("agent", slow_but([UNIFORM], [UNIFORM, LOWEST]), ids=lambda agent: agent.name)
def test_equal_agents_play_the_same_game_twice(agent: PolicyAgent):
    pairs = play_match(jax.random.key(2), (agent, agent), 60, batch_size=BATCH)
    # Whoever is player 0 wins both games or neither, and that is each agent once.
    assert (pairs.points.sum(1) == 1).all()
    np.testing.assert_array_equal(pairs.num_steps[:, 0], pairs.num_steps[:, 1])
    np.testing.assert_array_equal(pairs.num_choices[:, 0], pairs.num_choices[:, 1, ::-1])
    assert 0 < (pairs.winner[:, 0] == 0).mean() < 1
    assert len(np.unique(pairs.num_steps[:, 0])) > 20, "the deals are meant to differ"


def test_the_match_the_other_way_round_has_the_same_games(match: Pairs):
    some = play_match(jax.random.key(1), (UNIFORM, SCARCEST), 40, batch_size=BATCH)
    swapped = match.swapped()
    np.testing.assert_array_equal(some.winner, swapped.winner[:40])
    np.testing.assert_array_equal(some.num_steps, swapped.num_steps[:40])
    np.testing.assert_array_equal(some.num_choices, swapped.num_choices[:40])
    assert_same(match, swapped.swapped())


@pytest.mark.parametrize(
    ("batch_size", "workers", "num_pairs"),
    [(BATCH, 1, 40), (BATCH, 3, 100), pytest.param(FEW, 2, 30, marks=pytest.mark.slow)],
)
def test_results_do_not_depend_on_batches_and_workers(match: Pairs, batch_size: int, workers: int, num_pairs: int):
    some = play_match(jax.random.key(1), (SCARCEST, UNIFORM), num_pairs, batch_size=batch_size, workers=workers)
    assert len(some) == num_pairs
    for name in ("winner", "num_steps", "num_choices"):
        np.testing.assert_array_equal(getattr(some, name), getattr(match, name)[:num_pairs])


def test_other_keys_are_other_games(match: Pairs):
    other = play_match(jax.random.key(2), (SCARCEST, UNIFORM), 60, batch_size=BATCH)
    assert (other.num_steps != match.num_steps[:60]).mean() > 0.8


@pytest.mark.slow
def test_the_same_deals_make_errors_smaller(record_property: Any, long_match: Pairs):
    alike = play_match(jax.random.key(1), (SCARCEST, KEEP_WILDS), MANY_PAIRS, batch_size=BATCH)
    gains = {
        "keep-wilds": paired_score(alike.points).variance_reduction,
        "uniform": paired_score(long_match.points).variance_reduction,
    }
    record_property("variance_reduction", gains)
    # The correlation r of the two games behind a gain of 1 / (1 + r) is about -0.43; by Fisher's transformation its error here is
    # 0.03, and a gain of 1.3 (r = -0.23) more than six of them off.
    assert gains["keep-wilds"] > 1.3
    assert gains["keep-wilds"] > gains["uniform"]


class Seen(NamedTuple):
    """The memory of `Witness`: its last observation, whether all was right so far, and the hidden hand if shown."""

    last: Observation
    is_right: Array
    hidden_count: Array


@partial(jax.tree_util.register_dataclass, data_fields=["forgets", "looks_away"], meta_fields=["name"])
@dataclass(frozen=True)
class Witness:
    """Plays the lowest legal action as long as the arena keeps its promises to agents, then an illegal one.

    Attributes:
        forgets: 1 if it does not update its memory, so that it must find a promise broken.
        looks_away: 1 if it does not look when it is shown the state, so that it must find that one broken.
        name: as in `Agent`.
    """

    forgets: float = 0.0
    looks_away: float = 0.0
    name: str = "witness"

    def init(self, key: Array, observation: Observation) -> Seen:
        del key
        is_right = (observation.hand.sum() == 7) & (observation.last_action == -1)
        return Seen(observation, is_right | observation.terminated, jnp.int32(-1))

    def update(self, key: Array, memory: Seen, before: Observation, action: Array, after: Observation) -> Seen:
        del key
        is_right = memory.is_right & same(memory.last, before) & ~before.terminated & (after.player == before.player)
        # What is shown is shown for one decision.
        is_right &= (infer_action(before, after) == action) & (memory.hidden_count == -1)
        new = Seen(after, is_right, memory.hidden_count)
        return jax.tree.map(partial(jnp.where, self.forgets == 1), memory, new)

    def reveal(self, memory: Seen, state: State, player: Array) -> Seen:
        hidden_count = state.hands[1 - player].sum(dtype=jnp.int32)
        return memory._replace(hidden_count=jnp.where(self.looks_away == 1, memory.hidden_count, hidden_count))

    def act(self, key: Array, memory: Seen, observation: Observation, legal_mask: Array) -> Array:
        del key
        is_right = memory.is_right & same(memory.last, observation) & observation.is_my_turn & (legal_mask.sum() > 1)
        is_right &= memory.hidden_count == observation.opponent_count
        return jnp.where(is_right | observation.terminated, legal_mask.argmax(), cards.NUM_ACTIONS)


def same(one: Observation, other: Observation) -> Array:
    return jnp.stack([(a == b).all() for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)]).all()


def test_each_draw_of_a_player_is_its_own():
    """For the first time and for the second, other cards; the same in both games of a pair."""
    state = make_state("B3", "G1 G2", "R7")
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (FEW, *x.shape)), state)
    pair, which, all_used = np.arange(FEW, dtype=np.uint32) // 2, np.arange(FEW, dtype=np.int32) % 2, np.ones(FEW, bool)
    seats, _ = lanes.deal(jax.random.key(0), pair, which, all_used, rules=state.rules)
    drawn = []
    for number in (0, 1):
        nothing = jnp.zeros((FEW, 2), jnp.int32)
        begun = lanes.MatchLanes(states, jnp.full(FEW, cards.DRAW, jnp.int32), nothing + number, nothing)
        after, *_ = lanes.advance(seats, begun, [begun.forced] * 2, chunk=FEW)
        first, second = np.asarray(after.state.hands[:, 0]).reshape(FEW // 2, 2, -1).swapaxes(0, 1)
        np.testing.assert_array_equal(first, second)
        drawn.append(first)
    assert (drawn[0] != drawn[1]).any(1).mean() > 0.8


@pytest.mark.parametrize(
    ("rules", "drawn", "number"), [("official", None, 1), ("official", "R3", 0), ("house", "B3", 1)], ids=["draw", "pass", "on"]
)
def test_a_pass_is_no_draw(rules: str, drawn: str | None, number: int):
    """The same action, but of a player who has drawn what can be played: the next draw is the one that it would have been.

    Where players draw until they can play, each card is drawn anew.
    """
    state = make_state("B3" if rules == "house" else "B3 R3", "G1 G2", "R7", drawn=drawn, rules=as_rules(rules))
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), state)
    which = np.arange(2, dtype=np.int32)
    seats, _ = lanes.deal(jax.random.key(0), which.astype(np.uint32), which, np.ones(2, bool), rules=state.rules)
    nothing = jnp.zeros((2, 2), jnp.int32)
    draws = jnp.full(2, cards.DRAW, jnp.int32)
    forced = jnp.where(legal_mask(state).sum() > 1, -1, draws)
    after, *_ = lanes.advance(seats, lanes.MatchLanes(states, forced, nothing, nothing), [draws] * 2, chunk=2)
    assert not after.state.error.any()
    np.testing.assert_array_equal(after.num_draws, [[number, 0]] * 2)


def test_an_agent_sees_every_step_and_acts_when_it_has_a_choice():
    pairs = play_match(jax.random.key(3), (Witness(), SCARCEST), 32, batch_size=BATCH)
    assert pairs.num_choices[:, :, 0].max() > 10


@pytest.mark.parametrize("witness", [Witness(forgets=1.0), Witness(looks_away=1.0)])
def test_the_witness_would_notice(witness: Witness):
    with pytest.raises(
        AgentError, match=r"agent witness chose the illegal action 61 in step \d+ of game [01] of pair \d+; legal"
    ):
        play_match(jax.random.key(3), (SCARCEST, witness), 32, batch_size=BATCH)


def test_other_numbers_do_not_compile_anew():
    play_match(jax.random.key(3), (Witness(), SCARCEST), 4, batch_size=BATCH)
    programs = lanes.begin, lanes.decide, lanes.remember, lanes.advance, lanes.deal
    sizes = [program._cache_size() for program in programs]
    play_match(jax.random.key(3), (Witness(forgets=0.5), SCARCEST), 4, batch_size=BATCH)
    assert [program._cache_size() for program in programs] == sizes


ON_DEVICES = """
import json, jax
from benchmarks.harness import digest
from tests.arena.test_match import LOWEST, SCARCEST, Witness
from unojax.arena import play_match
found = [len(jax.local_devices())]
for agents, options in (((Witness(), SCARCEST), {"batch_size": 32}), ((LOWEST, "linear"), {"adjust": 4})):
    pairs = play_match(jax.random.key(3), agents, 24, **options)
    found.append(digest(values for name, values in vars(pairs).items() if name != "seconds"))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_the_same_games_on_1_2_and_8_devices():
    """With memories, scores adjusted for luck, and the default batch size."""
    found = [run_on_devices(ON_DEVICES, number) for number in (1, 2, 8)]
    assert [number for number, *_ in found] == [1, 2, 8]
    assert len({tuple(digests) for _, *digests in found}) == 1


@dataclass(frozen=True)
class Faulty:
    """An agent with one fault."""

    fault: str
    name = "faulty"

    def init(self, key: Array, observation: Observation) -> Array:
        if self.fault == "init":
            raise KeyError("weights")
        return jnp.zeros(3)

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        return memory[:2] if self.fault == "memory" else memory

    def act(self, key: Array, memory: Array, observation: Observation, legal_mask: Array) -> Array:
        if self.fault == "draws":
            return jnp.int32(cards.DRAW)
        return legal_mask if self.fault == "shape" else legal_mask.argmax()


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("init", "agent faulty failed: KeyError: 'weights'"),
        ("shape", r"agent faulty failed: ValueError: act must return one integer, got bool\[61\]"),
        ("memory", "agent faulty failed: ValueError: update must return a memory like the one it gets"),
        ("draws", r"agent faulty chose the illegal action 60 \(draw\) in step \d+ of game [01] of pair \d; legal were \d+ \("),
    ],
)
def test_faulty_agents_are_named(fault: str, says: str):
    with pytest.raises(AgentError, match=says):
        play_match(jax.random.key(0), (LOWEST, Faulty(fault)), 4, batch_size=BATCH)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_pairs": 0}, "num_pairs must be an integer in"),
        ({"batch_size": 3}, "batch_size must be None or an even number"),
        ({"batch_size": 0}, "batch_size must be None or an even number"),
        ({"workers": 0}, "workers must be None or an integer of at least 1"),
    ],
)
def test_arguments_are_checked(options: dict[str, int], says: str):
    with pytest.raises(ValueError, match=says):
        play_match(jax.random.key(0), (UNIFORM, UNIFORM), **({"num_pairs": 2} | options))


@pytest.mark.parametrize(("num_games", "workers", "size"), [(2, 1, 2), (2, 8, 2), (100, 1, 128), (100, 2, 64), (10**6, 2, 1024)])
def test_default_batch_size_is_a_power_of_two_that_leaves_work_for_all(num_games: int, workers: int, size: int):
    assert default_batch_size(num_games, workers) == size


def test_whoever_stops_iterating_stops_the_work(match: Pairs):
    compile_match((SCARCEST, UNIFORM), batch_size=BATCH)
    started = []
    batches = [Batch((SCARCEST, UNIFORM), np.arange(i, i + BATCH // 2)) for i in range(0, 10**5, BATCH // 2)]
    playing = play_batches(jax.random.key(1), batches, batch_size=BATCH, workers=2, on_games=started.append)
    batch, pairs = next(playing)
    playing.close()
    assert sum(started) < 10 * BATCH
    np.testing.assert_array_equal(pairs.winner, match.winner[batch.pairs])
