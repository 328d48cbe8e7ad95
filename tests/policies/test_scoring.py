"""`unojax.policies.scoring` against points in plain Python."""

import math

import jax
import numpy as np
import pytest

from tests import corpus
from tests.helpers import refusals
from unojax import Rules, cards, game
from unojax.device.static import Argument
from unojax.game import State
from unojax.observation import observe
from unojax.policies import LINEAR, LOOKAHEAD, POLICIES, LinearPolicy, LookaheadPolicy, PackedPolicy
from unojax.policies.scoring import WEIGHT_NAMES, play_features
from unojax.simulation import simulate
from unojax.view import view_of

COMPOSITION = np.asarray(Rules().deck)
SKIP, REVERSE, DRAW_TWO, WILD, WILD_DRAW_FOUR = 10, 11, 12, 13, 14
RANDOM_WEIGHTS = tuple(np.random.default_rng(0).normal(size=len(WEIGHT_NAMES)).round(2).tolist())


@pytest.fixture(scope="module")
def states() -> State:
    """Return positions of random games, [1600], of all hand and pile sizes."""
    return jax.tree.map(lambda leaf: leaf[:16, :100].reshape(-1, *leaf.shape[2:]), corpus.games("default").states)


class Position:
    """A player's knowledge in plain numbers."""

    def __init__(self, state: State, index: int):
        player = int(state.current_player[index])
        self.hand = cards.count_types(state.hands[index, player])
        self.num_opponent = int(state.hands[index, 1 - player].sum())
        self.unseen = COMPOSITION - self.hand - cards.count_types(state.pile[index])
        self.color = int(state.color[index])

    def in_color(self, counts: np.ndarray, color: int, ranks: range = range(13)) -> int:
        return int(sum(counts[13 * color + rank] for rank in ranks))

    def of_rank(self, counts: np.ndarray, rank: int) -> int:
        return int(sum(counts[13 * color + rank] for color in range(4)))


def linear_points(weights: tuple[float, ...], position: Position, action: int) -> float:
    color, rank = divmod(action, 15)
    p, w = position, dict(zip(WEIGHT_NAMES, weights, strict=True))
    names = {SKIP: "skip or reverse", REVERSE: "skip or reverse", DRAW_TWO: "draw two", WILD: "wild"}
    kind = "number" if rank < SKIP else names.get(rank, "wild draw four")
    points = w[f"{kind}, always"]
    if p.num_opponent == 1:
        points += w[f"{kind}, opponent has 1 card"]
    elif p.num_opponent == 2:
        points += w[f"{kind}, opponent has 2 cards"]
    elif p.num_opponent in (3, 4):
        points += w[f"{kind}, opponent has 3 or 4 cards"]
    held, action_cards = p.in_color(p.hand, color), p.in_color(p.hand, color, range(10, 13))
    expected = p.num_opponent * p.in_color(p.unseen, color) / p.unseen.sum()
    points += w["cards held"] * held + w["action cards held"] * action_cards
    points += w["active colour"] * (color == p.color)
    points += w["opponent's expected cards"] * expected + w["opponent holds none"] * math.exp(-expected)
    left = p.hand.copy()
    left[52 + rank - WILD if rank >= WILD else 13 * color + rank] -= 1
    wilds = int(left[52:].sum())
    if rank >= WILD:
        points += w["wild: cards held"] * held + w["wild: none held"] * (held == 0)
        by_rank = 0
    else:
        by_rank = p.of_rank(p.hand, rank) - int(p.hand[13 * color + rank])
    moves_again = rank in (SKIP, REVERSE, DRAW_TWO, WILD_DRAW_FOUR)
    if moves_again:
        points += w["moving again: cards held"] * held + w["moving again: action cards held"] * action_cards
        points += w["moving again: opponent's expected cards"] * expected + w["moving again: wild cards left"] * wilds
    if by_rank:
        points += w["moving again: rank held in other colours" if moves_again else "number of a rank held in other colours"]
    if p.in_color(left, color) + by_rank + wilds == 0:
        points += w["nothing left that fits"] + w["moving again: nothing left that fits"] * moves_again
    return points


def lookahead_points(weights: tuple[float, ...], position: Position, action: int) -> float:
    color, rank = divmod(action, 15)
    p = position
    theirs = p.num_opponent + {DRAW_TWO: 2, WILD_DRAW_FOUR: 4}.get(rank, 0)
    hand = p.hand.copy()
    hand[52 + rank - WILD if rank >= WILD else 13 * color + rank] -= 1
    playable = sum(int(n) for t, n in enumerate(p.unseen) if t >= 52 or t // 13 == color or (rank < WILD and t % 13 == rank))
    margin, per_playable, per_wild = weights
    return margin * (theirs - hand.sum()) + per_playable * theirs * playable / p.unseen.sum() + per_wild * hand[52:].sum()


@jax.jit
def evaluate(argument: Argument, states: State) -> tuple[jax.Array, ...]:
    """Return masks, action probabilities, points, and narrowed plays for the players to move.

    Other weights use the same program.
    """
    policy = argument.value

    def one(state: State) -> tuple[jax.Array, ...]:
        seen, mask = observe(state, state.current_player), game.legal_mask(state)
        view = view_of(seen)
        kept = game.options_to_mask(policy.narrow(view, game.actions_to_options(mask, state.rules)))
        return mask, policy.action_probs(seen, mask), policy.score_plays(view), kept

    return jax.vmap(one)(states)


def evaluated(policy: LinearPolicy | LookaheadPolicy, states: State) -> list[np.ndarray]:
    return list(map(np.asarray, evaluate(Argument(policy), states)))


POLICIES_AND_POINTS = {
    "linear": (LINEAR, linear_points),
    "random linear": (LinearPolicy(RANDOM_WEIGHTS), linear_points),
    "lookahead": (LOOKAHEAD, lookahead_points),
    "other lookahead": (LookaheadPolicy((0.3, 0.8, -0.4)), lookahead_points),
}


@pytest.mark.parametrize("name", POLICIES_AND_POINTS)
def test_plays_and_points_agree_with_plain_python(name: str, states: State):
    policy, points = POLICIES_AND_POINTS[name]
    masks, probs, scores, _ = evaluated(policy, states)
    checked = 0
    for index in np.flatnonzero((masks[:, :60].sum(1) > 1) & ~states.terminated)[::3]:
        position = Position(states, index)
        legal = np.flatnonzero(masks[index])
        expected = np.array([points(policy.weights, position, action) for action in legal])
        np.testing.assert_allclose(scores[index, legal], expected, rtol=1e-4, atol=1e-4)
        chosen = set(np.flatnonzero(probs[index]).tolist())
        # Equal points differ by rounding alone.
        assert chosen <= set(legal[expected >= expected.max() - 1e-4].tolist())
        assert legal[expected.argmax()] in chosen or expected[expected > expected.max() - 1e-4].size > 1
        checked += 1
    assert checked > 100


def test_the_fused_form_narrows_to_the_best_sums(states: State):
    """`narrow` keeps the plays with the highest features times weights."""

    @jax.jit
    @jax.vmap
    def features_of(state: State) -> jax.Array:
        return play_features(view_of(observe(state, state.current_player)))

    features = np.asarray(features_of(states))
    for policy in (LINEAR, LinearPolicy(RANDOM_WEIGHTS)):
        masks, _, _, kept = evaluated(policy, states)
        legal = masks[:, :60]
        points = np.where(legal, features @ np.float32(policy.weights), -np.inf)
        chooses = legal.any(1) & ~states.terminated
        assert chooses.sum() > 100 and kept[chooses].any(1).all() and not (kept & ~legal).any()
        near = points[chooses] >= points[chooses].max(1, keepdims=True) - 1e-4
        assert near[kept[chooses]].all()
        # Beyond rounding all the best ones are kept.
        clear = near.sum(1) == 1
        np.testing.assert_array_equal(kept[chooses][clear], near[clear])


def test_a_play_is_legal_even_if_none_equals_the_best(states: State):
    """If points differ from themselves by rounding, as when a program computes them twice."""
    for policy in (LINEAR, LOOKAHEAD):
        # The constructor refuses such weights.
        argument = jax.tree.map(lambda weight: np.float32(math.nan), Argument(policy))
        masks, probs, *_ = map(np.asarray, evaluate(argument, states))
        chooses = masks[:, :60].any(1) & ~states.terminated
        np.testing.assert_allclose(probs[chooses], masks[chooses] / masks[chooses].sum(1, keepdims=True), rtol=1e-6)


def test_other_weights_do_not_compile_anew():
    def compiled_with(weights: tuple[float, ...]) -> object:
        return jax.tree.structure(Argument((LinearPolicy(weights), POLICIES["uniform"])))

    assert compiled_with(LINEAR.weights) == compiled_with(RANDOM_WEIGHTS)
    np.testing.assert_allclose(np.array(Argument(LINEAR).value.weights, float), LINEAR.weights, rtol=1e-6)


def test_weights_are_so_many_finite_numbers():
    linear, rest = f"weights of linear must be {len(WEIGHT_NAMES)} finite numbers", RANDOM_WEIGHTS[1:]
    wrong = [(math.nan,) * len(WEIGHT_NAMES), (math.inf, *rest), (1e39, *rest), (np.float32(math.nan), *rest), rest]
    refusals(
        {f"{linear} ({index})": lambda weights=weights: LinearPolicy(weights) for index, weights in enumerate(wrong)}
        | {"weights of lookahead must be 3 finite numbers": lambda: LookaheadPolicy((0.0, 1.0, math.nan))}
    )


def wins(seat: int, policy: PackedPolicy, other: PackedPolicy) -> float:
    """Return a policy's share of 8,000 games in a seat, with a standard error of 0.5 points."""
    pair = (policy, other) if seat == 0 else (other, policy)
    return (simulate(jax.random.key(3), 8_000, pair, batch_size=256).winner == seat).mean()


def test_the_linear_policy_wins():
    """It wins 61%."""
    assert wins(0, LINEAR, POLICIES["scarcest-color"]) > 0.585


@pytest.mark.slow
def test_the_fitted_policies_win_from_the_other_seats():
    """They win 61% and 58% over both seats."""
    assert wins(1, LINEAR, POLICIES["scarcest-color"]) > 0.585
    assert (wins(0, LOOKAHEAD, POLICIES["uniform"]) + wins(1, LOOKAHEAD, POLICIES["uniform"])) / 2 > 0.55
