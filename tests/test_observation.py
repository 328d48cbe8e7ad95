"""A player sees the own hand and public facts, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from tests import corpus
from tests.helpers import assert_trees_equal, counts_of, deck_of, refusals
from unojax import cards
from unojax.belief import belief_init, infer_action
from unojax.belief.exact import exact_init
from unojax.game import State
from unojax.observation import Observation, determinize, observe
from unojax.rules import Rules
from unojax.text import make_state, parse_cards
from unojax.view import view_of

PROGRAMS = 60  # Views of two rule sets, determinizations, and beliefs outside `jit`.

look = jax.jit(observe)
observe_both = jax.jit(jax.vmap(lambda state: tuple(observe(state, player) for player in (0, 1))))
PLACES = corpus.moments("default")[::11]


def states() -> State:
    """Return moments of random games, finished ones too, State[N]."""
    return corpus.at(corpus.games("default").states, PLACES)


def test_crafted_position_as_each_player_sees_it():
    """Contract: fields of Observation."""
    state = jax.device_get(make_state("R5 W", "G1 G2 B+2", "R+2", pile="Y9 Y9", player=1, penalty=2))
    for player, own, opponent_count in ((0, "R5 W", 3), (1, "G1 G2 B+2", 2)):
        seen = observe(state, player)
        assert_trees_equal(look(state, np.int32(player)), seen)
        np.testing.assert_array_equal(seen.hand, parse_cards(own))
        np.testing.assert_array_equal(seen.pile, parse_cards("Y9 Y9 R+2"))
        assert (seen.player, seen.opponent_count, seen.hand_count) == (player, opponent_count, 5 - opponent_count)
        assert (seen.deck_count, seen.top_rank, seen.color, seen.penalty) == (100, 12, 0, 2)
        assert (seen.current_player, seen.is_my_turn) == (1, player == 1)
        assert (seen.last_action, seen.terminated, seen.top_type) == (-1, False, cards.TYPE_NAMES.index("R+2"))
        others = cards.COPIES.copy()
        for name in f"{own} Y9 Y9 R+2".split():
            others[cards.TYPE_NAMES.index(name)] -= 1
        np.testing.assert_array_equal(seen.unseen, others)
    assert np.flatnonzero(seen.legal_mask).tolist() == [cards.DRAW]
    small = Rules(deck=deck_of("R1 R1 R2 R3 W"), hand_size=1)
    unseen = np.asarray(look(make_state("R1", "R2", "R3", rules=small), np.int32(0)).unseen)
    assert {cards.TYPE_NAMES[t]: int(n) for t, n in enumerate(unseen) if n} == {"R1": 1, "R2": 1, "W": 1}


@pytest.mark.parametrize("name", ["default", pytest.param("few cards", marks=pytest.mark.slow)])
def test_observations_of_random_states(name: str):
    """Every field, for both players; the player to move sees the legal actions."""
    real, masks = (corpus.at(rows, corpus.moments(name)) for rows in (corpus.games(name).states, corpus.games(name).masks))

    @jax.jit
    @jax.vmap
    def computed(seen: Observation) -> dict[str, jax.Array]:
        return {name: getattr(seen, name) for name in ("unseen", "hand_count", "is_my_turn", "legal_mask")}

    for player in (0, 1):
        seen = corpus.at(corpus.views(name, player), corpus.moments(name))
        found = jax.device_get(computed(seen))
        same = ("pile", "top_rank", "color", "penalty", "current_player", "last_action", "terminated", "contested")
        for field in same:
            assert getattr(seen, field).dtype == getattr(real, field).dtype
            np.testing.assert_array_equal(getattr(seen, field), getattr(real, field))
        np.testing.assert_array_equal(seen.hand, real.hands[:, player])
        np.testing.assert_array_equal(found["hand_count"], real.hands[:, player].sum(-1))
        np.testing.assert_array_equal(seen.opponent_count, real.hands[:, 1 - player].sum(-1))
        np.testing.assert_array_equal(seen.deck_count, real.deck.sum(-1))
        np.testing.assert_array_equal(found["unseen"], counts_of(real.hands[:, 1 - player]) + counts_of(real.deck))
        np.testing.assert_array_equal(found["is_my_turn"], real.current_player == player)
        assert (seen.player == player).all()
        of_int8 = (seen.player, seen.opponent_count, seen.deck_count, found["unseen"], found["hand_count"])
        assert {x.dtype for x in of_int8} == {np.dtype(np.int8)}
        mine = ~(real.terminated | real.truncated) & (real.current_player == player)
        assert mine.sum() > 100
        np.testing.assert_array_equal(found["legal_mask"][mine], masks[mine])


@pytest.mark.parametrize("player", [0, 1])
def test_states_that_differ_in_hidden_cards_give_equal_observations(player: int):
    """Dealing the hidden hand and the deck again changes no leaf.

    Contract: observe.
    """
    rng = np.random.default_rng(player)
    real = states()
    unseen = counts_of(real.hands[:, 1 - player]) + counts_of(real.deck)
    sizes = real.hands[:, 1 - player].sum(-1)
    dealt = np.stack([rng.multivariate_hypergeometric(u, k) for u, k in zip(unseen, sizes, strict=True)])
    hands = real.hands.copy()
    hands[:, 1 - player] = cards.onehot_of(dealt)
    other = replace(real, hands=hands, deck=cards.onehot_of(unseen - dealt))
    assert (other.hands != real.hands).any((1, 2))[sizes > 0].mean() > 0.9
    shown, again = jax.device_get((observe_both(other), observe_both(real)))
    assert_trees_equal(shown[player], again[player])
    # The other player does see the difference, so the comparison can fail.
    with pytest.raises(AssertionError):
        assert_trees_equal(shown[1 - player], again[1 - player])
    # No leaf is large enough to hold another hand: the own hand and the pile, then scalars.
    assert sorted(x.shape[1:] for x in jax.tree.leaves(shown[player])) == [()] * 12 + [(108,)] * 2


def test_players_other_than_0_and_1_are_refused_or_see_no_hand():
    """A constant raises, and a traced number sees no hand."""
    state = make_state("R5", "G1", "R7")
    refusals({f"player ({player!r})": partial(observe, state, player) for player in (-1, 2, np.int64(2), 0.5, 1.0, True)})
    for player in (-1, 2, 100):
        assert not np.asarray(look(state, np.int32(player)).hand).any()


@pytest.mark.parametrize("player", [0, 1])
def test_a_determinization_with_the_true_hand_is_the_state(player: int):
    """Except for the record of the episode; the observer sees the same."""

    @jax.jit
    @jax.vmap
    def again(state: State) -> tuple[State, Observation, Observation]:
        seen = observe(state, player)
        made = determinize(state.hands[1 - player], seen)
        return made, observe(made, player), seen

    made, shown, seen = jax.device_get(again(states()))
    assert_trees_equal(shown, seen)
    episode = ("rewards", "truncated", "step_count", "error", "winner")
    assert_trees_equal(made, replace(states(), **{name: getattr(made, name) for name in episode}))


def test_a_drawn_hand_is_uniform_over_unseen_cards():
    """Hypergeometric shares of 4,000 hands within 0.02, an error probability below 1e-4.

    The standard error of a mean is at most 0.004. Three of four wild cards are unseen.
    """
    seen = look(make_state("R1 R2 W", "B1 B2 G5 Y9", "R7", pile="R5"), 0)

    @jax.jit
    def draw(keys: jax.Array) -> tuple[State, Observation]:
        made = jax.vmap(determinize, (0, None))(keys, seen)
        return made, jax.vmap(observe, (0, None))(made, 0)

    made, shown = jax.device_get(draw(jax.random.split(jax.random.key(0), 4000)))
    assert_trees_equal(shown, jax.tree.map(lambda x: np.broadcast_to(x, (4000, *np.shape(x))), jax.device_get(seen)))
    unseen, held = np.asarray(seen.unseen), cards.count_types(made.hands[:, 1])
    assert (held.sum(-1) == 4).all() and (held + cards.count_types(made.deck) == unseen).all()
    np.testing.assert_allclose(held.mean(0), unseen * 4 / unseen.sum(), atol=0.02)
    np.testing.assert_array_equal(made.hands[:, 1], cards.onehot_of(held))


def test_hands_and_counts_that_cannot_be_are_refused():
    """Unseen cards that the opponent does not hold must be in the deck."""
    state = make_state("R1 R2 W", "B1 B2", "R7")
    seen = look(state, 0)
    refusals(
        {
            "2 cards, got a hand of 1": lambda: determinize(parse_cards("B1"), seen),
            "1 x R7": lambda: determinize(parse_cards("R7 R7"), seen),
            "hand bool[108], got shape (2, 108)": lambda: determinize(np.zeros((2, 108), bool), seen),
            "determinize takes a random key": lambda: determinize(0.5, seen),
            "determinize takes an Observation, got State": lambda: determinize(jax.random.key(0), state),
            "view_of takes an Observation, got State; unojax.observe gives one": lambda: view_of(state),
            "infer_action takes an Observation, got State": lambda: infer_action(seen, state),
        }
    )
    few = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 B1"), hand_size=2)
    seen = jax.device_get(look(make_state("R1 R2", "Y1 Y2", "R1", rules=few), 0))
    for name, begin in {"belief_init": lambda seen: belief_init(seen, jax.random.key(0)), "exact_init": exact_init}.items():
        begin(seen)
        refusals(
            {
                f"{name}: deck_count": partial(begin, replace(seen, deck_count=np.int8(2))),
                f"{name}: hand and pile hold 3 x R1": partial(begin, replace(seen, hand=parse_cards("R1 R1"))),
                f"{name}: the opponent can hold 3": partial(begin, replace(seen, opponent_count=np.int8(4))),
            }
        )
    # Under jit nothing raises.
    jax.eval_shape(lambda seen: belief_init(seen, jax.random.key(0)), replace(seen, deck_count=np.int8(2)))
