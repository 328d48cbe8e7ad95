"""Encoded observations: every field can be decoded, nothing hidden is encoded, and the docstring's table is right."""

from __future__ import annotations

import re
from functools import cache

import jax
import numpy as np

from tests import corpus
from tests.helpers import counts_of, refusals
from unojax import cards
from unojax.adapters import encoding
from unojax.adapters.encoding import Encoder
from unojax.observation import observe
from unojax.rules import Rules

ENCODERS = [
    Encoder(belief, dtype=dtype, rules=corpus.RULES[name])
    for belief, dtype, name in [
        ("none", "float32", "default"),
        ("unseen", "float32", "default"),
        ("none", "int8", "few cards"),
        ("unseen", "float32", "few cards"),
    ]
]
GAMES, STEPS = slice(60), slice(81)


def states_of(rules: Rules):
    """Return states of the corpus, [60, 81]."""
    name = next(name for name, other in corpus.RULES.items() if other == rules)
    return jax.tree.map(lambda leaf: leaf[GAMES, STEPS], corpus.games(name).states)


@cache
def program(encoder: Encoder):
    return jax.jit(jax.vmap(jax.vmap(lambda state, player: encoder.encode((), observe(state, player)), (0, None)), (0, None)))


def encode(encoder: Encoder, states, player: int) -> np.ndarray:
    """Return a player's encodings of states [G, T], NumPy."""
    return np.asarray(program(encoder)(states, np.int8(player)))


def test_every_field_can_be_read_back():
    for encoder in ENCODERS:
        states = states_of(encoder.rules)
        encoded = encode(encoder, states, 1)
        assert encoded.dtype == encoder.dtype and encoded.shape[-1] == encoder.size
        assert (encoded >= 0).all() and (encoded <= encoder.high).all()
        read = {s.name: encoded[..., encoder.columns(s.name)] for s in encoder.sections}
        one_hot = {
            name: np.where(read[name].any(-1), read[name].argmax(-1), -1) for name in read.keys() - {"hand", "pile", "belief"}
        }
        scales = {"penalty": 4, "hand_count": 10, "opponent_count": 10, "deck_count": 100}
        scale = {name: by if encoder.dtype == "float32" else 1 for name, by in scales.items()}
        numbers = {name: np.rint(read[name][..., 0].astype(float) * by).astype(int) for name, by in scale.items()}
        last = one_hot["last_action"]
        expected = {
            "hand": (read["hand"] != 0, states.hands[..., 1, :]),
            "pile": (read["pile"] != 0, states.pile),
            "color": (one_hot["color"], states.color),
            "top_rank": (one_hot["top_rank"], states.top_rank),
            "own_turn": (one_hot["own_turn"] == 0, states.current_player == 1),
            "terminated": (one_hot["terminated"] == 0, states.terminated),
            "penalty": (numbers["penalty"], states.penalty),
            "hand_count": (numbers["hand_count"], states.hands[..., 1, :].sum(-1)),
            "opponent_count": (numbers["opponent_count"], states.hands[..., 0, :].sum(-1)),
            "deck_count": (numbers["deck_count"], states.deck.sum(-1)),
        }
        if encoder.rules.keeps_account:
            last = np.where(one_hot["challenged"] == 0, cards.CHALLENGE, last)
            is_mine = states.current_player == 1
            expected |= {
                "drawn": (one_hot["drawn"], np.where(is_mine, states.drawn, -1)),
                "has_drawn": (one_hot["has_drawn"] == 0, states.drawn >= 0),
                "contested": (one_hot["contested"], states.contested),
            }
            corners = [states.drawn[is_mine] >= 0, states.drawn[~is_mine] >= 0, states.contested >= 0, states.penalty > 4]
            assert all(corner.any() for corner in [*corners, last == cards.CHALLENGE])
        for name, (found, field) in (expected | {"last_action": (last, states.last_action)}).items():
            np.testing.assert_array_equal(found, field, f"{name} of {encoder}")


def test_unseen_cards_are_hypergeometric():
    """The expected copies of an unseen card are |H| / |U|; impossible slots have probability 0."""
    encoder, states = ENCODERS[1], states_of(Rules())
    probs = encode(encoder, states, 0)[..., encoder.columns("belief")]
    expected = probs @ np.eye(cards.NUM_TYPES)[cards.TYPE_OF_SLOT]
    unseen = counts_of(states.deck) + counts_of(states.hands[..., 1, :])
    held = states.hands[..., 1, :].sum(-1)
    np.testing.assert_allclose(expected, unseen * (held / unseen.sum(-1))[..., None], atol=2e-4)
    assert (probs[cards.COPY_OF_SLOT >= unseen[..., cards.TYPE_OF_SLOT]] < 1e-4).all()


def test_the_hidden_hand_does_not_show():
    """Contract: what that player may know, and nothing else."""
    for encoder in (ENCODERS[1], ENCODERS[3]):
        states = states_of(encoder.rules)
        theirs = (states.drawn >= 0) & (states.current_player == 1)
        swapped = states.replace(
            hands=states.hands.copy(), deck=np.sort(states.deck), drawn=np.where(theirs, np.int8(3), states.drawn)
        )
        swapped.hands[..., 1, :] = np.sort(states.hands[..., 1, :])
        np.testing.assert_array_equal(encode(encoder, states, 0), encode(encoder, swapped, 0))


def test_the_table_in_the_docstring():
    rows = re.findall(r"^\| (\d+)(?: \.\. (\d+))? \|", encoding.__doc__ or "", re.MULTILINE)
    documented = [(int(first), int(last or first) + 1) for first, last in rows]
    encoder, plain = Encoder("unseen", rules="official"), Encoder("unseen")
    *columns, belief = [encoder.columns(section.name) for section in encoder.sections]
    assert documented == [(place.start, place.stop) for place in columns] and encoder.rules == Rules.official()
    assert belief == slice(encoder.size - cards.NUM_CARDS, encoder.size)
    assert plain.size == encoder.size - 60 and plain.columns("belief") == slice(302, 410)
    for section in encoding.SECTIONS:
        assert plain.columns(section.name) == encoder.columns(section.name)


def test_refusals():
    refusals(
        {
            "belief": lambda: Encoder("truth"),
            "dtype": lambda: Encoder(dtype="float64"),
            "dtype (of probabilities)": lambda: Encoder("unseen", dtype="int8"),
            "particles": lambda: Encoder("particles", 0),
            "rules": lambda: Encoder(rules="ofical"),
            "section": lambda: Encoder().columns("belief"),
        }
    )
