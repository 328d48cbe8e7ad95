"""Opponent models: likelihoods of packed hands, trembling, and models by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.games import games_of
from tests.belief.oracle import FORFEITING
from tests.helpers import after, refusals, slow_but
from unojax import bits, cards
from unojax.belief.opponents import (
    FAMILY,
    SLIP,
    Family,
    PolicyOpponent,
    consistent_opponent,
    models_of,
    opponent_name,
    parse_opponent,
    uniform_opponent,
)
from unojax.belief.particles import likelihood, public
from unojax.bits import Words
from unojax.game import State
from unojax.observation import Observation, observe
from unojax.policies import POLICIES, LinearPolicy, PackedPolicy
from unojax.rules import Rules
from unojax.text import format_action, make_state, parse_action
from unojax.view import View

PROGRAMS: Final = 100  # in the slow part, several for each policy


@dataclass(frozen=True)
class Doubtful(PackedPolicy):
    """Challenges if blue was active before a Wild+4, and does not choose otherwise."""

    name: str = "doubtful"
    summary: str = "challenges where blue was active"

    def narrow(self, view: View, legal: Words) -> Words:
        was_blue = view.unpack_account().contested == cards.COLOR_NAMES.index("blue") + 1
        w0, *others = legal
        kept = np.where if isinstance(w0, np.ndarray) else jnp.where
        w0 = kept(was_blue & (w0 & bits.CHALLENGE_OPTION != 0), w0 & bits.CHALLENGE_OPTION, w0)
        return w0, *others


MODELS: dict[str, Any] = {
    "uniform": uniform_opponent,
    "consistent": consistent_opponent,
    "guard": PolicyOpponent(POLICIES["guard"]),
    **{f"{name}, trembling": PolicyOpponent(policy, tremble=0.25) for name, policy in POLICIES.items()},
}
# Those by preferences are all of `prefer`; those by points of one product.
QUICK = ["consistent", "scarcest-color, trembling", "linear, trembling"]
OFFICIAL = Rules.official()


def random_hands(seed: int, num: int) -> np.ndarray:
    """Return canonical hands of 1..12 cards of the full deck, bool[num, 108]."""
    rng = np.random.default_rng(seed)
    slots = rng.random((num, 108)).argsort(-1) < rng.integers(1, 13, (num, 1))
    return np.asarray(bits.unpack(bits.canonical(bits.pack(slots))))


def recorded_plays() -> list[tuple[Observation, np.ndarray]]:
    """Return observations before plays of the opponent, and the actions."""
    games = games_of(FORFEITING)
    plays = (games.actions >= 0) & (games.actions < cards.DRAW) & (games.states.current_player[:, :-1] == 1)
    return [(games.view(0, number, t), games.actions[number, t]) for number, t in np.argwhere(plays)[::41][:6].tolist()]


@pytest.mark.parametrize("name", slow_but(QUICK, MODELS))
def test_packed_hands_are_weighed_as_by_the_protocol(name: str) -> None:
    """Hands of the full deck at recorded positions, before an observer's win and elsewhere.

    Contract: a model is uniform over legal actions (default), consistency only, or any policy given as action probabilities.
    """
    model, hands = MODELS[name], random_hands(seed=1, num=400)
    packed = bits.pack(hands)

    @jax.jit
    def compare(record: public.Record, seen: Observation) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        def plain(observation: Observation, legal_mask: jax.Array) -> jax.Array:
            return model(observation, legal_mask)

        def probs_of(hand: jax.Array) -> tuple[jax.Array, jax.Array]:
            view = dataclasses.replace(seen, hand=hand, player=1 - seen.player, penalty=jnp.int8(0))
            legal = view.legal_mask
            return model(view, legal), legal

        fast, slow = (likelihood.choice_prob(packed, None, record, one, seen) for one in (model, plain))
        return fast, slow, *jax.vmap(probs_of)(hands)

    possible, book = 0, public.empty(max_slots=4, max_records=1)
    for seen, action in recorded_plays():
        for observer_count in (2, 9):
            record = jax.device_get(public.observed_choice(book, seen, action))._replace(observer_count=np.int32(observer_count))
            fast, slow, probs, legal = jax.device_get(compare(record, seen))
            # Two plays whose points are equal except for rounding: which is the best may differ between two programs. It happens
            # to one hand in a thousand of a policy that adds points up, and never to another.
            is_same = np.isclose(fast, slow, rtol=1e-5, atol=1e-6)
            num_ties = 3 if isinstance(getattr(model, "policy", None), LinearPolicy) else 0
            assert (~is_same).sum() <= num_ties, (fast[~is_same], slow[~is_same])
            possible += int((fast > 0).sum())
            if model is consistent_opponent:
                played = cards.TYPE_NAMES.index(format_action(action).partition(":")[0])
                np.testing.assert_array_equal(fast, cards.count_types(hands)[:, played] > 0)
    assert possible > 200
    if model is consistent_opponent:
        return
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    assert (probs[~legal] == 0).all()
    if model.tremble > 0 and name != "greedy, trembling":
        assert (np.where(legal, probs - model.tremble / legal.sum(-1, keepdims=True), 0.0) > -1e-6).all()


def test_uniform_opponent_by_hand() -> None:
    """A play, each colour of a wild card and an optional draw have equal probabilities."""
    state = make_state("R1 W B9", "Y1 Y2", "R7", rules=OFFICIAL)
    for action in ("R1", "W:R", "W:Y", "W:B", "W:G", "draw"):
        assert_prob(state, action, uniform_opponent, 1 / 6)


def test_trembling_by_hand() -> None:
    """Optional draws and challenges are as rare as under any other policy, hence no evidence.

    A player without a playable card draws with certainty.
    """
    free, stuck = make_state("R1 R2 B9", "Y1 Y2", "R7", rules=OFFICIAL), make_state("B1 B2", "Y1 Y2", "R7", rules=OFFICIAL)
    contested = after(make_state("W+4 B9", "Y1 Y2", "R7", rules=OFFICIAL), "W+4:B")
    by_color = [
        make_state("R2 B7", "Y1 G5 R1", "W+4", color="green", penalty=4, contested=color, player=1, rules=OFFICIAL)
        for color in "BR"
    ]
    greedy, trembling = (parse_opponent(name) for name in ("greedy", "linear+0.5"))
    doubtful, plain = PolicyOpponent(Doubtful(), 0.2), PolicyOpponent(POLICIES["wilds-first"], 0.2)
    wild_first = make_state("R4 W", "Y1", "R7", rules=Rules())
    challenge = (1 - SLIP) * 0.8 + SLIP * 0.5
    for state, action, model, prob in (
        *((free, "draw", model, SLIP / 3) for model in (greedy, trembling)),
        *((contested, "challenge", model, SLIP / 2) for model in (greedy, trembling)),
        (free, "draw", PolicyOpponent(POLICIES["linear"]), 0.0),
        (stuck, "draw", trembling, 1.0),
        (by_color[0], "challenge", doubtful, challenge),
        (by_color[1], "challenge", doubtful, (1 - SLIP) * 0.8 * 0.5 + SLIP * 0.5),
        (wild_first, "R4", plain, 0.2 / 5),
    ):
        assert_prob(state, action, model, prob)


@partial(jax.jit, static_argnames="model")
def weigh(state: State, action: jax.Array, *, model: Any) -> tuple[jax.Array, jax.Array]:
    """Return the probabilities of all actions by the protocol, and of one by the packed form."""
    seen, other = observe(state, state.current_player), observe(state, 1 - state.current_player)
    hands = bits.pack(state.hands[state.current_player][None])
    record = public.observed_choice(public.empty(max_slots=4, max_records=1), other, action)
    return model(seen, seen.legal_mask), likelihood.choice_prob(hands, None, record, model, other)


def assert_prob(state: State, action: str, model: Any, prob: float) -> None:
    """Check the probability of an action in both forms."""
    number = np.int32(parse_action(action))
    probs, packed = jax.device_get(weigh(state, number, model=model))
    np.testing.assert_allclose([probs.sum(), probs[number], packed[0]], [1.0, prob, prob], rtol=1e-5, err_msg=action)


def test_models_by_name() -> None:
    for text, model in (
        ("uniform", uniform_opponent),
        ("consistent", consistent_opponent),
        ("greedy", PolicyOpponent(POLICIES["greedy"], 0.05)),
        ("guard", PolicyOpponent(POLICIES["guard"], 0.05)),
        ("linear+0.5", PolicyOpponent(POLICIES["linear"], 0.5)),
        ("guard+0", PolicyOpponent(POLICIES["guard"])),
    ):
        assert parse_opponent(text) == model
    for tremble in (0.5, 0.25, 1e-5, 1.0, 0.0):
        model = PolicyOpponent(POLICIES["scarcest-color"], tremble)
        assert parse_opponent(opponent_name(model)) == model
    family = parse_opponent("uniform|linear*2|guard+0.2")
    assert isinstance(family, Family) and family.names == ("uniform", "linear", "guard+0.2")
    assert family.models[1:] == (PolicyOpponent(POLICIES["linear"], 0.05), PolicyOpponent(POLICIES["guard"], 0.2))
    np.testing.assert_allclose(np.exp(family.log_prior), [0.25, 0.5, 0.25])
    # The priors of families by name.
    names = tuple(FAMILY.split("|"))
    for text, weights in (("family", [1] * 6), ("minimax", [1, 1, 1, 1, 6, 2]), ("peer", [1, 1, 1, 1, 40, 2])):
        family = parse_opponent(text)
        assert isinstance(family, Family) and family.names == names
        np.testing.assert_allclose(np.exp(family.log_prior), np.array(weights) / sum(weights), rtol=1e-6)


def test_refusals() -> None:
    one = uniform_opponent
    families: dict[str, dict[str, Any]] = {
        "models": {"models": ()},
        "2 weights": {"models": (one,), "weights": (1.0, 2.0)},
        "called 'uniform'": {"models": (one, one)},
        "weights": {"models": (one,), "weights": (0.0,)},
        "consistent": {"models": (consistent_opponent,)},
        "family": {"models": (Family((one,)),), "names": ("all",)},
    }
    names = {
        "'clever'": ["clever", "uniform|clever"],
        "tremble": ["uniform+0.1"],
        "probability": ["guard+", "guard+often", "guard+1.5"],
        "called 'uniform'": ["uniform|uniform"],
        "weight": ["uniform|linear*often", "uniform|linear*0"],
        "consistent": ["uniform|consistent"],
    }
    refusals(
        {f"{key} (family)": lambda arguments=arguments: Family(**arguments) for key, arguments in families.items()}
        | {f"{key} ({text})": lambda text=text: parse_opponent(text) for key, texts in names.items() for text in texts}
        | {f"tremble ({t})": lambda t=t: PolicyOpponent(POLICIES["uniform"], t) for t in (-0.1, 1.5, float("nan"))}
    )
    # A policy takes a key too.
    others: list[Any] = ["linear", None, POLICIES["linear"], lambda observation: observation]
    refusals({f"PolicyOpponent follows a policy ({other})": lambda other=other: models_of(other) for other in others})
