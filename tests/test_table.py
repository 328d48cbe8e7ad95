"""The packed table: its words, the walk from node to node, and conversion to and from a `State`.

Contract: packed games.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.helpers import assert_trees_equal, slow_but
from unojax import bits, cards, game, table
from unojax.decks import small_deck
from unojax.observation import observe, observe_packed
from unojax.rules import Rules, as_rules
from unojax.table import Picked, Table
from unojax.view import view_at_node, view_of

PROGRAMS = 60  # Games of four rule sets, as states and packed.

RULES = Rules(deck=small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=1), hand_size=3)
IN_GAME = np.asarray(RULES.deck)[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT
NUM_GAMES = 100
NUM_NODES = 200


class Walk(NamedTuple):
    """Each node of many games, NumPy [T, G, ...].

    Attributes:
        owner: Owner of each labelled card before each node, and after the last, int[T + 1, G, 108]; cards outside the game have
            none, as those in the deck.
        meta: `table.Meta` of int[T + 1, G].
        is_decision, is_step, is_reshuffle, is_over: bool[T, G].
    """

    owner: np.ndarray
    meta: table.Meta
    is_decision: np.ndarray
    is_step: np.ndarray
    is_reshuffle: np.ndarray
    is_over: np.ndarray


@cache
def walk() -> Walk:
    """Play random games from the deal, as batch arrays without `vmap`."""

    def visit(tables: Table, words: jax.Array):
        node = table.find_node(tables, RULES)
        pick = Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), words))
        move = table.resolve(tables, node, pick, words, RULES)
        following = table.commit(tables, move)
        flags = (node.is_decision, table.is_step(move), table.is_reshuffle(move), node.is_over)
        return following, (owners(tables), tables.unpack_meta(), *flags)

    @jax.jit
    def run(words: jax.Array):
        last, nodes = jax.lax.scan(visit, table.new_table(words[0], RULES), words)
        return last, owners(last), last.unpack_meta(), nodes

    words = jax.random.bits(jax.random.key(0), (NUM_NODES, NUM_GAMES))
    _, last_owner, last_meta, nodes = jax.device_get(run(words))
    owner, meta, *others = nodes
    with_last = jax.tree.map(lambda x, end: np.concatenate([x, end[None]]).astype(int), (owner, meta), (last_owner, last_meta))
    return Walk(*with_last, *others)


def owners(tables: Table) -> jax.Array:
    """Return the owner of each labelled card, int[..., 108]."""
    return bits.unpack(tables.low) + 2 * bits.unpack(tables.high).astype(jnp.uint8)


def test_cards_of_an_owner_and_the_deck_are_read_off_the_planes():
    """Cards outside the game have no owner."""
    rng = np.random.default_rng(0)
    owner = rng.integers(0, 4, (50, 108)) * IN_GAME
    tables = Table(bits.pack(owner % 2 == 1), bits.pack(owner // 2 == 1), jnp.zeros(50, jnp.uint32))
    for who in (table.DECK, table.HAND_0, table.HAND_1, table.PILE):
        np.testing.assert_array_equal(bits.unpack(tables.cards_of(who, RULES)), (owner == who) & IN_GAME)
    assert bits.all_cards(RULES.deck) == bits.static_words(IN_GAME)


def test_meta_comes_back_from_its_word():
    rng = np.random.default_rng(0)
    tops = {"rank": 15, "color": 4, "player": 2, "penalty": 3, "to_draw": 54, "phase": 6}
    fields = {name: jnp.array(rng.integers(0, top, 200), jnp.uint32) for name, top in tops.items()}
    meta = table.Meta(**{**fields, "penalty": fields["penalty"] * 2})
    tables = Table(bits.empty(meta.rank), bits.empty(meta.rank), jax.jit(table.Meta.pack)(meta))
    for name, value in tables.unpack_meta()._asdict().items():
        np.testing.assert_array_equal(value, getattr(meta, name), err_msg=name)


def test_a_node_moves_one_card_except_where_the_pile_goes_back():
    """The deal goes to player 0, then to 1, then one card is turned up, one card a node.

    Draws come from the deck, plays from the mover's hand; a reshuffle moves the pile except the top card; cards outside the game
    never move.
    """
    w, node = walk(), np.arange(2 * RULES.hand_size + 2)
    hand_0, hand_1, pile = ((w.owner[: len(node)] == who).sum(-1) for who in (table.HAND_0, table.HAND_1, table.PILE))
    assert (hand_0 == np.minimum(node, 3)[:, None]).all()
    assert (hand_1 == np.clip(node - 3, 0, 3)[:, None]).all()
    assert (pile == (node > 6)[:, None]).all()
    expected = np.array([table.DEAL] * 6 + [table.START, table.PLAY])
    assert (w.meta.phase[: len(node)] == expected[:, None]).all()
    assert not w.is_step[: len(node) - 1].any()

    assert not w.owner[..., ~IN_GAME].any()
    before, following = w.owner[:-1], w.owner[1:]
    num_moved = (before != following).sum(-1)
    ends_undrawn = w.is_step & ~w.is_decision & (w.meta.phase[1:] > table.PLAY)
    pile = (before == table.PILE).sum(-1)
    np.testing.assert_array_equal(num_moved, np.where(w.is_over | ends_undrawn, 0, np.where(w.is_reshuffle, pile - 1, 1)))
    assert w.is_reshuffle.any() and ends_undrawn.any()
    goes_back = before[w.is_reshuffle] != following[w.is_reshuffle]
    assert (before[w.is_reshuffle][goes_back] == table.PILE).all()
    assert (following[w.is_reshuffle][goes_back] == table.DECK).all()


def test_a_state_comes_back_from_its_table():
    """No card gets two owners, and every public field survives."""
    states = corpus.at(corpus.games("few cards").states, corpus.moments("few cards")[::3])
    rules = corpus.RULES["few cards"]

    @jax.jit
    @jax.vmap
    def there_and_back(state: game.State) -> tuple[game.State, jax.Array]:
        table_of_state = Table.of_words(game.to_table(state).words())
        kept = {name: getattr(state, name) for name in ("rewards", "truncated", "step_count", "error", "last_action")}
        return game.from_table(table_of_state, rules, **kept), bits.count(table.deck(table_of_state, rules))

    again, num_in_deck = there_and_back(states)
    assert_trees_equal(again, states)
    np.testing.assert_array_equal(num_in_deck, states.deck.sum(-1))
    assert states.terminated.any()


@pytest.mark.parametrize("preset", slow_but(["official"], ["default", "official", "house"]))
def test_packed_games_are_the_same(preset: str):
    """A packed game follows its state action by action, and equals the packed state."""
    rules = as_rules(preset)

    def one_step(carry: tuple[game.State, game.Packed], key: jax.Array):
        state, packed = carry
        legal = game.legal_mask(state)
        action = jax.random.categorical(key, jnp.where(legal, 0.0, -jnp.inf))
        after = game.step(state, action, key), game.step_packed(packed, action, key)
        seen = jax.vmap(lambda player: (observe(after[0], player), observe_packed(after[1], player)))(
            jnp.arange(2, dtype=jnp.int8)
        )
        return after, (*after, game.pack_state(after[0]), seen, game.legal_mask(after[0]), game.packed_legal_mask(after[1]))

    @jax.jit
    def play(keys: jax.Array):
        start = jax.vmap(lambda key: (game.init(key, rules=rules), game.init_packed(key, rules)))(keys)
        # Batched inside the loop: one that is batched as a whole is traced again and again.
        of_steps = jax.vmap(lambda key: jax.random.split(key, 100), out_axes=1)(keys)
        return jax.lax.scan(jax.vmap(one_step), start, of_steps)[1]

    played = jax.device_get(play(jax.random.split(jax.random.key(0), 50)))
    states, packed, again, seen, mask, packed_mask = played
    assert_trees_equal(packed, again)
    assert_trees_equal(states, jax.jit(game.Packed.unpack)(packed))
    assert_trees_equal(*seen)
    np.testing.assert_array_equal(mask, packed_mask)
    assert states.terminated.any() and not states.terminated.all()


def test_a_table_in_play_offers_what_its_state_does():
    """Facts between two moves that a state lacks change neither options nor views."""
    rules = as_rules("house")

    def one_node(tables: Table, words: jax.Array):
        node = table.find_node(tables, rules)
        pick = Picked(*bits.choose(bits.where(node.is_decision, node.legal, node.deck), words))
        offered = game.options_to_actions(node.options, rules=rules)
        seen = view_at_node(tables, node, rules).account
        return table.commit(tables, table.resolve(tables, node, pick, words, rules)), (tables, offered, seen, node.is_decision)

    words = jax.random.bits(jax.random.key(0), (300, 100), jnp.uint32)
    start = table.new_table(jnp.zeros(100, jnp.uint32), rules)
    tables, offered, seen, decides = jax.device_get(jax.jit(lambda: jax.lax.scan(one_node, start, words))()[1])
    tables = jax.tree.map(lambda a: a[decides], tables)
    states = jax.jit(jax.vmap(partial(game.from_table, rules=rules)))(tables)
    np.testing.assert_array_equal(offered[decides], jax.jit(jax.vmap(game.legal_mask))(states))
    assert (np.asarray(states.penalty) > 4).any()
    shown = jax.jit(jax.vmap(lambda state: view_of(observe(state, state.current_player)).account))(states)
    np.testing.assert_array_equal(seen[decides], shown)
