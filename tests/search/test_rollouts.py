"""Rollouts against exact values, and what they promise: common random numbers, no dependence on lanes."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from tests.value.positions import legal_all, random_states
from unojax import Rules, bits, cards, game, make_state
from unojax.device.random_bits import key_words
from unojax.game import State
from unojax.observation import determinize_packed, observe
from unojax.policies import LINEAR, POLICIES, greedy, uniform
from unojax.search import monte_carlo
from unojax.search.rollouts import Arms, Rollouts, Starts, Style, list_arms, play_out
from unojax.text import parse_action

RULES = Rules()
UNIFORM = Rollouts((uniform,), RULES, num_samples=8, num_lanes=256)


@partial(jax.jit, static_argnames="how")
def returns_of(
    states: State, arms: Arms, seed: int, how: Rollouts, first: int = 0, num_steps: int = 0, types: jax.Array | None = None
) -> jax.Array:
    """Rollouts from the true positions, float32[A, R]."""
    number = len(states.color)
    tables = jax.tree.map(lambda x: jnp.repeat(x, how.num_samples, axis=0), jax.vmap(game.to_table)(states))
    seeds = jax.vmap(key_words)(jax.random.split(jax.random.key(seed), number))
    passed = jnp.full(number, num_steps, jnp.int32)
    return play_out(Starts(tables, seeds, types, first_sample=first, num_steps=passed), arms, how)[0]


def arms_of(states: State) -> Arms:
    return list_arms(legal_all(states)[:, : cards.DRAW])


@pytest.fixture(scope="module")
def positions() -> State:
    """Decisions with a choice from random games, [48]."""
    return random_states(0, 48, deciding=True)


def test_arms_are_the_legal_plays(positions: State):
    masks = np.asarray(legal_all(positions))[:, : cards.DRAW]
    arms = arms_of(positions)
    number = int(arms.number)
    assert number == masks.sum()
    listed = np.zeros_like(masks)
    listed[np.asarray(arms.position)[:number], np.asarray(arms.action)[:number]] = True
    np.testing.assert_array_equal(listed, masks)
    # As many places as the position with the most plays needs are enough.
    most = int(masks.sum(1).max())
    fewer = list_arms(jnp.asarray(masks), most=most)
    assert fewer.number == number and len(fewer.position) == most * len(masks) < len(arms.position)
    for few, all_of_them in ((fewer.position, arms.position), (fewer.action, arms.action)):
        np.testing.assert_array_equal(few[:number], all_of_them[:number])


def test_the_arm_that_gains_are_measured_against_goes_on():
    """Of four arms the first two are close, the third is far behind, and so is the fourth, by which gains are measured."""
    arms = Arms(jnp.zeros(4, jnp.int32), jnp.arange(4), jnp.int32(4))
    returns = jnp.array([0.0, 0.1, -1.0, -1.0])[:, None] + 0.2 * jax.random.normal(jax.random.key(0), (4, 64))
    played, none = jnp.full(4, 64, jnp.int32), jnp.zeros(4, jnp.int32)
    assert monte_carlo._alive(arms, returns, played, jnp.array([3]), 4.0).tolist() == [True, True, False, True]
    assert monte_carlo._alive(arms, jnp.zeros_like(returns), none, jnp.array([3]), 4.0).all()
    # One alone that can win is chosen.
    assert not monte_carlo._alive(arms, returns.at[0].add(-1.0), played, jnp.array([3]), 4.0).any()


def test_placed_cards_are_those_of_the_position(positions: State):
    @jax.jit
    @jax.vmap
    def placed(state: State, player: jax.Array) -> State:
        hands = bits.map_words(lambda w: w[None], bits.pack(state.hands[1 - player]))
        table = jax.tree.map(lambda x: x[0], determinize_packed(observe(state, player), hands))
        of_episode = {name: getattr(state, name) for name in ("rewards", "truncated", "step_count", "error", "last_action")}
        return game.from_table(table, state.rules, **of_episode)

    for player in (0, 1):
        assert_trees_equal(placed(positions, jnp.full(48, player)), jax.tree.map(jnp.asarray, positions))


def test_a_win_a_loss_and_the_discount(positions: State):
    # Red 1 wins at once. After red 2 or blue 7 the opponent wins with red 5 or the wild card, whatever is drawn before.
    won, lost = make_state("R1", "R5", "R7"), make_state("R2 B7", "W", "R7")
    states = jax.tree.map(lambda many, *two: np.concatenate([np.stack(two), many[2:]]), positions, won, lost)
    arms = arms_of(states)
    returns = np.asarray(returns_of(states, arms, 0, replace(UNIFORM, discount=0.5)))
    np.testing.assert_array_equal(returns[:3], np.array([[1.0], [-0.5], [-0.5]]) * np.ones(8))
    assert (returns[int(arms.number) :] == 0).all()


@pytest.fixture(scope="module")
def outcomes(positions: State) -> tuple[np.ndarray, np.ndarray]:
    """Results and numbers of steps of rollouts from the first arms, read off returns discounted by one half."""
    returns = np.asarray(returns_of(positions, arms_of(positions), 0, replace(UNIFORM, discount=0.5)), np.float64)[:100]
    # Games of more than a hundred steps leave float32, and drawn ones tell nothing: they are left out by NaN.
    with np.errstate(divide="ignore"):
        number = 1 - np.log2(np.abs(returns))
    number[~np.isfinite(number) | (number > 100)] = np.nan
    assert np.isfinite(number).sum() > 200
    np.testing.assert_array_equal(number, np.round(number))
    return np.sign(returns), number


def test_each_step_but_the_last_has_its_penalty(positions: State, outcomes):
    result, number = outcomes
    penalty, discount = 0.05, 0.9
    how = replace(UNIFORM, rules=replace(RULES, step_penalty=penalty), discount=discount)
    returns = np.asarray(returns_of(positions, arms_of(positions), 0, how))[:100]
    for found, sign, n in zip(returns.ravel(), result.ravel(), number.ravel(), strict=True):
        if np.isfinite(n):
            # Step k of n is discounted k - 1 times.
            by_hand = sum(-penalty * discount**k for k in range(int(n) - 1)) + sign * discount ** (n - 1)
            assert found == pytest.approx(by_hand, abs=1e-5)


@pytest.mark.parametrize("passed", [0, 7])
def test_games_are_truncated_at_max_steps(positions: State, outcomes, passed: int):
    result, number = outcomes
    how = replace(UNIFORM, rules=replace(RULES, max_steps=20, step_penalty=0.25))
    returns = np.asarray(returns_of(positions, arms_of(positions), 0, how, num_steps=passed))[:100]
    left = 20 - passed
    # A truncated game has as many steps as are left, all with their penalty, and no winner.
    by_hand = np.where(number <= left, result - 0.25 * (number - 1), -0.25 * left)
    counts = np.isfinite(number)
    np.testing.assert_allclose(returns[counts], by_hand[counts], atol=1e-5)
    assert (number[counts] <= left).any() and (number[counts] > left).any() and (number[counts] == left).any()


def test_returns_count_as_the_player_who_takes_the_first_action(positions: State):
    mirrored = positions.replace(hands=positions.hands[:, ::-1], current_player=1 - positions.current_player)
    arms, how = arms_of(positions), replace(UNIFORM, num_samples=256)
    one, other = (np.asarray(returns_of(p, arms, 3, how)) for p in (positions, mirrored))
    number = int(arms.number)
    # The same games with other cards drawn: means over all arms within six standard errors, false alarms below 1e-8.
    assert abs(one[:number].mean() - other[:number].mean()) < 6 * 2**0.5 / np.sqrt(256 * 48)


@pytest.mark.slow
def test_lanes_and_split_samples_change_nothing(positions: State):
    arms = arms_of(positions)
    how = replace(UNIFORM, discount=0.5)
    whole = np.asarray(returns_of(positions, arms, 1, how))
    part = returns_of(positions, arms, 1, replace(how, num_lanes=1000, num_samples=4), first=4)
    np.testing.assert_array_equal(whole[:, 4:], part)


@pytest.mark.slow
def test_the_same_arm_twice_has_the_same_rollouts_and_other_arms_are_correlated(positions: State):
    masks = np.asarray(legal_all(positions))[:, : cards.DRAW]
    first, last = masks.argmax(1), cards.DRAW - 1 - masks[:, ::-1].argmax(1)
    number = len(first)
    index = jnp.tile(jnp.arange(number), 3)
    arms = Arms(index, jnp.concatenate([first, last, first]).astype(jnp.int32), jnp.int32(3 * number))
    how = Rollouts((LINEAR,), RULES, num_samples=512, num_lanes=256)
    returns = np.asarray(returns_of(positions, arms, 2, how)).reshape(3, number, 512)
    np.testing.assert_array_equal(returns[0], returns[2])
    # What common random numbers are for: the difference of two plays varies less than that of independent rollouts.
    paired = (returns[0] - returns[1]).var(1).mean()
    assert paired < 0.9 * (returns[0].var(1) + returns[1].var(1)).mean()


def test_in_each_sample_the_other_player_is_of_its_type(positions: State):
    """Sample by sample the games are those against the type's policy alone: the same random words decide them."""
    how = Rollouts((LINEAR, uniform), RULES, num_samples=32, num_lanes=256)
    kinds = jax.random.randint(jax.random.key(0), (len(positions.color), how.num_samples), 0, 3, jnp.uint32)
    styles = (Style(1, 0.0), Style(0, 0.0), Style(0, 1.0))
    arms = arms_of(positions)
    typed = np.asarray(returns_of(positions, arms, 3, replace(how, types=styles), types=kinds.reshape(-1)))
    against_uniform = np.asarray(returns_of(positions, arms, 3, how))
    against_linear = np.asarray(returns_of(positions, arms, 3, replace(how, policies=(LINEAR,))))
    counts = (np.arange(len(arms.position)) < arms.number)[:, None]
    # One that always trembles makes any legal play.
    is_linear = counts & (np.asarray(kinds)[arms.position] == 1)
    np.testing.assert_array_equal(typed, np.where(is_linear, against_linear, against_uniform))
    assert (against_uniform != against_linear)[counts[:, 0]].mean() > 0.1


def test_a_type_that_trembles_plays_what_it_can():
    """Sample by sample its games are those of greedy play, under rules where drawing is a choice."""
    rules = Rules.official(points=False)
    states = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], make_state("R1 R2 B9", "R3 B1 B2", "R7", rules=rules))
    arms = Arms(jnp.zeros(3, jnp.int32), jnp.array([parse_action("R1"), parse_action("R2"), cards.DRAW]), jnp.int32(3))
    how = Rollouts((LINEAR, greedy), rules, num_samples=64, num_lanes=64)
    typed = replace(how, types=(Style(0, 1.0),))
    kinds = jnp.zeros(64, jnp.uint32)
    trembling = np.asarray(returns_of(states, arms, 3, typed, types=kinds))
    np.testing.assert_array_equal(trembling, returns_of(states, arms, 3, how))
    assert (trembling != np.asarray(returns_of(states, arms, 3, replace(how, policies=(LINEAR, uniform))))).any()


@pytest.mark.slow
@pytest.mark.long
def test_each_player_follows_its_own_policy(positions: State):
    """Against the same games played with `step`, each player by its policy."""
    strong = POLICIES["scarcest-color"]
    action = np.asarray(legal_all(positions)).argmax(1).astype(np.int32)
    number, num_samples = len(action), 256
    arms = Arms(jnp.arange(number), jnp.asarray(action), jnp.int32(number))
    how = Rollouts((strong, uniform), RULES, num_samples, num_lanes=256)
    returns = np.asarray(returns_of(positions, arms, 7, how))

    def play_on(state: State, action: jax.Array, key: jax.Array) -> jax.Array:
        player = state.current_player
        key, key_first = jax.random.split(key)

        def one_step(carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
            state, key = carry
            key, key_policy, key_draw = jax.random.split(key, 3)
            seen, mask = observe(state, state.current_player), game.legal_mask(state)
            chosen = jnp.where(state.current_player == player, strong(key_policy, seen, mask), uniform(key_policy, seen, mask))
            return game.step(state, chosen, key_draw), key

        end, _ = jax.lax.while_loop(lambda c: ~c[0].is_over, one_step, (game.step(state, action, key_first), key))
        return jnp.where(end.winner < 0, 0.0, jnp.where(end.winner == player, 1.0, -1.0))

    keys = jax.random.split(jax.random.key(8), (num_samples // 4, number))
    others = np.asarray(jax.jit(jax.vmap(jax.vmap(play_on), in_axes=(None, None, 0)))(positions, action, keys))
    error = np.sqrt((1 / num_samples + 4 / num_samples) / number)
    # Six standard errors of a variance of at most one: false alarms below 1e-8.
    assert abs(returns.mean() - others.mean()) < 6 * error
