"""Matches: fair, reproducible, and with clear errors for faulty agents."""

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

from tests.arena.players import BATCH, LOWEST, RULES, SCARCEST, UNIFORM, assert_same, first_pairs, lowest_action
from tests.helpers import ERROR_PROBABILITY, refusals, run_on_devices
from unojax import cards, legal_mask, make_state
from unojax.agents import Agent, PolicyAgent
from unojax.arena import AgentError, Batch, Pairs, compile_match, default_batch_size, lanes, play_batches, play_match
from unojax.arena.ratings import paired_score
from unojax.belief import infer_action
from unojax.game import State, pack_state
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.simulation import simulate

NUM_PAIRS = 40
PROGRAMS = 80  # memories, faulty agents, and lanes under other rules

play = partial(play_match, rules=RULES, batch_size=BATCH)


@pytest.fixture(scope="module")
def match() -> Pairs:
    return play(jax.random.key(1), (SCARCEST, UNIFORM), NUM_PAIRS)


def test_results_are_those_of_the_key_and_the_agents(match: Pairs):
    np.testing.assert_array_equal(match.index, np.arange(NUM_PAIRS))
    assert match.winner.shape == match.num_steps.shape == (NUM_PAIRS, 2)
    assert match.num_choices.shape == (NUM_PAIRS, 2, 2)
    assert set(np.unique(match.winner)) <= {-1, 0, 1}
    assert (match.num_choices.sum(-1) <= match.num_steps).all() and (match.seconds > 0).all()
    # Contract: a policy is `policy(key, observation, legal_mask) -> action`. Names and policies stand for agents; the numbers of
    # batches and of workers change nothing.
    for agents, number, workers in ((("scarcest-color", UNIFORM.policy), 10, 1), ((SCARCEST, "uniform"), 30, 3)):
        some = play(jax.random.key(1), agents, number, workers=workers)
        assert_same(some, first_pairs(match, number))
    other = play(jax.random.key(2), (SCARCEST, UNIFORM), NUM_PAIRS)
    assert (other.num_steps != match.num_steps).mean() > 0.8


def test_the_reversed_match_has_the_same_games(match: Pairs):
    swapped = match.swapped()
    some = play(jax.random.key(1), (UNIFORM, SCARCEST), NUM_PAIRS)
    assert_same(some, swapped)
    assert_same(match, swapped.swapped())
    assert (some.num_choices != match.num_choices).any()


@pytest.mark.parametrize("agent", [UNIFORM, pytest.param(LOWEST, marks=pytest.mark.slow)], ids=lambda agent: agent.name)
def test_equal_agents_play_the_same_game_twice(agent: Agent):
    pairs = play(jax.random.key(2), (agent, agent), NUM_PAIRS)
    # Player 0 wins both games or neither, and each agent is player 0 once.
    assert (pairs.points.sum(1) == 1).all()
    np.testing.assert_array_equal(pairs.num_steps[:, 0], pairs.num_steps[:, 1])
    np.testing.assert_array_equal(pairs.num_choices[:, 0], pairs.num_choices[:, 1, ::-1])
    assert 0 < (pairs.winner[:, 0] == 0).mean() < 1
    assert len(np.unique(pairs.num_steps[:, 0])) > 10, "the deals must differ"


@pytest.mark.slow
def test_the_batch_size_changes_no_result(match: Pairs):
    assert_same(play(jax.random.key(1), (SCARCEST, UNIFORM), NUM_PAIRS, batch_size=64, workers=2), match)


@pytest.mark.slow
def test_games_under_default_rules_are_those_of_simulate_in_distribution():
    """Duplicate deals make errors smaller, most between similar agents."""
    sizes = {"rules": Rules(), "batch_size": 64}
    match, alike = (play(jax.random.key(1), (SCARCEST, other), 512, **sizes) for other in (UNIFORM, "keep-wilds"))
    games = simulate(jax.random.key(0), 40_000, (SCARCEST.policy, UNIFORM.policy), batch_size=256)
    # The first games of the pairs; the second ones are the first ones of the reversed match.
    samples = [
        (match.winner[:, 0] == 0, games.winner == 0),
        (match.num_steps[:, 0], games.num_steps),
        (match.num_choices[:, 0].sum(-1), games.num_choices),
    ]
    for mine, theirs in samples:
        # Two-sample z test; both have hundreds of games or more.
        error = math.sqrt(mine.var() / len(mine) + theirs.var() / len(theirs))
        assert abs(mine.mean() - theirs.mean()) < error * scipy.stats.norm.isf(ERROR_PROBABILITY / 2 / len(samples))
    assert match.points.mean() > 0.6
    # The correlation r of the two games behind a gain of 1 / (1 + r) is about -0.43; by Fisher's transformation its error here is
    # 0.03, and a gain of 1.3 (r = -0.23) more than six errors away.
    gain = paired_score(alike.points).variance_reduction
    assert gain > 1.3 and gain > paired_score(match.points).variance_reduction


def test_refusals(match: Pairs):
    def call(agents: Any = (UNIFORM, UNIFORM), num_pairs: int = 2, **options: Any) -> Pairs:
        return play(options.pop("key", jax.random.key(0)), agents, num_pairs, **options)

    refusals(
        {
            "agents (one)": lambda: call(("uniform",)),
            "agents (text)": lambda: call("uniform"),
            "'smart'": lambda: call(("uniform", "smart")),
            "3 (no agent)": lambda: call(("uniform", 3)),
            "key": lambda: call(key=3),
            "num_pairs": lambda: call(num_pairs=0),
            "batch_size (odd)": lambda: call(batch_size=3),
            "batch_size (zero)": lambda: call(batch_size=0),
            "workers": lambda: call(workers=0),
            "series": lambda: call(num_pairs=10, series=3),
            "adjust": lambda: call(adjust=-1),
        }
    )


class Seen(NamedTuple):
    """Memory of `Witness`: last observation, whether all was right, and the hidden hand's size if shown."""

    last: Observation
    is_right: Array
    hidden_count: Array


@partial(jax.tree_util.register_dataclass, data_fields=["forgets", "looks_away"], meta_fields=["name"])
@dataclass(frozen=True)
class Witness:
    """Plays the lowest legal action while the arena fulfils the protocol of agents, then an illegal one.

    Contract: an agent with memory (a belief, a tree) adds `init` and `update` to a policy.

    Attributes:
        forgets: 1: does not update its memory, so that it must find a violation.
        looks_away: 1: ignores the shown state, so that it must find a violation.
        name: As in `Agent`.
    """

    forgets: float = 0.0
    looks_away: float = 0.0
    name: str = "witness"

    def init(self, key: Array, observation: Observation) -> Seen:
        del key
        is_right = (observation.hand.sum() == observation.rules.hand_size) & (observation.last_action == -1)
        return Seen(observation, is_right | observation.terminated, jnp.int32(-1))

    def update(self, key: Array, memory: Seen, before: Observation, action: Array, after: Observation) -> Seen:
        del key
        is_right = memory.is_right & same(memory.last, before) & ~before.terminated & (after.player == before.player)
        # The state is shown for one decision only.
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


def test_an_agent_sees_every_step_and_acts_when_it_has_a_choice():
    pairs = play(jax.random.key(3), (Witness(), SCARCEST), 16)
    assert pairs.num_choices[:, :, 0].max() > 5
    # The witness would notice. Agents that differ in numbers share their programs.
    programs = lanes.begin, lanes.decide, lanes.remember, lanes.advance, lanes.deal
    sizes = [program._cache_size() for program in programs]
    for witness in (Witness(forgets=1.0), Witness(looks_away=1.0)):
        with pytest.raises(AgentError, match=r"agent witness chose the illegal action 61 in step \d+ of game [01] of pair \d+;"):
            play(jax.random.key(3), (Witness(), witness), 16)
    assert [program._cache_size() for program in programs] == sizes


def highest_action(key: Array, observation: Observation, legal_mask: Array) -> Array:
    del key, observation
    return len(legal_mask) - 1 - legal_mask[::-1].argmax()


@dataclass(frozen=True)
class Tallying:
    """Plays the lowest action after an even number of steps, else the highest. Has no `next_game`."""

    name: str = "tallying"

    def init(self, key: Array, observation: Observation) -> Array:
        del key, observation
        return jnp.int32(0)

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        del key, before, action, after
        return memory + 1

    def act(self, key: Array, memory: Array, observation: Observation, legal_mask: Array) -> Array:
        plays = (rule(key, observation, legal_mask) for rule in (lowest_action, highest_action))
        return jnp.where(memory % 2 == 0, *plays).astype(jnp.int32)


@dataclass(frozen=True)
class Counting(Tallying):
    """Alternates between the lowest and the highest action from game to game."""

    name: str = "counting"

    def update(self, key: Array, memory: Array, before: Observation, action: Array, after: Observation) -> Array:
        del key, before, action, after
        return memory

    def next_game(self, key: Array, memory: Array, observation: Observation) -> Array:
        del key, observation
        return memory + 1


def test_memory_carries_over_through_a_series():
    """Game k of a series continues from the previous one in the same seat only."""
    key, num_pairs, series = jax.random.key(7), 30, 3
    remembering = play(key, (Counting(), SCARCEST), num_pairs, series=series, workers=2)
    lowest, highest = (play(key, (agent, SCARCEST), num_pairs) for agent in (LOWEST, PolicyAgent("", highest_action)))
    is_second = (np.arange(num_pairs) % series) % 2 == 1
    assert (lowest.num_steps != highest.num_steps).any(1).mean() > 0.7

    def choose(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return np.where(is_second.reshape(-1, *[1] * (one.ndim - 1)), other, one)

    names = [field.name for field in fields(Pairs) if field.name != "seconds"]
    expected = {name: choose(getattr(lowest, name), getattr(highest, name)) for name in names}
    assert_same(remembering, Pairs(**expected, seconds=remembering.seconds))
    assert (remembering.seconds > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "num_pairs", "batch_size"),
    [(Tallying(), 24, BATCH), pytest.param("mc:rollouts=2,belief=unseen,particles=8", 6, 4, marks=pytest.mark.long)],
    ids=["tallying", "mc"],
)
def test_agents_without_next_game_play_a_series_as_single_games(agent: Any, num_pairs: int, batch_size: int):
    agents = (SCARCEST, agent)
    alone, in_series = (play(jax.random.key(2), agents, num_pairs, series=series, batch_size=batch_size) for series in (1, 3))
    assert_same(alone, in_series)


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
        faults = {"draws": jnp.int32(cards.DRAW), "shape": legal_mask, "half": legal_mask.argmax() + 0.5}
        return faults.get(self.fault, legal_mask.argmax())


def test_faulty_agents_are_named():
    for fault, message in {
        "init": "agent faulty failed: KeyError: 'weights'",
        "shape": r"agent faulty failed: ValueError: act must return one integer, got bool\[61\]",
        "half": "agent faulty failed: ValueError: act must return one integer, got float32",
        "memory": "agent faulty failed: ValueError: update must return a memory like",
        "draws": r"agent faulty chose the illegal action 60 \(draw\) in step \d+ of game [01] of pair \d; legal were \d+ \(",
    }.items():
        with pytest.raises(AgentError, match=message):
            play(jax.random.key(0), (UNIFORM, Faulty(fault)), 4)


def draw_after(states: State, num_draws: int) -> lanes.MatchLanes:
    """Advance positions, two games of each deal, by a draw, after some draws of both players."""
    number = len(states.color)
    which = np.arange(number, dtype=np.int32)
    pair, all_used = (which // 2).astype(np.uint32), np.ones(number, bool)
    seats, _ = lanes.deal(jax.random.key(0), pair, which % 2, all_used, rules=states.rules)
    draws = np.full(number, cards.DRAW, np.int32)
    legal = np.asarray(jax.jit(jax.vmap(legal_mask))(states)).sum(1)
    nothing = np.zeros((number, 2), np.int32)
    packed = jax.jit(jax.vmap(pack_state))(states)
    begun = lanes.MatchLanes(packed, np.where(legal > 1, -1, draws), nothing + num_draws, nothing)
    after, *_ = lanes.advance(seats, begun, [draws, draws])
    assert not np.asarray(after.state.error).any()
    return after


def test_each_draw_of_a_player_has_its_own_card_and_passing_is_no_draw():
    """Under rules with repeated draws and passes."""
    rules = Rules.house()
    drawn = {None: 1, "R3": 0, "B3": 1}
    states = [make_state("B3 R3" if card == "R3" else "B3", "G1 G2", "R7", drawn=card, rules=rules) for card in drawn]
    states += [states[0]] * (BATCH - len(states))
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    first, second = (draw_after(stacked, number) for number in (0, 1))
    np.testing.assert_array_equal(first.num_draws[:3], [[number, 0] for number in drawn.values()])
    unpack = jax.jit(lambda after: after.state.unpack().hands)
    hands = [np.asarray(unpack(after))[4:, 0] for after in (first, second)]
    for both_games in hands:
        np.testing.assert_array_equal(both_games[0::2], both_games[1::2])
    assert (hands[0] != hands[1]).any(1).mean() > 0.8
    assert len({bytes(hand) for hand in hands[0]}) > 3


def test_default_batch_size_is_a_power_of_two_that_leaves_work_for_all():
    for num_games, workers, size in ((2, 1, 2), (2, 8, 2), (100, 1, 128), (100, 2, 64), (10**6, 2, 1024)):
        assert default_batch_size(num_games, workers) == size, (num_games, workers)


def test_closing_the_generator_stops_the_work(match: Pairs):
    compile_match((SCARCEST, UNIFORM), rules=RULES, batch_size=BATCH)
    started = []
    batches = [Batch((SCARCEST, UNIFORM), np.arange(i, i + BATCH // 2)) for i in range(0, 10**5, BATCH // 2)]
    options = {"rules": RULES, "batch_size": BATCH, "workers": 2, "on_games": started.append}
    playing = play_batches(jax.random.key(1), batches, **options)
    batch, pairs = next(playing)
    playing.close()
    assert sum(started) < 10 * BATCH
    np.testing.assert_array_equal(pairs.winner, match.winner[batch.pairs])


ON_DEVICES = """
import json, jax
from benchmarks.harness import digest
from tests.arena.players import LOWEST, SCARCEST
from tests.arena.test_match import Witness
from unojax.arena import adjusted, play_match
# A baseline that compiles in a third of the time.
adjusted.STAND_IN = "keep-wilds"
found = [len(jax.local_devices())]
for agents, options in (((Witness(), SCARCEST), {"batch_size": 32}), ((LOWEST, "keep-wilds"), {"adjust": 4})):
    pairs = play_match(jax.random.key(3), agents, 24, **options)
    found.append(digest(values for name, values in vars(pairs).items() if name != "seconds"))
print(json.dumps(found))
"""


@pytest.mark.slow
def test_the_same_games_on_one_device_and_on_eight():
    """With memories, variance reduction, and the default batch size."""
    found = [run_on_devices(ON_DEVICES, number) for number in (1, 8)]
    assert [number for number, *_ in found] == [1, 8]
    assert len({tuple(digests) for _, *digests in found}) == 1
