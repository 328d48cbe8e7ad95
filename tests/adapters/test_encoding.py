"""The array that shows an observation: nothing lost, nothing added, and the table that says which column is what."""

from __future__ import annotations

import re
from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers import counts_of, play, slow_but
from unojax import cards
from unojax.adapters import encoding
from unojax.adapters.encoding import Encoder
from unojax.observation import observe
from unojax.rules import Rules

PLAIN, ELABORATE = Rules(), Rules.official(stacking=True, hand_size=3, start_card="any")
ENCODERS = [Encoder(rules=PLAIN), Encoder(dtype="int8", rules=PLAIN), Encoder("unseen", rules=PLAIN)]
ENCODERS += [Encoder("unseen", rules=ELABORATE), Encoder(dtype="int8", rules=ELABORATE)]


def seen(player: int, rules: Rules = PLAIN):
    """Observations of random games, [G, T + 1]."""
    # Of plain games as many as other files play.
    sizes = {"num_steps": 320} if rules == PLAIN else {"num_games": 60, "num_steps": 40}
    states = jax.tree.map(lambda leaf: leaf[:60, :41], play(3, rules=rules, **sizes).states)
    return jax.vmap(jax.vmap(lambda state: observe(state, player)))(states), states


@pytest.mark.parametrize(
    "encoder",
    slow_but(ENCODERS[:3] + ENCODERS[4:], ENCODERS),
    ids=lambda e: f"{e.belief}-{e.dtype}-{'elaborate' if e.rules == ELABORATE else 'plain'}",
)
def test_every_field_can_be_read_back(encoder: Encoder):
    observations, states = seen(1, encoder.rules)
    encoded = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda o: encoder.encode((), o))))(observations))
    assert encoded.dtype == encoder.dtype and encoded.shape[-1] == encoder.size
    assert (encoded >= 0).all() and (encoded <= encoder.high).all()

    def at(name: str) -> np.ndarray:
        return encoded[..., encoder.columns(name)]

    def number(name: str, scale: float) -> np.ndarray:
        return np.rint(at(name)[..., 0].astype(float) * (scale if encoder.dtype == "float32" else 1)).astype(int)

    np.testing.assert_array_equal(at("hand") != 0, observations.hand)
    np.testing.assert_array_equal(at("pile") != 0, observations.pile)
    np.testing.assert_array_equal(at("color").argmax(-1), observations.color)
    np.testing.assert_array_equal(at("top_rank").argmax(-1), observations.top_rank)
    np.testing.assert_array_equal(at("own_turn")[..., 0] != 0, states.current_player == 1)
    np.testing.assert_array_equal(at("terminated")[..., 0] != 0, states.terminated)
    np.testing.assert_array_equal(number("penalty", 4), states.penalty)
    np.testing.assert_array_equal(number("hand_count", 10), states.hands[..., 1, :].sum(-1))
    np.testing.assert_array_equal(number("opponent_count", 10), states.hands[..., 0, :].sum(-1))
    np.testing.assert_array_equal(number("deck_count", 100), states.deck.sum(-1))
    last = np.where(at("last_action").any(-1), at("last_action").argmax(-1), -1)
    if encoder.rules == ELABORATE:
        last = np.where(at("challenged")[..., 0] != 0, cards.CHALLENGE, last)
        drawn = np.where(at("drawn").any(-1), at("drawn").argmax(-1), -1)
        np.testing.assert_array_equal(drawn, np.where(states.current_player == 1, states.drawn, -1))
        np.testing.assert_array_equal(at("has_drawn")[..., 0] != 0, states.drawn >= 0)
        contested = np.where(at("contested").any(-1), at("contested").argmax(-1), -1)
        np.testing.assert_array_equal(contested, states.contested)
        shown = (drawn >= 0, states.drawn > drawn, contested >= 0, states.penalty > 4, last == cards.CHALLENGE)
        assert all(corner.any() for corner in shown)
    np.testing.assert_array_equal(last, states.last_action)


def test_unseen_cards_are_hypergeometric():
    """Expected copies are |H| / |U| of each unseen card, and what can't be held has probability 0."""
    observations, states = seen(0)
    encoder = Encoder("unseen", rules=PLAIN)
    encoded = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda o: encoder.encode((), o))))(observations))
    probs = encoded[..., encoder.columns("belief")]
    expected = probs @ np.eye(cards.NUM_TYPES)[cards.TYPE_OF_SLOT]
    unseen = counts_of(states.deck) + counts_of(states.hands[..., 1, :])
    held = np.asarray(states.hands[..., 1, :]).sum(-1)
    np.testing.assert_allclose(expected, unseen * (held / unseen.sum(-1))[..., None], atol=2e-4)
    assert (probs[cards.COPY_OF_SLOT >= unseen[..., cards.TYPE_OF_SLOT]] < 1e-4).all()


def test_the_hidden_hand_does_not_show():
    """Other cards in the opponent's hand and in the deck, another card drawn by it, and the same array."""
    for encoder in ENCODERS:
        observations, states = seen(0, encoder.rules)
        theirs = (states.drawn >= 0) & (states.current_player == 1)
        swapped = states.replace(hands=states.hands.copy(), deck=states.deck.copy(), drawn=np.where(theirs, 3, states.drawn))
        swapped.hands[..., 1, :], swapped.deck[...] = np.sort(states.hands[..., 1, :]), np.sort(states.deck)
        other = jax.vmap(jax.vmap(lambda state: observe(state, 0)))(swapped)
        encode = jax.jit(jax.vmap(jax.vmap(partial(encoder.encode, ()))))
        np.testing.assert_array_equal(encode(observations), encode(other))


def test_the_table_in_the_docstring():
    rows = re.findall(r"^\| (\d+)(?: \.\. (\d+))? \|", encoding.__doc__ or "", re.MULTILINE)
    documented = [(int(first), int(last or first) + 1) for first, last in rows]
    encoder = Encoder("unseen", rules=ELABORATE)
    *columns, belief = [encoder.columns(section.name) for section in encoder.sections]
    assert documented == [(place.start, place.stop) for place in columns]
    assert belief == slice(encoder.size - cards.NUM_CARDS, encoder.size)
    assert Encoder("unseen", rules="official") == Encoder("unseen", rules=Rules.official())
    plain = Encoder("unseen")
    assert plain.size == encoder.size - 60 and plain.columns("belief") == slice(302, 410)
    for section in encoding.SECTIONS:
        assert plain.columns(section.name) == encoder.columns(section.name)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Encoder("truth"), "belief must be one of none, unseen, particles, got 'truth'"),
        (lambda: Encoder(dtype="float64"), "dtype must be one of float32, int8, got 'float64'"),
        (lambda: Encoder("unseen", dtype="int8"), "dtype must be float32 with belief='unseen'"),
        (lambda: Encoder("particles", 0), "particles must be an integer of at least 1, got 0"),
        (lambda: Encoder(rules="ofical"), "rules must be a unojax.Rules or one of default, official"),
        (lambda: Encoder().columns("belief"), "section must be one of hand, pile, color"),
    ],
)
def test_errors(make, says: str):
    with pytest.raises(ValueError, match=says):
        make()
