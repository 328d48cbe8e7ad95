"""Closed forms against counting subsets one by one, and against the exact filter along games."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.oracle import FORFEITING, FULL, THIN, Record, play_games
from tests.helpers import play
from unojax import cards
from unojax.belief import closed_form, history
from unojax.belief.closed_form import MAX_GROUPS, ClosedFormBelief, closed_form_init, closed_form_update
from unojax.belief.exact import exact_init, exact_update
from unojax.device.combinatorics import log_binomial_ratio
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state


def text_to_counts(names: str) -> np.ndarray:
    counts = np.zeros(54, int)
    for name in names.split():
        counts[cards.TYPE_NAMES.index(name)] += 1
    return counts


def position(unseen: str, held: int, *, top: str = "R5", color: int = cards.RED, player: int = 1) -> Observation:
    """An observer with no cards whose opponent holds `held` of the unseen cards; all the others are in the pile."""
    counts = text_to_counts(unseen)
    top_type = cards.TYPE_NAMES.index(top)
    pile = cards.COPIES - counts
    return Observation(
        player=jnp.int8(player),
        hand=jnp.zeros(108, bool),
        pile=cards.onehot(pile),
        opponent_count=jnp.int8(held),
        deck_count=jnp.int8(counts.sum() - held),
        top_rank=jnp.int8(cards.RANK_OF_TYPE[top_type]),
        color=jnp.int8(color),
        penalty=jnp.int8(0),
        current_player=jnp.int8(1 - player),
        last_action=jnp.int8(-1),
        terminated=jnp.bool_(False),
        rules=FULL,
    )


UNSEEN = "R1 R1 R5 Y5 Y7 B2 B2 GS W W W W+4 Y+2"
PLAYABLE_ON_R5 = ("R1", "R5", "Y5", "W", "W+4")


def subsets(unseen: str, held: int) -> list[np.ndarray]:
    """Counts of every subset of the physical cards."""
    return [text_to_counts(" ".join(chosen)) for chosen in combinations(unseen.split(), held)]


@jax.jit
def uniform_forms(seen: Observation) -> dict[str, jax.Array]:
    belief, top = closed_form.uniform(seen), (seen.color, seen.top_rank)
    of_belief = {name: getattr(belief, name) for name in ("expected_counts", "prob_holds", "count_probs", "prob_no_color")}
    of_top = {name: getattr(belief, name)(*top) for name in ("prob_no_playable", "expected_playable")}
    functions = closed_form.prob_holds_card, closed_form.entropy_of_subsets, closed_form.entropy_of_hands
    return of_belief | of_top | {function.__name__: function(seen) for function in functions}


update = jax.jit(closed_form_update, static_argnames="exclude_drawn")
prob_none_of = jax.jit(lambda seen, types: closed_form.uniform(seen).prob_none_of(types))


@pytest.mark.parametrize("held", [0, 1, 3, 5, 12, 13])
def test_uniform_belief_by_counting_subsets(held: int) -> None:
    seen = position(UNSEEN, held)
    hands = np.array(subsets(UNSEEN, held))
    close = partial(np.testing.assert_allclose, rtol=2e-6, atol=1e-7)

    got = uniform_forms(seen)
    close(got["prob_holds_card"], held / 13)
    close(got["expected_counts"], hands.mean(0))
    close(got["prob_holds"], (hands > 0).mean(0))
    close(got["count_probs"], np.stack([(hands == j).mean(0) for j in range(5)], -1))
    close(got["prob_no_color"], [(hands[:, c * 13 : c * 13 + 13].sum(-1) == 0).mean() for c in range(4)])
    playable = [t for t in range(54) if cards.TYPE_NAMES[t] in PLAYABLE_ON_R5]
    close(got["prob_no_playable"], (hands[:, playable].sum(-1) == 0).mean())
    close(got["expected_playable"], hands[:, playable].sum(-1).mean())
    chosen = np.isin(np.arange(54), [1, 32, 52])
    close(prob_none_of(seen, chosen), (hands[:, chosen].sum(-1) == 0).mean())

    close(got["entropy_of_subsets"], math.log(len(hands)))
    multisets = np.array(list(Counter(map(tuple, hands.tolist())).values())) / len(hands)
    close(got["entropy_of_hands"], -(multisets * np.log(multisets)).sum(), atol=2e-6)


def test_no_card_unseen() -> None:
    got = uniform_forms(position("", 0))
    for name, value in got.items():
        want = 1.0 if name in ("prob_no_playable", "prob_no_color") else 0.0
        if name != "count_probs":
            np.testing.assert_array_equal(value, want, err_msg=name)
    np.testing.assert_array_equal(got["count_probs"], np.eye(1, 5).repeat(54, axis=0))


def test_log_binomial_ratio_is_good_to_float32() -> None:
    rng = np.random.default_rng(0)
    m = rng.integers(1, 109, 3000)
    k, n = rng.integers(0, m + 1), rng.integers(0, m + 1)
    got = np.asarray(log_binomial_ratio(n, k, m, k))
    assert got.dtype == np.float32
    possible = k <= n
    assert possible.sum() > 500
    assert (got[~possible] == -np.inf).all()
    exact = [math.log(math.comb(a, c)) - math.log(math.comb(b, c)) for a, b, c in zip(n, m, k, strict=True) if c <= a]
    np.testing.assert_allclose(got[possible], exact, rtol=3e-7, atol=1e-12)


def test_a_batch_gives_what_its_members_give() -> None:
    seen = [position(UNSEEN, held) for held in (2, 4)]
    batch = jax.jit(jax.vmap(uniform_forms))(jax.tree.map(lambda *x: jnp.stack(x), *seen))
    for i, one in enumerate(seen):
        for name, value in uniform_forms(one).items():
            np.testing.assert_allclose(batch[name][i], value, rtol=1e-6, atol=1e-7, err_msg=name)


# Along games.


def steps_before_first_play(record: Record, player: int, lane: int):
    """(before, action, after) up to and including the opponent's first play."""
    for step, action in enumerate(record.happened[:, lane].tolist()):
        before, after = record.view(player, step, lane), record.view(player, step + 1, lane)
        yield before, action, after
        if int(before.current_player) != player and 0 <= action < cards.DRAW:
            return


@jax.jit
def summarise(form: ClosedFormBelief, color: int, rank: int) -> tuple[jax.Array, ...]:
    return form.expected_counts, form.count_probs, form.prob_holds, form.prob_no_playable(color, rank)


@pytest.mark.parametrize("rules", [FORFEITING, pytest.param(THIN, marks=pytest.mark.slow)], ids=["actions", "thin"])
def test_exact_until_the_opponent_plays(rules: Rules) -> None:
    """Equal to the exact filter through chains of draws, penalties, own draws; uniform after a play, unlike that filter."""
    record = play_games(seed=3, num_games=300, num_steps=25, rules=rules)
    seen_events: Counter[str] = Counter()
    # The games in which player 1 draws most often before its first play, as player 0 sees them: those tell the forms apart.
    acts = np.where(record.states.current_player[:-1] == 1, record.happened, -1)
    has_played = np.cumsum((acts >= 0) & (acts < cards.DRAW), axis=0) > 0
    draws = ((acts == cards.DRAW) & ~has_played).sum(0)
    for lane in np.argsort(-draws, kind="stable")[:30].tolist():
        belief = exact_init(record.view(0, 0, lane))
        form = closed_form_init(record.view(0, 0, lane))
        for before, action, after in steps_before_first_play(record, 0, lane):
            belief, _ = exact_update(belief, before, action, after)
            form = update(form, before, action, after)
            theirs = int(before.current_player) == 1
            if theirs and 0 <= action < cards.DRAW:
                uniform = closed_form_init(after)
                np.testing.assert_array_equal(form.sizes, uniform.sizes)
                np.testing.assert_array_equal(form.available, uniform.available)
                expected = summarise(form, 0, 0)[0]
                np.testing.assert_allclose(expected, uniform_forms(after)["expected_counts"], rtol=1e-6, atol=1e-7)
                seen_events["differs after a play"] += bool(np.abs(expected - belief.expected_counts).max() > 0.01)
                break
            color, rank = int(after.color), int(after.top_rank)
            got = summarise(form, color, rank)
            want = belief.expected_counts, belief.count_probs, belief.prob_holds, belief.prob_no_playable(color, rank)
            for value, exact_value in zip(got, want, strict=True):
                np.testing.assert_allclose(value, exact_value, rtol=2e-5, atol=2e-6)
            groups = int((np.asarray(form.sizes) > 0).sum())
            seen_events["chain"] += groups >= 3
            seen_events["own draw later"] += action == cards.DRAW and not theirs and groups >= 2
            seen_events["penalty"] += action == cards.DRAW and theirs and int(before.penalty) > 0
    wanted = ["chain", "own draw later", "differs after a play"] + ["penalty"] * (rules is FORFEITING)
    assert all(seen_events[name] for name in wanted), seen_events


def draw(seen: Observation, number: int = 1, *, penalty: int = 0) -> tuple[Observation, Observation]:
    """Observations around an opponent's draw: at `seen` with the opponent to move, and after it."""
    before = replace(seen, current_player=1 - seen.player, penalty=jnp.int8(penalty))
    after = replace(
        before,
        opponent_count=before.opponent_count + jnp.int8(number),
        deck_count=before.deck_count - jnp.int8(number),
        current_player=seen.player,
        penalty=jnp.int8(0),
    )
    return before, after


@pytest.mark.parametrize("exclude_drawn", [False, True])
def test_could_not_play_by_counting(exclude_drawn: bool) -> None:
    """Two unplayable cards, then any card (right), or three unplayable ones (wrong)."""
    before, after = draw(position(UNSEEN, 2))
    names = UNSEEN.split()
    unplayable = [i for i, name in enumerate(names) if name[0] != "R" and name != "Y5" and name[0] != "W"]
    if exclude_drawn:
        hands = list(combinations(unplayable, 3))
    else:
        hands = [(i, j, k) for i, j in combinations(unplayable, 2) for k in range(len(names)) if k not in (i, j)]
    counts = np.array([text_to_counts(" ".join(names[i] for i in hand)) for hand in hands])
    form = update(closed_form_init(before), before, cards.DRAW, after, exclude_drawn=exclude_drawn)
    expected, probs, holds, no_playable = summarise(form, cards.RED, 5)
    np.testing.assert_allclose(expected, counts.mean(0), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(holds, (counts > 0).mean(0), rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(probs, np.stack([(counts == j).mean(0) for j in range(5)], -1), rtol=2e-6, atol=1e-7)
    playable = np.isin(np.arange(54), [cards.TYPE_NAMES.index(n) for n in PLAYABLE_ON_R5])
    none = (counts[:, playable].sum(-1) == 0).mean()
    np.testing.assert_allclose(no_playable, none, rtol=2e-6)
    assert (none == 1.0) == exclude_drawn


def test_penalty_tells_nothing() -> None:
    before, after = draw(position(UNSEEN, 2), 4, penalty=4)
    for exclude_drawn in (False, True):
        form = update(closed_form_init(before), before, cards.DRAW, after, exclude_drawn=exclude_drawn)
        np.testing.assert_allclose(form.expected_counts, closed_form.uniform(after).expected_counts, rtol=1e-6)


def test_wrong_form_starts_afresh_when_it_contradicts_itself() -> None:
    """Three unplayable cards are unseen; a hand of four of them cannot be."""
    before, after = draw(position("R1 R2 Y1 Y2 Y3 W", 3))
    wrong = update(closed_form_init(before), before, cards.DRAW, after, exclude_drawn=True)
    np.testing.assert_allclose(wrong.expected_counts, closed_form.uniform(after).expected_counts, rtol=1e-6)
    right = update(closed_form_init(before), before, cards.DRAW, after)
    np.testing.assert_allclose(right.expected_counts, text_to_counts("R1 R2 W") / 3 + text_to_counts("Y1 Y2 Y3"), rtol=1e-6)


def test_more_draws_than_groups() -> None:
    """Beyond `MAX_GROUPS` the belief forgets, and stays a distribution over hands that are possible."""
    unseen = "Y1 Y2 Y3 Y4 Y6 Y7 Y8 Y9 B1 B2 B3 B4 B6 B7 B8 B9 G1 G2 G3 G4 R1 R2 R3"
    seen = position(unseen, 1)
    form = closed_form_init(seen)
    for number in range(MAX_GROUPS + 4):
        # The colour changes, as if the observer had played in between.
        before, seen = draw(replace(seen, color=jnp.int8(number % 2)))
        form = update(form, before, cards.DRAW, seen)
        held = number + 2
        assert int(form.sizes.sum()) == held
        expected, probs, holds, _ = map(np.asarray, summarise(form, 0, 0))
        assert expected.sum() == pytest.approx(held, rel=1e-5)
        assert expected.min() >= 0
        assert (np.asarray(seen.unseen) - expected).min() >= -1e-6
        np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
        np.testing.assert_allclose(probs @ np.arange(5), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(1 - probs[:, 0], holds, rtol=1e-5, atol=1e-6)
        assert np.diff(np.asarray(form.available), axis=0).min() >= 0


def test_update_without_an_event_changes_nothing() -> None:
    before, after = draw(position(UNSEEN, 2))
    form = update(closed_form_init(before), before, cards.DRAW, after)
    same = update(form, after, -1, after)
    jax.tree.map(np.testing.assert_array_equal, form, same)


@pytest.mark.slow
def test_inference_and_update_run_vmapped() -> None:
    """Along full-deck games: one compiled scan over infer_action and update; all marginals stay possible."""
    states = jax.tree.map(lambda x: x[:, :101], play(0, num_steps=320, rules=FULL).states)
    seen = jax.jit(jax.vmap(jax.vmap(partial(observe, player=0))))(states)

    def along(first: Observation, views: Observation) -> tuple[jax.Array, jax.Array]:
        def one(carry, after):
            form, before = carry
            form = closed_form_update(form, before, history.infer_action(before, after), after)
            return (form, after), (form.expected_counts, form.prob_holds)

        _, out = jax.lax.scan(one, (closed_form_init(first), first), views)
        return out

    first, views = jax.tree.map(lambda x: x[:, 0], seen), jax.tree.map(lambda x: x[:, 1:], seen)
    expected, holds = jax.jit(jax.vmap(along))(first, views)
    expected, holds = np.asarray(expected), np.asarray(holds)
    assert np.isfinite(expected).all()
    assert np.isfinite(holds).all()
    np.testing.assert_allclose(expected.sum(-1), views.opponent_count, rtol=1e-5, atol=1e-5)
    true = states.hands[:, 1:, 1].astype(int) @ np.eye(54, dtype=int)[cards.TYPE_OF_SLOT]
    # A card that is held is never thought impossible.
    assert (holds[true > 0] > 0).all()


def test_games_that_it_can_not_follow() -> None:
    seen = observe(make_state("R1 R2", "B1", "R5", rules=Rules.official()), 0)
    with pytest.raises(ValueError, match="the closed form can't follow rules with may_draw=True"):
        closed_form_init(seen)
    plain = closed_form_init(observe(make_state("R1 R2", "B1", "R5"), 0))
    with pytest.raises(ValueError, match="the closed form can't follow rules with may_draw=True"):
        closed_form_update(plain, seen, 60, seen)
