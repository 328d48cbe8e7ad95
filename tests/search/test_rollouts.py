"""Rollouts: returns by hand, common random numbers, types of the other player, independence of lanes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from tests.value.positions import RULES, legal_all, random_states
from unojax import Rules, bits, cards, game, make_state
from unojax.device.random_bits import key_words
from unojax.game import State
from unojax.observation import determinize_packed, observe
from unojax.policies import POLICIES, greedy, uniform
from unojax.search import monte_carlo, rollouts
from unojax.search.rollouts import Arms, Rollouts, Starts, Style, list_arms, play_out
from unojax.text import parse_action

NUM, SAMPLES = 48, 256
SCARCEST = POLICIES["scarcest-color"]
HALVED = Rollouts((uniform,), RULES, num_samples=SAMPLES, discount=0.5)
"""Uniform play, whose returns reveal the number of steps by their discount."""


@partial(jax.jit, static_argnames="how")
def returns_of(
    states: State, arms: Arms, seed: int, how: Rollouts, first: int = 0, num_steps: int = 0, types: jax.Array | None = None
) -> jax.Array:
    """Return the returns of rollouts from the true positions, float32[A, R]."""
    number = len(states.color)
    tables = jax.tree.map(lambda x: jnp.repeat(x, how.num_samples, axis=0), jax.vmap(game.to_table)(states))
    seeds = jax.vmap(key_words)(jax.random.split(jax.random.key(seed), number))
    passed = jnp.full(number, num_steps, jnp.int32)
    return play_out(Starts(tables, seeds, types, first_sample=first, num_steps=passed), arms, how)[0]


jitted_arms = jax.jit(list_arms, static_argnames="most")


def arms_of(states: State) -> Arms:
    return jax.device_get(jitted_arms(legal_all(states)[:, : cards.DRAW]))


def arms_at(positions: np.ndarray, actions: np.ndarray) -> Arms:
    return Arms(positions.astype(np.int32), actions.astype(np.int32), np.int32(len(positions)))


@pytest.fixture(scope="module")
def positions() -> State:
    """Return decisions with a choice from random games; the first two are decided."""
    won, lost = make_state("R1", "R5", "R7"), make_state("R2 B7", "W", "R7")
    others = random_states(0, NUM - 2, deciding=True)
    return jax.tree.map(lambda one, two, many: np.concatenate([np.stack([one, two]), many]), won, lost, others)


def test_arms_are_the_legal_plays(positions: State):
    masks = np.asarray(legal_all(positions))[:, : cards.DRAW]
    arms = arms_of(positions)
    assert arms.number == masks.sum()
    listed = np.stack([arms.position, arms.action], axis=1)[: arms.number]
    np.testing.assert_array_equal(listed, np.argwhere(masks))
    # As many places as the position with the most plays needs are enough.
    most = int(masks.sum(1).max())
    fewer = jax.device_get(jitted_arms(masks, most=most))
    assert fewer.number == arms.number and len(fewer.position) == most * NUM < len(arms.position)
    np.testing.assert_array_equal(np.stack([fewer.position, fewer.action], axis=1)[: arms.number], listed)


def test_arms_far_behind_are_pruned_except_the_base():
    """Of four arms two are close, the third is far behind, and so is the fourth, the base."""
    arms = Arms(np.zeros(4, np.int32), np.arange(4), np.int32(4))
    noise = 0.2 * np.random.default_rng(0).standard_normal((4, 64))
    returns = (np.array([0.0, 0.1, -1.0, -1.0])[:, None] + noise).astype(np.float32)
    played, base = np.full(4, 64, np.int32), np.array([3])
    alive = jax.jit(monte_carlo._alive)
    assert alive(arms, returns, played, base, 4.0).tolist() == [True, True, False, True]
    assert alive(arms, np.zeros_like(returns), 0 * played, base, 4.0).all()
    # The only arm that can win is chosen.
    returns[0] -= 1
    assert not alive(arms, returns, played, base, 4.0).any()


def test_determinizing_the_true_hand_gives_the_position(positions: State):
    @jax.jit
    @jax.vmap
    def determinized(state: State, player: jax.Array) -> State:
        hands = bits.map_words(lambda w: w[None], bits.pack(state.hands[1 - player]))
        table = jax.tree.map(lambda x: x[0], determinize_packed(observe(state, player), hands))
        of_episode = {name: getattr(state, name) for name in ("rewards", "truncated", "step_count", "error", "last_action")}
        return game.from_table(table, state.rules, **of_episode)

    for player in (0, 1):
        found = jax.device_get(determinized(positions, np.full(NUM, player)))
        assert_trees_equal(found, jax.tree.map(np.asarray, positions))


@pytest.fixture(scope="module")
def outcomes(positions: State) -> tuple[np.ndarray, np.ndarray]:
    """Return results, and numbers of steps or NaN, of rollouts of the first 100 arms."""
    returns = np.asarray(returns_of(positions, arms_of(positions), 0, HALVED), np.float64)[:100]
    # Returns of games of more than a hundred steps leave float32, and drawn games reveal no number.
    with np.errstate(divide="ignore"):
        number = 1 - np.log2(np.abs(returns))
    number[~np.isfinite(number) | (number > 100)] = np.nan
    assert np.isfinite(number).sum() > 10_000
    np.testing.assert_array_equal(number, np.round(number))
    return np.sign(returns), number


def test_returns_by_hand(positions: State, outcomes):
    """Contract: reward +1 / -1 / 0, -lambda per step before the end, gamma, truncation at `max_steps`."""
    result, number = outcomes
    # Red 1 wins at once. After red 2 or blue 7 the opponent wins with the wild card, after a draw or not.
    np.testing.assert_array_equal(result[:3], np.repeat([[1.0], [-1.0], [-1.0]], SAMPLES, axis=1))
    np.testing.assert_array_equal(number[:3], np.repeat([[1.0], [2.0], [2.0]], SAMPLES, axis=1))
    counts, penalty, discount = np.isfinite(number), 0.25, 0.9
    how = replace(HALVED, rules=replace(RULES, max_steps=20, step_penalty=penalty), discount=discount)
    for passed in (0, 7):
        arms = arms_of(positions)
        returns = np.asarray(returns_of(positions, arms, 0, how, num_steps=passed))
        assert (returns[arms.number :] == 0).all()
        # Step k of n is discounted k - 1 times. Each step except the last of an untruncated game has its penalty.
        left = 20 - passed
        is_over = number <= left
        penalized = np.where(is_over, number - 1, left)
        by_hand = -penalty * (1 - discount**penalized) / (1 - discount) + np.where(is_over, result * discount ** (number - 1), 0)
        np.testing.assert_allclose(returns[:100][counts], by_hand[counts], atol=1e-5)
        assert is_over[counts].any() and (~is_over[counts]).any() and (number[counts] == left).any()


def test_returns_are_those_of_the_player_of_the_first_action(positions: State):
    mirrored = positions.replace(hands=positions.hands[:, ::-1], current_player=1 - positions.current_player)
    arms = arms_of(positions)
    one, other = (np.sign(returns_of(p, arms, 3, HALVED))[: arms.number] for p in (positions, mirrored))
    # The same games with other cards drawn: means over all arms within six standard errors, false alarms below 1e-8.
    assert abs(one.mean() - other.mean()) < 6 * 2**0.5 / np.sqrt(SAMPLES * NUM)


def test_in_each_sample_the_other_player_is_of_its_type(positions: State):
    """Each sample equals the game against the type's policy, with the same random words."""
    how = Rollouts((SCARCEST, uniform), RULES, num_samples=32)
    kinds = np.random.default_rng(0).integers(0, 3, (NUM, how.num_samples), np.uint32)
    styles = (Style(1, 0.0), Style(0, 0.0), Style(0, 1.0))
    arms = arms_of(positions)
    typed = np.asarray(returns_of(positions, arms, 3, replace(how, types=styles), types=kinds.reshape(-1)))
    against_uniform = np.asarray(returns_of(positions, arms, 3, how))
    against_scarcest = np.asarray(returns_of(positions, arms, 3, replace(how, policies=(SCARCEST,))))
    counts = (np.arange(len(arms.position)) < arms.number)[:, None]
    # A player that always trembles makes any legal play.
    is_scarcest = counts & (kinds[arms.position] == 1)
    np.testing.assert_array_equal(typed, np.where(is_scarcest, against_scarcest, against_uniform))
    assert (against_uniform != against_scarcest)[counts[:, 0]].mean() > 0.1


def test_a_trembling_type_plays_if_it_can():
    """Each sample equals the game against greedy play, under rules with optional draws."""
    rules = Rules.official(points=False)
    state = make_state("R1 R2 B9", "R3 B1 B2", "R7", rules=rules)
    states = jax.tree.map(lambda leaf: np.asarray(leaf)[None], state)
    arms = arms_at(np.zeros(3), np.array([parse_action("R1"), parse_action("R2"), cards.DRAW]))
    how = Rollouts((SCARCEST, greedy), rules, num_samples=64)
    kinds = np.zeros(64, np.uint32)
    trembling = returns_of(states, arms, 3, replace(how, types=(Style(0, 1.0),)), types=kinds)
    np.testing.assert_array_equal(trembling, returns_of(states, arms, 3, how))


@pytest.mark.slow
def test_lanes_and_parts_of_the_samples_change_nothing_and_other_arms_are_correlated(
    positions: State, monkeypatch: pytest.MonkeyPatch
):
    arms = arms_of(positions)
    part = replace(HALVED, num_samples=64)
    whole = np.asarray(returns_of(positions, arms, 1, HALVED))
    monkeypatch.setattr(rollouts, "default_num_lanes", lambda num_positions: 1000)
    np.testing.assert_array_equal(whole[:, 64:128], returns_of(positions, arms, 1, part, first=64))
    # The same arm twice has the same rollouts.
    masks = np.asarray(legal_all(positions))[:, : cards.DRAW]
    first, last = masks.argmax(1), cards.DRAW - 1 - masks[:, ::-1].argmax(1)
    arms = arms_at(np.tile(np.arange(NUM), 3), np.concatenate([first, last, first]))
    how = Rollouts((SCARCEST,), RULES, num_samples=512)
    returns = np.asarray(returns_of(positions, arms, 2, how)).reshape(3, NUM, 512)
    np.testing.assert_array_equal(returns[0], returns[2])
    # By common random numbers the difference of two plays varies less than that of independent rollouts.
    paired = (returns[0] - returns[1]).var(1).mean()
    assert paired < 0.9 * (returns[0].var(1) + returns[1].var(1)).mean()


@pytest.mark.slow
@pytest.mark.long
def test_each_player_follows_its_own_policy(positions: State):
    """Compare with games played with `step`."""
    action = np.asarray(legal_all(positions)).argmax(1).astype(np.int32)
    arms = arms_at(np.arange(NUM), action)
    returns = np.asarray(returns_of(positions, arms, 7, Rollouts((SCARCEST, uniform), RULES, SAMPLES)))

    def play_on(state: State, action: jax.Array, key: jax.Array) -> jax.Array:
        player = state.current_player
        key, key_first = jax.random.split(key)

        def one_step(carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
            state, key = carry
            key, key_policy, key_draw = jax.random.split(key, 3)
            seen, mask = observe(state, state.current_player), game.legal_mask(state)
            chosen = (policy(key_policy, seen, mask) for policy in (SCARCEST, uniform))
            return game.step(state, jnp.where(state.current_player == player, *chosen), key_draw), key

        end, _ = jax.lax.while_loop(lambda c: ~c[0].is_over, one_step, (game.step(state, action, key_first), key))
        return jnp.where(end.winner < 0, 0.0, jnp.where(end.winner == player, 1.0, -1.0))

    keys = jax.random.split(jax.random.key(8), (SAMPLES // 4, NUM))
    others = np.asarray(jax.jit(jax.vmap(jax.vmap(play_on), in_axes=(None, None, 0)))(positions, action, keys))
    # Six standard errors of a variance of at most one: false alarms below 1e-8.
    assert abs(returns.mean() - others.mean()) < 6 * np.sqrt((1 / SAMPLES + 4 / SAMPLES) / NUM)
