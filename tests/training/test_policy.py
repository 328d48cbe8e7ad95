"""Policy learning: its games against the engine, advantages and gradients by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, assert_distributed, by_kind
from training.policy.games import RULES, Horizon, Rows, _draw, begin_games, masked_log_probs, play_choices
from training.policy.learning import Choices, PolicyLoss, advantages, loss_and_gradient
from unojax import bits, cards, game, simulate, table
from unojax.belief import color_bounds
from unojax.observation import observe
from unojax.value import Network, NetworkConfig
from unojax.value.features import features, outlook_of_ages, outlook_of_hand
from unojax.value.network import init_network
from unojax.view import view_of

LANES = 256
SEED = np.uint32(3), np.uint32(4)
ACTOR_SHAPE, CRITIC_SHAPE = NetworkConfig(width=8, policy_head=True), NetworkConfig(width=8)


def network(shape: NetworkConfig, scale: float) -> Network:
    """Return a network with noise, so that it has preferences."""
    fresh = jax.device_get(jax.jit(init_network, static_argnums=1)(jax.random.key(1), shape))
    rng = np.random.default_rng(2)
    return jax.tree.map(lambda leaf: leaf + np.float32(scale) * rng.standard_normal(leaf.shape, np.float32), fresh)


ACTOR, CRITIC = network(ACTOR_SHAPE, 0.1), network(CRITIC_SHAPE, 0.1)
play = jax.jit(play_choices, static_argnames="num_rows")


def rows_of(seed, actor: Network, critic: Network, number: int) -> Iterator[tuple[Any, Rows]]:
    """Play rows of new games one by one, and yield each with the slots before it."""
    slots = begin_games(LANES)
    for _ in range(number):
        before = slots
        slots, rows, _ = play(seed, slots, actor, critic, num_rows=1)
        yield before, jax.tree.map(lambda x: np.asarray(x)[0], rows)


@pytest.fixture(scope="module")
def played() -> tuple[list, list[Rows]]:
    """Return games row by row: the env slots before each row, at its choice, and the row."""
    # Games are dealt in the first rows.
    before, rows = zip(*rows_of(SEED, ACTOR, CRITIC, 43), strict=True)
    return list(before[3:]), list(rows[3:])


def test_rows_show_what_the_engine_shows(played):
    """Features, legal plays, probabilities and values agree, and bounds hold for the true hands."""

    @jax.jit
    def shown(tables, of_players):
        seen, known, legal = look(tables, of_players)
        return seen, known, legal, masked_log_probs(ACTOR(seen).policy_logits, legal[:, : cards.DRAW]), CRITIC(known).value

    @jax.vmap
    def look(tables, of_players):
        state = game.from_table(tables, RULES)
        view = view_of(observe(state, state.current_player))
        theirs = view_of(observe(state, 1 - state.current_player)).hand
        opponents = jnp.where(state.current_player == 0, of_players[1], of_players[0])
        return features(view, outlook_of_ages(view, opponents)), features(view, outlook_of_hand(theirs)), game.legal_mask(state)

    choices, informative, number = 0, 0, 0
    for lanes, row in zip(*played, strict=True):
        meta = lanes.table.unpack_meta()
        seen, known, legal, log_probs, values = jax.device_get(shown(lanes.table, lanes.bounds))
        same = np.asarray((meta.phase == table.PLAY) & (meta.to_draw == 0)) & (legal.sum(-1) > 1)
        np.testing.assert_array_equal(row.legal[same], legal[same, : cards.DRAW])
        assert (row.is_choice == same).all()
        choices += same.sum()
        for given, expected in ((row.seen, seen), (row.known, known)):
            for a, b in zip(given, expected, strict=True):
                np.testing.assert_allclose(a[same], np.asarray(b)[same], atol=1e-6)
        np.testing.assert_allclose(row.log_prob[same], log_probs[np.arange(LANES), row.action][same], atol=1e-5)
        np.testing.assert_allclose(row.value[same], values[same], atol=1e-5)
        assert row.legal[np.arange(LANES), row.action][row.is_choice].all()
        # No player holds more cards of a kind than its bound.
        shown_bounds = jax.tree.map(lambda leaf: np.asarray(leaf).astype(int), unpack(lanes.bounds))
        for counts, bounds in zip(jax.device_get(hands_of(lanes.table)), shown_bounds, strict=True):
            assert (by_kind(counts) <= bounds)[bounds < color_bounds.UNKNOWN].all()
            informative, number = informative + (bounds < counts.sum(-1, keepdims=True)).sum(), number + bounds.size
    assert choices > 0.7 * LANES * len(played[1]) and informative > 0.2 * number


@jax.jit
def hands_of(tables: table.Table) -> list[jax.Array]:
    return [bits.type_counts(tables.cards_of(player, RULES)) for player in (table.HAND_0, table.HAND_1)]


unpack = jax.jit(lambda bounds: [color_bounds.unpack(each) for each in bounds])


@pytest.mark.slow
def test_games_are_those_of_random_play():
    """An untrained policy is uniform over legal plays; choices, winners and lengths are those of `simulate`.

    The error probability of each of the five tests is 1e-6.
    """
    actor, critic = (init_network(jax.random.key(0), shape) for shape in (ACTOR_SHAPE, CRITIC_SHAPE))
    # Each seed has games of its own.
    rows = [[row for _, row in rows_of((SEED[0], np.uint32(n)), actor, critic, 160)] for n in range(2)]
    is_choice, ended, outcome = (
        np.concatenate([np.stack([getattr(row, name) for row in some]) for some in rows], axis=1)
        for name in ("is_choice", "has_ended", "outcome")
    )
    for number in (2, 3, 4):
        counts = np.zeros(number, int)
        for row in itertools.chain(*rows):
            among = row.is_choice & (row.legal.sum(-1) == number)
            # The place of the play among the legal ones.
            place = (row.legal & (np.arange(cards.DRAW) < row.action[:, None])).sum(-1)
            counts += np.bincount(place[among], minlength=number)
        assert_distributed(counts, np.full(number, 1 / number))
    num_lanes = is_choice.shape[1]
    choices, outcomes = [], []
    for lane in range(num_lanes):
        # First games only: nearly all of them end within the rows, so their lengths are not biased to short ones.
        ends = np.flatnonzero(ended[:, lane])
        if len(ends):
            choices.append(is_choice[: ends[0] + 1, lane].sum())
            outcomes.append(outcome[ends[0], lane])
    assert len(choices) > 0.99 * num_lanes
    judge = simulate(jax.random.key(5), 4096)
    wins, expected = np.sum(np.array(outcomes) == 1), (judge.winner == 0).mean()
    assert scipy.stats.binomtest(int(wins), len(outcomes), expected).pvalue > ERROR_PROBABILITY
    # The last percent of the longest games are missing in both.
    longest = np.quantile(judge.num_choices, 0.98)
    ours, theirs = (np.array(x)[np.array(x) <= longest] for x in (choices, judge.num_choices))
    assert scipy.stats.ks_2samp(ours, theirs).pvalue > ERROR_PROBABILITY


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_advantages_by_their_definition(discount: float):
    """The lambda return of all choices up to the end of the game minus the value of the choice.

    A value n transitions later has the factor gamma^n, an outcome gamma^(n - 1).
    """
    rng, trace = np.random.default_rng(0), 0.8
    shape = (40, 16)
    unused: Any = None
    rows = Rows(
        seen=unused,
        known=unused,
        legal=unused,
        action=unused,
        log_prob=unused,
        value=rng.uniform(-1, 1, shape).astype(np.float32),
        mover=rng.integers(0, 2, shape).astype(np.uint32),
        is_choice=rng.random(shape) < 0.8,
        has_ended=rng.random(shape) < 0.1,
        outcome=rng.choice([-1.0, 0.0, 1.0], shape).astype(np.float32),
        num_steps=rng.integers(1, 6, shape).astype(np.uint32),
    )
    horizon = Horizon(
        value=rng.uniform(-1, 1, 16).astype(np.float32),
        is_choice=rng.random(16) < 0.5,
    )
    found, counts = (np.asarray(x) for x in jax.jit(advantages, static_argnums=(2, 3))(rows, horizon, trace, discount))
    sign = np.where(rows.mover == 0, 1, -1)
    for t, lane in np.ndindex(shape):
        if not rows.is_choice[t, lane]:
            assert not counts[t, lane]
            continue
        values, end, passed = [], None, 0
        for later in range(t + 1, shape[0] + 1):
            passed += int(rows.num_steps[later - 1, lane])
            if rows.has_ended[later - 1, lane]:
                end = discount ** (passed - 1) * rows.outcome[later - 1, lane]
                break
            if later == shape[0]:
                values += [discount**passed * horizon.value[lane]] if horizon.is_choice[lane] else []
            elif rows.is_choice[later, lane]:
                values.append(discount**passed * (rows.value * sign)[later, lane])
        if end is not None:
            values.append(end)
        assert counts[t, lane] == bool(values)
        if counts[t, lane]:
            # The weights of the n-step returns: (1 - lambda) lambda^(n-1), and what is left for the last one.
            weights = (1 - trace) * trace ** np.arange(len(values))
            weights[-1] = trace ** (len(values) - 1)
            expected = (weights @ np.array(values) - (rows.value * sign)[t, lane]) * sign[t, lane]
            assert found[t, lane] == pytest.approx(expected, abs=1e-5)


log_probs_of = jax.jit(lambda network, seen, legal: masked_log_probs(network(seen).policy_logits, legal))


def choices_of(row: Rows) -> Choices:
    keep = np.flatnonzero(row.is_choice)[:32]
    row = jax.tree.map(lambda x: x[keep], row)
    advantage = np.random.default_rng(3).standard_normal(row.value.shape, np.float32)
    counts = np.arange(len(keep)) % 5 > 0
    magnet = np.asarray(log_probs_of(network(ACTOR_SHAPE, 0.3), row.seen, row.legal))
    return Choices(row.seen, row.known, row.legal, row.action, row.log_prob, advantage, row.value / 2, counts, magnet)


def test_the_gradient_is_that_of_its_parts(played):
    """Before any update: A log pi, tau H, alpha KL, and two cross-entropies."""
    choices, loss, scale = choices_of(played[1][30]), PolicyLoss(entropy=0.3, magnet=0.2, win_weight=0.5), np.float32(0.7)
    params = {"actor": ACTOR.params, "critic": CRITIC.params}
    sums, gradient = jax.jit(loss_and_gradient, static_argnums=(1, 4))(params, (ACTOR_SHAPE, CRITIC_SHAPE), choices, scale, loss)
    assert choices.magnet is not None and float(sums.clipped) == 0

    def of_one(probs, win_logits, one: Choices):
        legal = one.legal
        log_prob = jnp.log(jnp.where(legal, probs, 1.0))
        total = -one.advantage / scale * log_prob[one.action]
        total += loss.entropy * (probs * log_prob).sum()
        total += loss.magnet * jnp.where(legal, probs * (log_prob - one.magnet), 0.0).sum()
        win, chance = jax.nn.sigmoid(win_logits), (1 + one.target) / 2
        for each, weight in zip(win, (1.0, loss.win_weight), strict=True):
            total -= weight * (chance * jnp.log(each) + (1 - chance) * jnp.log(1 - each))
        return jnp.where(one.counts, total, 0.0)

    def by_hand(params):
        outputs = Network(params["actor"], ACTOR_SHAPE)(choices.seen)
        logits = jnp.stack([Network(params["critic"], CRITIC_SHAPE)(choices.known).win_logit, outputs.win_logit], axis=1)
        return jax.vmap(of_one)(jax.nn.softmax(outputs.policy_logits, where=choices.legal), logits, choices).sum()

    expected = jax.jit(jax.grad(by_hand))(params)
    for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4)


def test_clipped_plays_have_no_gradient(played):
    """Beyond the clip the surrogate is flat; the other terms have weight 0."""
    choices, loss = choices_of(played[1][30]), PolicyLoss(entropy=0.0, win_weight=0.0)
    grown = choices._replace(log_prob=choices.log_prob - 1.0, advantage=np.abs(choices.advantage), magnet=None)
    params, shapes = {"actor": ACTOR.params, "critic": CRITIC.params}, (ACTOR_SHAPE, CRITIC_SHAPE)
    gradient_of = jax.jit(loss_and_gradient, static_argnums=(1, 4))
    for advantage, is_flat in ((grown.advantage, True), (-grown.advantage, False)):
        sums, gradient = gradient_of(params, shapes, grown._replace(advantage=advantage), np.float32(1.0), loss)
        assert sums.clipped == sums.choices
        assert (max(np.abs(leaf).max() for leaf in jax.tree.leaves(gradient["actor"])) == 0) == is_flat


def test_a_play_of_no_probability_is_never_drawn(monkeypatch: pytest.MonkeyPatch):
    """Even if a parallel sum differs from its neighbour by rounding."""
    legal = np.zeros((1, cards.DRAW), bool)
    legal[0, [3, 20, 57]] = True
    log_probs = masked_log_probs(np.zeros(legal.shape, np.float32), legal)
    added = np.cumsum
    rounding = np.where(np.arange(cards.DRAW) % 2, np.float32(2e-7), 0)
    monkeypatch.setattr("jax.numpy.cumsum", lambda x, axis: jnp.asarray(added(np.asarray(x), axis) + rounding))
    shares = np.concatenate(
        [np.linspace(0, 2**32 - 1, 50), np.array([1, 2]) / 3 * 2**32 + np.arange(-2000, 2000, 10)[:, None]], None
    )
    drawn = {int(_draw(log_probs, legal, np.array([share], np.uint32))[0]) for share in shares}
    assert drawn == {3, 20, 57}
