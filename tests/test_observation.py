"""A player sees the own hand and what is public, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, counts_of, deck_of, play
from unojax import cards, game
from unojax.belief import belief_init
from unojax.belief.exact import exact_init
from unojax.game import State
from unojax.observation import Observation, determinize, observe
from unojax.rules import Rules
from unojax.text import make_state, parse_cards

look = jax.jit(observe)
observe_both = jax.jit(jax.vmap(lambda state: tuple(observe(state, player) for player in (0, 1))))


@cache
def states() -> State:
    """State[...]: every seventh moment of the first 100 of random games, finished ones too."""
    games = play(0, num_steps=320, rules=Rules())
    return jax.tree.map(lambda x: np.concatenate([x[g, g % 7 : 100 : 7] for g in range(40)]), games.states)


def test_crafted_position_as_each_player_sees_it():
    state = make_state("R5 W", "G1 G2 B+2", "R+2", pile="Y9 Y9", player=1, penalty=2)
    for player, own, opponent_count in ((0, "R5 W", 3), (1, "G1 G2 B+2", 2)):
        seen = look(state, np.int32(player))
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
    assert seen.legal_mask.nonzero()[0].tolist() == [cards.DRAW]


def test_observation_of_random_states():
    """Every field, for both players, over random games."""
    both = observe_both(states())
    for player, seen in enumerate(both):
        same = ("pile", "top_rank", "color", "penalty", "current_player", "last_action", "terminated")
        for name in same:
            assert getattr(seen, name).dtype == getattr(states(), name).dtype
            np.testing.assert_array_equal(getattr(seen, name), getattr(states(), name))
        np.testing.assert_array_equal(seen.hand, states().hands[:, player])
        np.testing.assert_array_equal(seen.hand_count, states().hands[:, player].sum(-1))
        np.testing.assert_array_equal(seen.opponent_count, states().hands[:, 1 - player].sum(-1))
        np.testing.assert_array_equal(seen.deck_count, states().deck.sum(-1))
        np.testing.assert_array_equal(seen.unseen, counts_of(states().hands[:, 1 - player]) + counts_of(states().deck))
        np.testing.assert_array_equal(seen.is_my_turn, states().current_player == player)
        assert (seen.player == player).all()
        assert {x.dtype for x in (seen.player, seen.opponent_count, seen.deck_count, seen.unseen, seen.hand_count)} == {
            jnp.dtype(jnp.int8)
        }


def test_the_player_to_move_sees_the_legal_actions():
    both = observe_both(states())
    masks = jax.jit(jax.vmap(game.legal_mask))(states())
    is_live = ~(states().terminated | states().truncated)
    for player, seen in enumerate(both):
        mine = is_live & (states().current_player == player)
        assert mine.sum() > 100
        np.testing.assert_array_equal(jax.jit(jax.vmap(lambda o: o.legal_mask))(seen)[mine], masks[mine])


@pytest.mark.parametrize("player", [0, 1])
def test_states_that_differ_in_what_is_hidden_give_equal_observations(player: int):
    """The opponent's hand and the deck are dealt anew from the unseen cards: not a leaf changes."""
    rng = np.random.default_rng(player)
    real = states()
    unseen = counts_of(real.hands[:, 1 - player]) + counts_of(real.deck)
    sizes = real.hands[:, 1 - player].sum(-1)
    dealt = np.stack([rng.multivariate_hypergeometric(u, k) for u, k in zip(unseen, sizes, strict=True)])
    hands = real.hands.copy()
    hands[:, 1 - player] = cards.onehot_of(dealt)
    deck = cards.onehot_of(unseen - dealt)
    other = replace(real, hands=hands, deck=deck)
    assert (other.hands != real.hands).any((1, 2))[sizes > 0].mean() > 0.9
    assert_trees_equal(observe_both(other)[player], observe_both(real)[player])
    # The other player does see the difference, so the comparison can fail.
    with pytest.raises(AssertionError):
        assert_trees_equal(observe_both(other)[1 - player], observe_both(real)[1 - player])


def test_unseen_counts_from_the_deck_of_the_rules():
    rules = Rules(deck=deck_of("R1 R1 R2 R3 W"), hand_size=1)
    seen = look(make_state("R1", "R2", "R3", rules=rules), np.int32(0))
    assert {cards.TYPE_NAMES[t]: int(n) for t, n in enumerate(seen.unseen) if n} == {"R1": 1, "R2": 1, "W": 1}


def test_an_observation_is_one_static_deck_and_arrays():
    """No leaf is large enough to hold another hand: the own hand and the pile, then scalars."""
    seen = look(make_state("R5", "G1", "R7"), np.int32(0))
    assert isinstance(seen, Observation)
    assert sorted(x.shape for x in jax.tree.leaves(seen)) == [()] * 12 + [(108,)] * 2


@pytest.mark.parametrize("player", [-1, 2, np.int64(2)])
def test_a_player_other_than_0_and_1_is_refused(player: Any):
    with pytest.raises(ValueError, match=f"player must be 0 or 1, got {player}"):
        observe(make_state("R5", "G1", "R7"), player)


@pytest.mark.parametrize("player", [0.5, 1.0, True, np.float32(0)])
def test_a_player_is_an_integer(player: Any):
    with pytest.raises(ValueError, match="player must be"):
        observe(make_state("R5", "G1", "R7"), player)


@pytest.mark.parametrize("player", [-1, 2, 100])
def test_a_traced_player_out_of_range_sees_no_hand(player: int):
    seen = look(make_state("R5", "G1", "R7"), np.int32(player))
    assert not seen.hand.any()


def test_a_traced_player_sees_what_a_constant_one_sees():
    state = make_state("R5 W", "G1 G2 B+2", "R+2")
    for player in (0, 1):
        assert_trees_equal(look(state, np.int32(player)), observe(state, player))


@pytest.mark.parametrize("player", [0, 1])
def test_a_state_with_the_true_hand_is_the_state(player: int):
    """But for what belongs to the episode; the observer sees the same."""

    @jax.jit
    @jax.vmap
    def again(state: State) -> tuple[State, Observation, Observation]:
        seen = observe(state, player)
        made = determinize(state.hands[1 - player], seen)
        return made, observe(made, player), seen

    made, shown, seen = again(states())
    assert_trees_equal(shown, seen)
    episode = ("rewards", "truncated", "step_count", "error", "winner")
    expected = replace(states(), **{name: getattr(made, name) for name in episode})
    assert_trees_equal(made, jax.tree.map(jnp.asarray, expected))


def test_a_drawn_hand_is_uniform_over_unseen_cards():
    """Hypergeometric shares of 4,000 hands within 0.04, and cards of one type are alike: three of four wild cards are unseen."""
    seen = observe(make_state("R1 R2 W", "B1 B2 G5 Y9", "R7", pile="R5"), 0)

    @jax.jit
    def draw(keys: Any) -> tuple[State, Observation]:
        made = jax.vmap(determinize, (0, None))(keys, seen)
        return made, jax.vmap(observe, (0, None))(made, 0)

    made, shown = draw(jax.random.split(jax.random.key(0), 4000))
    assert_trees_equal(shown, jax.tree.map(lambda x: jnp.broadcast_to(x, (4000, *np.shape(x))), seen))
    held = np.asarray(cards.counts(made.hands[:, 1]))
    assert (held.sum(-1) == 4).all() and (held + cards.count_types(made.deck) == np.asarray(seen.unseen)).all()
    np.testing.assert_allclose(held.mean(0), np.asarray(seen.unseen) * 4 / int(seen.unseen.sum()), atol=0.02)
    np.testing.assert_array_equal(made.hands[:, 1], cards.onehot_of(held))


def test_hands_that_cannot_be_are_refused():
    seen = observe(make_state("R1 R2 W", "B1 B2", "R7"), 0)
    for hand, message in (("B1", "holds 2 cards, got a hand of 1"), ("R7 R7", "can hold 1 x R7 at most, got 2")):
        with pytest.raises(ValueError, match=message):
            determinize(cards.onehot_of(cards.count_types(parse_cards(hand))), seen)
    with pytest.raises(ValueError, match=r"takes a hand bool\[108\], got shape \(2, 108\)"):
        determinize(np.zeros((2, 108), bool), seen)
    with pytest.raises(ValueError, match="determinize takes a random key"):
        determinize(0.5, seen)
    with pytest.raises(ValueError, match="determinize takes an Observation, got State"):
        determinize(jax.random.key(0), make_state("R1", "B1", "R7"))  # pyright: ignore[reportArgumentType]


def test_a_deck_size_that_does_not_fit_is_refused():
    """Of the unseen cards, those that the opponent does not hold are in the deck: another number is a mistake, not a choice."""
    rules = Rules(deck=deck_of("R1 R1 R2 Y1 Y2 B1"), hand_size=2)
    seen = observe(make_state("R1 R2", "Y1 Y2", "R1", rules=rules), 0)
    begin = {"belief_init": lambda seen: belief_init(seen, jax.random.key(0)), "exact_init": exact_init}
    for name, function in begin.items():
        function(seen)
        with pytest.raises(
            ValueError, match=rf"{name}: deck_count must be 1, the 3 unseen cards without the opponent's 2, got 2"
        ):
            function(replace(seen, deck_count=np.int8(2)))
        twice = replace(seen, hand=cards.onehot_of(cards.count_types(parse_cards("R1 R1"))))
        with pytest.raises(ValueError, match=rf"{name}: hand and pile hold 3 x R1, and the deck of the rules has 2"):
            function(twice)
        with pytest.raises(ValueError, match=rf"{name}: the opponent can hold 3 cards at most, those that are unseen, got 4"):
            function(replace(seen, opponent_count=np.int8(4)))
    # Under jit nothing raises.
    jax.jit(lambda seen: belief_init(seen, jax.random.key(0)))(replace(seen, deck_count=np.int8(2)))
