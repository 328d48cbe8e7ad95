"""`unojax.policies.scoring` against points added up in plain Python."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import play
from unojax import Rules, cards, game, make_state
from unojax.device import static
from unojax.game import State
from unojax.observation import observe
from unojax.policies import LINEAR, LOOKAHEAD, POLICIES, LinearPolicy, LookaheadPolicy, PackedPolicy
from unojax.policies.scoring import WEIGHT_NAMES, play_features
from unojax.simulation import simulate
from unojax.view import view_of

RULES = Rules()
COMPOSITION = np.asarray(RULES.deck)
SKIP, REVERSE, DRAW_TWO, WILD, WILD_DRAW_FOUR = 10, 11, 12, 13, 14
RANDOM_WEIGHTS = tuple(np.random.default_rng(0).normal(size=len(WEIGHT_NAMES)).round(2).tolist())


@pytest.fixture(scope="module")
def states() -> State:
    """Positions of random games, [1600]: hands of all sizes, piles from nothing to most of the deck."""
    games = play(0, num_steps=320, rules=RULES)
    return jax.tree.map(lambda leaf: leaf[:16, :100].reshape(-1, *leaf.shape[2:]), games.states)


class Position:
    """What a player knows, in plain numbers."""

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


@partial(jax.jit, static_argnames="skeleton")
def evaluate(numbers: list[jax.Array], states: State, *, skeleton: static.Skeleton) -> tuple[jax.Array, ...]:
    """Masks, action probabilities and points for the players to move. Other weights are the same program."""
    policy = static.join(numbers, skeleton)

    def one(state: State) -> tuple[jax.Array, ...]:
        seen, mask = observe(state, state.current_player), game.legal_mask(state)
        return mask, policy.action_probs(seen, mask), policy.score_plays(view_of(seen))

    return jax.vmap(one)(states)


@pytest.mark.parametrize(
    ("policy", "points"),
    [
        (LINEAR, linear_points),
        (LinearPolicy(RANDOM_WEIGHTS), linear_points),
        (LOOKAHEAD, lookahead_points),
        (LookaheadPolicy((0.3, 0.8, -0.4)), lookahead_points),
    ],
    ids=["linear", "random linear", "lookahead", "other lookahead"],
)
def test_plays_and_points_agree_with_plain_python(policy: LinearPolicy | LookaheadPolicy, points, states: State):
    numbers, skeleton = static.split(policy)
    masks, probs, scores = map(np.asarray, evaluate(numbers, states, skeleton=skeleton))
    checked = 0
    for index in np.flatnonzero((np.asarray(masks)[:, :60].sum(1) > 1) & ~np.asarray(states.terminated))[::3]:
        position = Position(states, index)
        legal = np.flatnonzero(masks[index])
        expected = np.array([points(policy.weights, position, action) for action in legal])
        np.testing.assert_allclose(scores[index, legal], expected, rtol=1e-4, atol=1e-4)
        chosen = set(np.flatnonzero(probs[index]).tolist())
        # Equal points differ by rounding alone.
        assert chosen <= set(legal[expected >= expected.max() - 1e-4].tolist())
        assert (
            chosen >= set(legal[expected == expected.max()].tolist()[:1]) or expected[expected > expected.max() - 1e-4].size > 1
        )
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("policy", [LINEAR, LinearPolicy(RANDOM_WEIGHTS)], ids=["linear", "random linear"])
def test_the_fused_form_narrows_to_the_best_sums(policy: LinearPolicy, states: State):
    """What `narrow` keeps are the plays whose features times weights are highest."""

    @jax.jit
    @jax.vmap
    def both(state: State) -> tuple[jax.Array, ...]:
        view, mask = view_of(observe(state, state.current_player)), game.legal_mask(state)
        kept = policy.narrow(view, game.actions_to_options(mask, state.rules))
        return mask[:60], game.options_to_mask(kept), play_features(view) @ jnp.array(policy.weights)

    legal, kept, points = map(np.asarray, both(states))
    points = np.where(legal, points, -np.inf)
    chooses = legal.any(1) & ~np.asarray(states.terminated)
    assert chooses.sum() > 100 and kept[chooses].any(1).all() and not (kept & ~legal).any()
    best = points[chooses].max(1, keepdims=True)
    assert (points[chooses] >= best - 1e-4)[kept[chooses]].all()
    # Beyond rounding all the best ones are kept.
    clear = (points[chooses] >= best - 1e-4).sum(1) == 1
    np.testing.assert_array_equal(kept[chooses][clear], points[chooses][clear] == best[clear])


@pytest.mark.parametrize("make", [LinearPolicy, LookaheadPolicy])
def test_a_play_is_legal_even_if_none_equals_the_best(make):
    """Points that are not equal to themselves, as in a program that computes them twice and rounds them differently."""
    number = 3 if make is LookaheadPolicy else len(WEIGHT_NAMES)
    policy = make(tuple(jnp.float32(math.nan) for _ in range(number)))
    seen = observe(make_state("R1 R2 B5", "Y1", "R9"), 0)
    np.testing.assert_allclose(policy.action_probs(seen, seen.legal_mask), seen.legal_mask / 2)
    assert bool(seen.legal_mask[policy(jax.random.key(0), seen, seen.legal_mask)])


def test_other_weights_do_not_compile_anew():
    def compiled_with(weights: tuple[float, ...]) -> static.Skeleton:
        return static.split((LinearPolicy(weights), POLICIES["uniform"]))[1]

    assert compiled_with(LINEAR.weights) == compiled_with(RANDOM_WEIGHTS)
    numbers, skeleton = static.split(LINEAR)
    np.testing.assert_allclose(jnp.stack(static.join(numbers, skeleton).weights), LINEAR.weights, rtol=1e-6)


@pytest.mark.parametrize(
    "weights",
    [
        (math.nan,) * len(WEIGHT_NAMES),
        (math.inf, *RANDOM_WEIGHTS[1:]),
        (1e39, *RANDOM_WEIGHTS[1:]),
        (np.float32(math.nan), *RANDOM_WEIGHTS[1:]),
        RANDOM_WEIGHTS[1:],
    ],
)
def test_weights_are_so_many_finite_numbers(weights: tuple[float, ...]):
    with pytest.raises(ValueError, match=f"weights of linear must be {len(WEIGHT_NAMES)} finite numbers"):
        LinearPolicy(weights)
    with pytest.raises(ValueError, match="weights of lookahead must be 3 finite numbers"):
        LookaheadPolicy((0.0, 1.0, math.nan))


def test_the_linear_policy_wins():
    games = simulate(jax.random.key(3), 8_000, (LINEAR, POLICIES["scarcest-color"]), batch_size=256)
    # 61 % were seen, the standard error is 0.5 points.
    assert (games.winner == 0).mean() > 0.585


@pytest.mark.slow
def test_the_fitted_policies_win_from_the_other_seats():
    def wins(seat: int, policy: PackedPolicy, other: PackedPolicy) -> float:
        pair = (policy, other) if seat == 0 else (other, policy)
        return (simulate(jax.random.key(3), 8_000, pair, batch_size=256).winner == seat).mean()

    # 61 % and 58 % were seen over both seats, the standard error is 0.5 points.
    assert wins(1, LINEAR, POLICIES["scarcest-color"]) > 0.585
    assert (wins(0, LOOKAHEAD, POLICIES["uniform"]) + wins(1, LOOKAHEAD, POLICIES["uniform"])) / 2 > 0.55
