"""Opponent models: the path for packed clouds against the one that is called through the protocol."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.oracle import FORFEITING, play_games
from tests.helpers import after
from unojax import bits, cards
from unojax.belief.opponents import (
    FAMILY,
    SLIP,
    Family,
    PolicyOpponent,
    consistent_opponent,
    opponent_name,
    parse_opponent,
    uniform_opponent,
)
from unojax.belief.particles import likelihood, public
from unojax.game import State, actions_to_options, hand_legal_mask
from unojax.observation import Observation, observe
from unojax.policies import POLICIES, LinearPolicy, greedy
from unojax.rules import Rules
from unojax.table import pick_of
from unojax.text import make_state, parse_action
from unojax.view import view_of

MODELS = [
    uniform_opponent,
    consistent_opponent,
    *(PolicyOpponent(policy, tremble=0.25) for policy in POLICIES.values()),
    PolicyOpponent(POLICIES["guard"]),
]
NAMES = ["uniform", "consistent", *(f"{name}, trembling" for name in POLICIES), "guard"]
# A program each. Those by preferences are all of `prefer`; those by points of one product.
SHORT = {"uniform", "consistent", "scarcest-color, trembling", "linear, trembling", "guard"}
EACH = [pytest.param(m, id=n, marks=[] if n in SHORT else pytest.mark.slow) for m, n in zip(MODELS, NAMES, strict=True)]


def recorded_plays() -> list[tuple[Observation, jax.Array]]:
    """Observations before plays of the opponent, and the actions."""
    record = play_games(seed=3, num_games=300, num_steps=25, rules=FORFEITING)
    happened, mover = record.happened, record.states.current_player[:-1]
    found = np.argwhere((happened >= 0) & (happened < cards.DRAW) & (mover == 1))[::41]
    assert len(found) >= 8
    return [(record.view(0, t, lane), jnp.int32(happened[t, lane])) for t, lane in found[:8].tolist()]


def random_hands(seed: int, num: int) -> jax.Array:
    """bool[num, 108] canonical hands of 1..12 cards of the full deck."""
    rng = np.random.default_rng(seed)
    slots = rng.random((num, 108)).argsort(-1) < rng.integers(1, 13, (num, 1))
    return bits.unpack(bits.canonical(bits.pack(slots)))


@pytest.mark.parametrize("model", EACH)
def test_packed_path_equals_the_protocol(model) -> None:
    """Hands of the full deck at recorded positions, some with the observer about to win and some not."""
    hands = random_hands(seed=1, num=400)
    packed = bits.pack(hands)

    def plain(observation, legal_mask):
        return model(observation, legal_mask)

    compare = jax.jit(lambda record, like: tuple(likelihood.choice_prob(packed, packed, record, m, like) for m in (model, plain)))
    possible = 0
    for before, action in recorded_plays():
        for observer_count in (2, 9):
            book = public.empty(max_slots=4, max_records=1)
            record = public.observed_choice(book, before, action)._replace(observer_count=jnp.int32(observer_count))
            fast, slow = compare(record, before)
            # Two plays whose points are equal but for rounding: which is the best, two programs may see differently. It happens
            # to one hand in a thousand of a policy that adds points up, and to none of any other.
            is_same = np.isclose(fast, slow, rtol=1e-5, atol=1e-6)
            num_ties = 3 if isinstance(getattr(model, "policy", None), LinearPolicy) else 0
            assert (~is_same).sum() <= num_ties, (np.asarray(fast)[~is_same], np.asarray(slow)[~is_same])
            possible += int((np.asarray(fast) > 0).sum())
    assert possible > 300


@pytest.mark.parametrize("model", [one for one in EACH if one.id != "consistent"])
def test_probabilities_are_over_the_legal_actions(model) -> None:
    before, _ = recorded_plays()[0]

    def one(hand):
        view = dataclasses.replace(before, hand=hand)
        legal = hand_legal_mask(hand, before.color, before.top_rank, jnp.int8(0))
        return model(view, legal), legal

    probs, legal = jax.jit(jax.vmap(one))(random_hands(seed=2, num=100))
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    assert (np.asarray(probs)[~np.asarray(legal)] == 0).all()
    if model.tremble > 0 and model.policy != greedy:
        least = model.tremble / legal.sum(-1, keepdims=True)
        assert (np.where(legal, probs - least, 0.0) > -1e-6).all()


def test_trembling_mixes_with_uniform_play() -> None:
    legal = jnp.zeros(61, bool).at[jnp.array([3, 13])].set(True)
    before, _ = recorded_plays()[0]
    view = dataclasses.replace(before, hand=jnp.zeros(108, bool).at[jnp.array([3, 25])].set(True))
    wilds_first = POLICIES["wilds-first"]
    pure, mixed = (PolicyOpponent(wilds_first, tremble)(view, legal) for tremble in (0.0, 0.2))
    np.testing.assert_allclose([pure[13], pure[3]], [1.0, 0.0])
    np.testing.assert_allclose([mixed[13], mixed[3]], [0.9, 0.1], rtol=1e-6)


OFFICIAL = Rules.official()


def policy_opponent(name: str) -> PolicyOpponent:
    model = parse_opponent(name)
    assert isinstance(model, PolicyOpponent)
    return model


def in_the_view_of(state: State) -> tuple[Observation, jax.Array]:
    seen = observe(state, state.current_player)
    return seen, seen.legal_mask


def test_a_trembling_policy_draws_and_challenges_as_rarely_as_any_other() -> None:
    """So that a voluntary draw or a challenge says nothing of the opponent's type, and rules no hand out."""
    state = make_state("R1 R2 B9", "Y1 Y2", "R7", rules=OFFICIAL)
    contested = make_state("W+4 B9", "Y1 Y2", "R7", rules=OFFICIAL)
    cases = [(state, "draw", 3), (after(contested, "W+4:B"), "challenge", 2)]
    for name in ("greedy", "linear", "linear+0.5", "guard+0.9"):
        model = policy_opponent(name)
        for position, action, num_legal in cases:
            seen, legal = in_the_view_of(position)
            probs = np.asarray(model(seen, legal))
            np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-5)
            np.testing.assert_allclose(probs[parse_action(action)], SLIP / num_legal, rtol=1e-5)
            np.testing.assert_allclose(PolicyOpponent(model.policy)(seen, legal)[parse_action(action)], 0.0)
    # A player without a playable card draws with certainty under every policy.
    seen, legal = in_the_view_of(make_state("B1 B2", "Y1 Y2", "R7", rules=OFFICIAL))
    np.testing.assert_allclose(policy_opponent("linear+0.5")(seen, legal)[cards.DRAW], 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", ["greedy", "linear+0.5"])
def test_packed_hands_draw_and_challenge_as_the_protocol_says(name: str) -> None:
    model = policy_opponent(name)
    for state in (
        make_state("R1 R2 B9", "Y1 Y2", "R7", rules=OFFICIAL),
        after(make_state("W+4 B9", "R1 R2 B9", "R7", rules=OFFICIAL), "W+4:B"),
    ):
        seen, legal = in_the_view_of(state)
        options, expected = actions_to_options(legal, OFFICIAL), np.asarray(model(seen, legal))
        for action in np.flatnonzero(legal):
            played = pick_of(jnp.uint32(action), OFFICIAL)
            np.testing.assert_allclose(model.likelihood(view_of(seen), options, played), expected[action], rtol=1e-5)


def test_greedy_play_is_uniform_where_play_is_forced() -> None:
    before, action = recorded_plays()[0]
    hands = bits.pack(random_hands(seed=4, num=200))
    record = public.observed_choice(public.empty(max_slots=4, max_records=1), before, action)
    first, second = (
        likelihood.choice_prob(hands, hands, record, policy_opponent(name), before) for name in ("greedy", "uniform")
    )
    np.testing.assert_array_equal(first, second)


def test_a_name_can_be_read_again() -> None:
    for tremble in (0.5, 0.25, 1e-5, 1.0, 0.0):
        model = PolicyOpponent(POLICIES["scarcest-color"], tremble)
        assert parse_opponent(opponent_name(model)) == model


@pytest.mark.parametrize("tremble", [-0.1, 1.5, float("nan")])
def test_tremble_is_a_probability(tremble: float) -> None:
    with pytest.raises(ValueError, match="tremble must be a probability"):
        PolicyOpponent(POLICIES["uniform"], tremble)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("uniform", uniform_opponent),
        ("consistent", consistent_opponent),
        ("greedy", PolicyOpponent(POLICIES["greedy"], 0.05)),
        ("guard", PolicyOpponent(POLICIES["guard"], 0.05)),
        ("linear+0.5", PolicyOpponent(POLICIES["linear"], 0.5)),
        ("guard+0", PolicyOpponent(POLICIES["guard"])),
    ],
)
def test_models_by_name(text: str, model) -> None:
    assert parse_opponent(text) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clever", "no policy is called 'clever'"),
        ("uniform+0.1", "uniform has no tremble"),
        ("guard+", r"must be a probability in \[0, 1\], got ''"),
        ("guard+often", r"must be a probability in \[0, 1\], got 'often'"),
        ("guard+1.5", r"must be a probability in \[0, 1\], got 1.5"),
    ],
)
def test_names_of_no_model(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_opponent(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": ()}, "a family needs models, and a name and a weight for each of them, got 0 models"),
        ({"models": (uniform_opponent,), "weights": (1.0, 2.0)}, "got 1 models, 1 names and 2 weights"),
        ({"models": (uniform_opponent, uniform_opponent)}, "two types of a family are called 'uniform'"),
        ({"models": (uniform_opponent,), "weights": (0.0,)}, "weights of types must be positive numbers, got 0.0"),
        ({"models": (consistent_opponent,)}, "consistent gives no probabilities of actions"),
        ({"models": (Family((uniform_opponent,)),), "names": ("all",)}, "a family can't be a type of another one"),
    ],
)
def test_what_makes_no_family(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Family(**arguments)


def test_families_by_name() -> None:
    family = parse_opponent("uniform|linear*2|guard+0.2")
    assert isinstance(family, Family)
    assert family.names == ("uniform", "linear", "guard+0.2")
    assert family.models[1:] == (PolicyOpponent(POLICIES["linear"], 0.05), PolicyOpponent(POLICIES["guard"], 0.2))
    np.testing.assert_allclose(np.exp(family.log_prior), [0.25, 0.5, 0.25])
    named = parse_opponent("family")
    assert isinstance(named, Family)
    assert "|".join(named.names) == FAMILY
    weighed = parse_opponent("minimax")
    assert isinstance(weighed, Family)
    assert (weighed.names, weighed.models) == (named.names, named.models)
    np.testing.assert_allclose(np.exp(weighed.log_prior), np.array([1, 1, 1, 1, 6, 2]) / 12)
    peer = parse_opponent("peer")
    assert isinstance(peer, Family)
    assert (peer.names, peer.models) == (named.names, named.models)
    np.testing.assert_allclose(np.exp(peer.log_prior), np.array([1, 1, 1, 1, 40, 2]) / 46)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("uniform|clever", "no policy is called 'clever'"),
        ("uniform|uniform", "two types of a family are called 'uniform'"),
        ("uniform|linear*often", "the weight of linear must be a positive number, got 'often'"),
        ("uniform|linear*0", "weights of types must be positive numbers, got 0"),
        ("uniform|consistent", "consistent gives no probabilities"),
    ],
)
def test_names_of_no_family(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_opponent(text)
