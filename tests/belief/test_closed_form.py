"""Closed forms against enumerated subsets, and against the exact filter along games."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations

import jax
import numpy as np
import pytest

from tests import corpus
from tests.belief.games import RULES, games_of
from tests.helpers import assert_distributed, counts_of, deck_of, refusals
from unojax import bits, cards
from unojax.belief import closed_form, history
from unojax.belief.closed_form import MAX_GROUPS, ClosedFormBelief, closed_form_init, closed_form_update, draw_hands
from unojax.belief.exact import exact_init, exact_update
from unojax.device.combinatorics import log_binomial_ratio
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_observation, make_state

PROGRAMS = 60  # Positions are read outside `jit`.
UNSEEN = "R1 R1 R5 Y5 Y7 B2 B2 GS W W W W+4 Y+2"
FITS_R5 = np.isin(np.arange(54), [cards.TYPE_NAMES.index(name) for name in ("R1", "R5", "Y5", "W", "W+4")])
close = partial(np.testing.assert_allclose, rtol=2e-6, atol=1e-7)
update = jax.jit(closed_form_update, static_argnames="exclude_drawn")
init = jax.jit(closed_form_init)


def position(unseen: str, held: int) -> Observation:
    """Return the view of player 1 without cards; the opponent has `held` of the unseen cards."""
    counts, seen = np.array(deck_of(unseen)), jax.device_get(make_observation("R1", "R5", 1))
    onehots = {"hand": np.zeros(cards.NUM_CARDS, bool), "pile": cards.onehot_of(cards.COPIES - counts)}
    numbers = {"opponent_count": held, "deck_count": counts.sum() - held, "player": 1, "current_player": 0}
    return replace(seen, **onehots, **{name: np.int8(number) for name, number in numbers.items()})


def by_counting(hands: np.ndarray) -> dict[str, object]:
    """Return the figures of equally likely hands, int[N, 54]."""
    return {
        "expected_counts": hands.mean(0),
        "prob_holds": (hands > 0).mean(0),
        "count_probs": np.stack([(hands == j).mean(0) for j in range(5)], -1),
        "prob_no_color": [(hands[:, c * 13 : c * 13 + 13].sum(-1) == 0).mean() for c in range(4)],
        "prob_no_playable": (hands[:, FITS_R5].sum(-1) == 0).mean(),
        "expected_playable": hands[:, FITS_R5].sum(-1).mean(),
    }


@jax.jit
def figures(belief: ClosedFormBelief, color: jax.Array, rank: jax.Array) -> dict[str, jax.Array]:
    of_belief = {name: getattr(belief, name) for name in ("expected_counts", "prob_holds", "count_probs", "prob_no_color")}
    return of_belief | {name: getattr(belief, name)(color, rank) for name in ("prob_no_playable", "expected_playable")}


@jax.jit
def uniform_figures(seen: Observation) -> dict[str, jax.Array]:
    belief = closed_form.uniform(seen)
    functions = closed_form.prob_holds_card, closed_form.entropy_of_subsets, closed_form.entropy_of_hands
    some = np.isin(np.arange(54), [1, 32, 52])
    return (
        figures(belief, seen.color, seen.top_rank)
        | {f.__name__: f(seen) for f in functions}
        | {"none": belief.prob_none_of(some)}
    )


def test_the_uniform_belief_by_counting_subsets() -> None:
    """Contract: P(card in H) = |H|/|U|, P(no colour c), P(no playable card), expected playable cards, entropy."""
    for held in (0, 1, 3, 5, 12, 13):
        hands = np.array([deck_of(" ".join(chosen)) for chosen in combinations(UNSEEN.split(), held)])
        multisets = np.array(list(Counter(map(tuple, hands.tolist())).values())) / len(hands)
        expected = by_counting(hands) | {
            "prob_holds_card": held / 13,
            "none": (hands[:, [1, 32, 52]].sum(-1) == 0).mean(),
            "entropy_of_subsets": math.log(len(hands)),
            "entropy_of_hands": -(multisets * np.log(multisets)).sum(),
        }
        found = uniform_figures(position(UNSEEN, held))
        for name, value in expected.items():
            close(found[name], value, atol=2e-6, err_msg=f"{name} of {held}")
    nothing = uniform_figures(position("", 0))
    for name, value in nothing.items():
        expected = (
            np.eye(1, 5).repeat(54, axis=0) if name == "count_probs" else name in ("prob_no_playable", "prob_no_color", "none")
        )
        np.testing.assert_array_equal(value, np.broadcast_to(np.float32(expected), value.shape), err_msg=name)


def test_log_binomial_ratio_is_good_to_float32() -> None:
    rng = np.random.default_rng(0)
    m = rng.integers(1, 109, 3000)
    k, n = rng.integers(0, m + 1), rng.integers(0, m + 1)
    found = np.asarray(jax.jit(log_binomial_ratio)(n, k, m, k))
    possible = k <= n
    assert found.dtype == np.float32 and possible.sum() > 500 and (found[~possible] == -np.inf).all()
    exact = [math.log(math.comb(a, c)) - math.log(math.comb(b, c)) for a, b, c in zip(n, m, k, strict=True) if c <= a]
    np.testing.assert_allclose(found[possible], exact, rtol=3e-7, atol=1e-12)


@pytest.mark.parametrize("name", ["forfeiting", pytest.param("thin", marks=pytest.mark.slow)])
def test_it_is_exact_until_the_opponent_plays(name: str) -> None:
    """Equal to the exact filter until a play, then uniform."""
    games, seen = games_of(RULES[name]), Counter[str]()
    # The games in which player 1 draws most often before its first play: those distinguish the forms.
    acts = np.where(games.states.current_player[:, :-1] == 1, games.actions, -1)
    has_played = np.cumsum((acts >= 0) & (acts < cards.DRAW), axis=1) > 0
    draws = ((acts == cards.DRAW) & ~has_played).sum(1)
    for number in np.argsort(-draws, kind="stable")[:20].tolist():
        steps = games.steps(0, number)
        belief, form = exact_init(steps[0][0]), init(steps[0][0])
        for before, action, after in steps:
            belief, _ = exact_update(belief, before, action, after)
            form = update(form, before, action, after)
            found = figures(form, after.color, after.top_rank)
            theirs = not before.is_my_turn
            if theirs and action < cards.DRAW:
                for one, other in zip(form.__dict__.values(), init(after).__dict__.values(), strict=True):
                    np.testing.assert_array_equal(one, other)
                seen["differs after a play"] += bool(np.abs(found["expected_counts"] - belief.expected_counts).max() > 0.01)
                break
            none = belief.prob_no_playable(int(after.color), int(after.top_rank))
            expected = {field: getattr(belief, field) for field in ("expected_counts", "count_probs", "prob_holds")}
            for field, value in (expected | {"prob_no_playable": none}).items():
                np.testing.assert_allclose(found[field], value, rtol=2e-5, atol=2e-6, err_msg=field)
            groups = int((np.asarray(form.sizes) > 0).sum())
            seen["chain"] += groups >= 3
            seen["own draw later"] += action == cards.DRAW and not theirs and groups >= 2
            seen["penalty"] += action == cards.DRAW and theirs and int(before.penalty) > 0
    assert all(seen[event] for event in ("chain", "own draw later", "differs after a play")), seen
    assert seen["penalty"] or name == "thin"


def draw(seen: Observation, number: int = 1, *, penalty: int = 0) -> tuple[Observation, Observation]:
    """Return the observations before and after an opponent's draw."""
    before = replace(seen, current_player=np.int8(1 - seen.player), penalty=np.int8(penalty))
    counts = {"opponent_count": seen.opponent_count + np.int8(number), "deck_count": seen.deck_count - np.int8(number)}
    return before, replace(before, **counts, current_player=seen.player, penalty=np.int8(0))


def test_draws_by_counting() -> None:
    """An opponent that could not play holds two unplayable cards and any card; three unplayable ones are wrong.

    A penalty is no evidence.
    """
    names, (before, after) = UNSEEN.split(), draw(position(UNSEEN, 2))
    unplayable = [i for i, name in enumerate(names) if name[0] not in "RW" and name != "Y5"]
    right = [(i, j, k) for i, j in combinations(unplayable, 2) for k in range(len(names)) if k not in (i, j)]
    for exclude_drawn, hands in ((False, right), (True, list(combinations(unplayable, 3)))):
        form = update(init(before), before, cards.DRAW, after, exclude_drawn=exclude_drawn)
        counts = np.array([deck_of(" ".join(names[i] for i in hand)) for hand in hands])
        for name, value in by_counting(counts).items():
            close(figures(form, cards.RED, 5)[name], value, err_msg=name)
        jax.tree.map(np.testing.assert_array_equal, form, update(form, after, -1, after))
        fined = draw(position(UNSEEN, 2), 4, penalty=4)
        form = update(init(fined[0]), fined[0], cards.DRAW, fined[1], exclude_drawn=exclude_drawn)
        close(figures(form, 0, 0)["expected_counts"], uniform_figures(fined[1])["expected_counts"])
    assert by_counting(np.array([deck_of("Y7 B2 B2")]))["prob_no_playable"] == 1.0
    # Three unplayable cards are unseen; a hand of four of them is impossible, so the wrong form restarts.
    before, after = draw(position("R1 R2 Y1 Y2 Y3 W", 3))
    wrong, form = (update(init(before), before, cards.DRAW, after, exclude_drawn=exclude) for exclude in (True, False))
    close(figures(wrong, 0, 0)["expected_counts"], uniform_figures(after)["expected_counts"])
    close(figures(form, 0, 0)["expected_counts"], np.array(deck_of("R1 R2 W")) / 3 + deck_of("Y1 Y2 Y3"))


def test_drawn_hands_are_equally_likely() -> None:
    """Cards of different groups are independent, except that they are different cards."""
    names, (before, after) = UNSEEN.split(), draw(position(UNSEEN, 1))
    form = update(init(before), before, cards.DRAW, after)
    unplayable = [i for i, name in enumerate(names) if name[0] not in "RW" and name != "Y5"]
    hands = Counter(tuple(deck_of(f"{names[i]} {names[j]}")) for i in unplayable for j in range(len(names)) if i != j)
    drawn = Counter(map(tuple, counts_of(bits.unpack(draw_hands(jax.random.key(0), form, 20_000))).tolist()))
    assert drawn.keys() <= hands.keys()
    shares = np.array(list(hands.values())) / hands.total()
    assert_distributed(np.array([drawn[hand] for hand in hands]), shares)


def test_more_draws_than_groups() -> None:
    """Beyond `MAX_GROUPS` the belief forgets, and stays a distribution over hands that are possible."""
    seen = position("Y1 Y2 Y3 Y4 Y6 Y7 Y8 Y9 B1 B2 B3 B4 B6 B7 B8 B9 G1 G2 G3 G4 R1 R2 R3", 1)
    form = init(seen)
    for number in range(MAX_GROUPS + 4):
        # The colour changes, as if the observer had played in between.
        before, seen = draw(replace(seen, color=np.int8(number % 2)))
        form = update(form, before, cards.DRAW, seen)
        found = jax.device_get(figures(form, 0, 0))
        expected, probs, holds = (found[name] for name in ("expected_counts", "count_probs", "prob_holds"))
        assert int(form.sizes.sum()) == number + 2 == pytest.approx(expected.sum(), rel=1e-5)
        assert expected.min() >= 0 and (np.asarray(seen.unseen) - expected).min() >= -1e-6
        close(probs.sum(-1), 1.0, rtol=1e-5)
        close(probs @ np.arange(5), expected, rtol=1e-5, atol=1e-6)
        close(1 - probs[:, 0], holds, rtol=1e-5, atol=1e-6)
        assert np.diff(np.asarray(form.available), axis=0).min() >= 0


@pytest.mark.slow
def test_inference_and_update_run_vmapped() -> None:
    """One compiled scan along full-deck games: no held card is impossible."""
    states = jax.tree.map(lambda x: x[:, :101], corpus.games("default").states)
    seen = jax.tree.map(lambda x: x[:, :101], corpus.views("default", 0))

    def along(first: Observation, views: Observation) -> tuple[jax.Array, jax.Array]:
        def one(carry, after):
            form, before = carry
            form = closed_form_update(form, before, history.infer_action(before, after), after)
            return (form, after), (form.expected_counts, form.prob_holds)

        return jax.lax.scan(one, (closed_form_init(first), first), views)[1]

    first, views = jax.tree.map(lambda x: x[:, 0], seen), jax.tree.map(lambda x: x[:, 1:], seen)
    expected, holds = jax.device_get(jax.jit(jax.vmap(along))(first, views))
    assert np.isfinite(holds).all()
    np.testing.assert_allclose(expected.sum(-1), views.opponent_count, rtol=1e-5, atol=1e-5)
    true = states.hands[:, 1:, 1].astype(int) @ np.eye(54, dtype=int)[cards.TYPE_OF_SLOT]
    assert (holds[true > 0] > 0).all()


def test_refusals() -> None:
    official, plain = (observe(make_state("R1 R2", "B1", "R5", rules=rules), 0) for rules in (Rules.official(), Rules()))
    belief = closed_form_init(plain)
    refusals(
        {
            "may_draw (init)": lambda: closed_form_init(official),
            "may_draw (update)": lambda: closed_form_update(belief, official, 60, official),
        }
    )
