"""Rollouts against exact values, and what they promise: common random numbers, no dependence on lanes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal
from unojax import Rules, bits, cards, game, make_state
from unojax.device import static
from unojax.game import State
from unojax.observation import observe
from unojax.policies import LINEAR, POLICIES, uniform
from unojax.device.random_bits import key_words
from unojax.games.record import play_game
from unojax.search.rollouts import Arms, list_arms, place_cards, play_out

RULES = Rules()


@partial(jax.jit, static_argnames=("policies", "num_samples", "num_lanes", "discount"))
def returns_of(
    states: State,
    arms: Arms,
    seed: int,
    *,
    policies,
    num_samples: int,
    num_lanes: int = 256,
    discount: float = 1.0,
    rules: Rules = RULES,
    first=0,
) -> jax.Array:
    """Rollouts from the true positions, float32[A, R]."""
    number = len(states.color)
    tables = jax.tree.map(lambda x: jnp.repeat(x, num_samples, axis=0), jax.vmap(game.to_table)(states))
    seeds = jax.vmap(key_words)(jax.random.split(jax.random.key(seed), number))
    numbers, skeleton = static.split(policies)
    return play_out(
        tables,
        seeds,
        arms,
        numbers,
        policies=skeleton,
        rules=rules,
        num_samples=num_samples,
        num_lanes=num_lanes,
        discount=discount,
        first_sample=first,
    )[0]


def stacked(*states: State) -> State:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def arms_of(states: State) -> Arms:
    return list_arms(jax.vmap(game.legal_mask)(states)[:, : cards.DRAW])


@pytest.fixture(scope="module")
def positions() -> State:
    """Decisions with a choice from random games, [48]."""
    states = jax.jit(jax.vmap(partial(play_game, num_steps=40)))(jax.random.split(jax.random.key(0), 24)).states
    states = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:]), states)
    masks = np.asarray(jax.vmap(game.legal_mask)(states))[:, : cards.DRAW]
    chosen = np.flatnonzero((masks.sum(1) > 1) & ~states.terminated)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[chosen[:: len(chosen) // 48][:48]]), states)


def test_arms_are_the_legal_plays(positions: State):
    masks = np.asarray(jax.vmap(game.legal_mask)(positions))[:, : cards.DRAW]
    arms = arms_of(positions)
    number = int(arms.number)
    assert number == masks.sum()
    listed = np.zeros_like(masks)
    listed[np.asarray(arms.position)[:number], np.asarray(arms.action)[:number]] = True
    np.testing.assert_array_equal(listed, masks)


def test_placed_cards_are_those_of_the_position(positions: State):
    def placed(state: State, player: int) -> State:
        hands = bits.map_words(lambda w: w[None], bits.pack(state.hands[1 - player]))
        tables = place_cards(observe(state, player), hands)
        table = jax.tree.map(lambda x: x[0], tables)
        return game.from_table(
            table,
            rewards=state.rewards,
            truncated=state.truncated,
            step_count=state.step_count,
            error=state.error,
            last_action=state.last_action,
            rules=RULES,
        )

    for player in (0, 1):
        assert_trees_equal(jax.jit(jax.vmap(partial(placed, player=player)))(positions), positions)


def test_a_win_a_loss_and_the_discount():
    # Red 1 wins at once. After red 2 or blue 7 the opponent wins with red 5 or the wild card, whatever is drawn before.
    won, lost = make_state("R1", "R5", "R7"), make_state("R2 B7", "W", "R7")
    states = stacked(won, lost)
    returns = np.asarray(returns_of(states, arms_of(states), 0, policies=(uniform,), num_samples=4, discount=0.5))
    np.testing.assert_array_equal(returns[:4], np.array([[1.0], [-0.5], [-0.5], [0.0]]) * np.ones(4))


def test_returns_count_as_the_player_who_takes_the_first_action(positions: State):
    mirrored = positions.replace(hands=positions.hands[:, ::-1], current_player=1 - positions.current_player)
    arms = arms_of(positions)
    one, other = (np.asarray(returns_of(p, arms, 3, policies=(uniform,), num_samples=256)) for p in (positions, mirrored))
    number = int(arms.number)
    # The same games with other cards drawn: means over all arms within six standard errors, false alarms below 1e-8.
    assert abs(one[:number].mean() - other[:number].mean()) < 6 * 2**0.5 / np.sqrt(256 * 48)


def test_lanes_and_split_samples_change_nothing(positions: State):
    arms = arms_of(positions)
    run = partial(returns_of, positions, arms, 1, policies=(LINEAR, uniform))
    whole = np.asarray(run(num_samples=8))
    np.testing.assert_array_equal(whole, run(num_samples=8, num_lanes=1000))
    np.testing.assert_array_equal(whole[:, 4:], run(num_samples=4, first=4))
    assert (whole[int(arms.number) :] == 0).all()


def test_the_same_arm_twice_has_the_same_rollouts_and_other_arms_are_correlated(positions: State):
    masks = jax.vmap(game.legal_mask)(positions)[:, : cards.DRAW]
    first, last = masks.argmax(1), cards.DRAW - 1 - masks[:, ::-1].argmax(1)
    number = len(first)
    index = jnp.arange(number)
    arms = Arms(jnp.tile(index, 3), jnp.concatenate([first, last, first]).astype(jnp.int32), jnp.int32(3 * number))
    returns = np.asarray(returns_of(positions, arms, 2, policies=(LINEAR,), num_samples=512)).reshape(3, number, 512)
    np.testing.assert_array_equal(returns[0], returns[2])
    # What common random numbers are for: the difference of two plays varies less than that of independent rollouts.
    paired = (returns[0] - returns[1]).var(1).mean()
    assert paired < 0.9 * (returns[0].var(1) + returns[1].var(1)).mean()


def test_each_player_follows_its_own_policy(positions: State):
    """Against the same games played with `step`, each player by its policy."""
    strong = POLICIES["scarcest-color"]
    legal = jax.vmap(game.legal_mask)(positions)
    action = legal.argmax(1).astype(jnp.int32)
    number, num_samples = len(action), 256
    arms = Arms(jnp.arange(number), action, jnp.int32(number))
    returns = np.asarray(returns_of(positions, arms, 7, policies=(strong, uniform), num_samples=num_samples))

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
