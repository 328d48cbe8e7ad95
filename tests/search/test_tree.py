"""Histories that a tree distinguishes, and choices at its nodes."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from unojax import Rules, bits, cards, game, make_state, parse_action, parse_cards, table
from unojax.game import State
from unojax.policies import uniform
from unojax.search.rollouts import Rollouts, Starts, list_arms, play_out
from unojax.search.tree import MAX_OPTIONS, TreeGuide, _rank_of_first, new_store
from unojax.table import Picked

RULES = Rules()


@jax.jit
def seen(state: State, word: jax.Array, position: jax.Array, player: jax.Array) -> jax.Array:
    """Return a player's observation of the next move with this pick."""
    tables = game.to_table(state)
    node = table.find_node(tables, RULES)
    move = table.resolve(tables, node, Picked(word.astype(jnp.uint32), position.astype(jnp.uint32)), jnp.uint32(0), RULES)
    return table.visible_part(move, tables, player.astype(jnp.uint32))


def visible(state: State, word: int, position: int, player: int) -> int:
    return int(seen(state, *np.array([word, position, player], np.uint32)))


def drawn(state: State, card: str, player: int, copy: int = 0) -> int:
    """Return a player's observation of a card drawn by the player to move."""
    kind = int(cards.TYPE_OF_SLOT[np.flatnonzero(parse_cards(card))[0]])
    slot = int(np.flatnonzero((cards.TYPE_OF_SLOT == kind) & (cards.COPY_OF_SLOT == copy))[0])
    return visible(state, slot // 27, slot % 27, player)


def played(state: State, action: str, player: int) -> int:
    """Return a player's observation of a play."""
    color, rank = divmod(parse_action(action), cards.NUM_RANKS)
    return visible(state, color, int(np.log2(int(bits.rank_bit(np.uint32(rank))))), player)


def test_players_see_plays_and_only_their_own_draws():
    """Contract: no search reads the hidden hand. Own draws are seen by type, others are not."""
    state = make_state("B1 B2", "G1", "R7")
    assert drawn(state, "Y5", 0) == drawn(state, "Y5", 0, copy=1) != drawn(state, "Y6", 0)
    assert drawn(state, "W", 0) == drawn(state, "W", 0, copy=3) != drawn(state, "W+4", 0)
    assert len({drawn(state, card, 1) for card in ("Y5", "Y6", "W", "W+4")}) == 1
    assert drawn(state, "Y5", 1) != drawn(state, "Y5", 0)
    only, choice = make_state("R5 B3", "G1", "R7"), make_state("R5 R8", "G1", "R7")
    for player in (0, 1):
        assert played(only, "R5", player) == played(choice, "R5", player) != played(choice, "R8", player)


def test_simulations_meet_in_nodes_and_every_visit_is_backed_up():
    """Counts and returns of the store add up to those of the simulations."""
    state = make_state("R1 R2 R3 Y1", "R5 Y5 Y6 B1", "R7")
    num_samples = 400
    guide = TreeGuide(uniform, RULES, num_nodes=4096, exploration=1.0)
    how = Rollouts((uniform,), RULES, num_samples, guide=guide)

    @jax.jit
    def simulate(state: State):
        tables = jax.tree.map(lambda x: jnp.repeat(x[None], num_samples, axis=0), game.to_table(state))
        arms = list_arms(game.legal_mask(state)[None, : cards.DRAW])
        seeds = (jnp.zeros(1, jnp.uint32), jnp.ones(1, jnp.uint32))
        return *play_out(Starts(tables, seeds), arms, how, store=new_store(1, 4096)), arms.number

    returns, store, number = jax.device_get(simulate(state))
    visits, totals = (numbers.reshape(-1, MAX_OPTIONS) for numbers in (store.visits, store.returns))
    assert set(np.unique(returns[:number]).tolist()) <= {-1.0, 0.0, 1.0}
    assert (np.abs(totals) <= visits).all() and (visits[store.histories == 0] == 0).all()
    assert (totals > 0).any() and (totals < 0).any()
    # Every node has been visited, some of them often, and both halves of the slots are used.
    assert (visits[store.histories != 0].sum(1) >= 1).all() and visits.sum(1).max() >= 20
    assert len(set((np.flatnonzero(store.histories) % 2).tolist())) == 2
    # At a node that is visited often more than one play is tried.
    busy = visits.sum(1) >= 10
    assert busy.any() and ((visits[busy] > 0).sum(1) > 1).all()


def test_rank_of_the_first_favourite():
    options = tuple(np.uint32(w) for w in (0b1011, 0b100, 0, 0b11))
    rank, nth = jax.jit(_rank_of_first), jax.jit(bits.nth)
    for chosen, expected in [((0b10, 0, 0, 0), 1), ((0, 0b100, 0, 0b1), 3), ((0, 0, 0, 0b10), 5)]:
        assert int(rank(tuple(np.uint32(w) for w in chosen), options)) == expected
        word, position = nth(options, np.uint32(expected))
        assert (chosen[int(word)] >> int(position)) & 1


def select_by_hand(selection: str, c: float, visits: list[float], returns: list[float], favourite: int) -> int:
    """Choose the option of a node in plain Python."""
    n, options = sum(visits), range(len(visits))
    if selection == "ucb1":
        untried = [a for a in options if visits[a] == 0]
        if untried:
            return favourite if favourite in untried else untried[0]
        return max(options, key=lambda a: returns[a] / visits[a] + c * math.sqrt(math.log(n) / visits[a]))
    prior = [0.5 / len(visits) + 0.5 * (a == favourite) for a in options]
    means = [returns[a] / visits[a] if visits[a] else sum(returns) / max(n, 1) for a in options]
    return max(options, key=lambda a: means[a] + c * prior[a] * math.sqrt(1 + n) / (1 + visits[a]))


def test_a_node_chooses_as_by_hand():
    """500 nodes: some never visited, some with untried plays, some with all plays tried."""
    rng = np.random.default_rng(7)
    visits, returns = np.zeros((2, 500, MAX_OPTIONS), np.float32)
    number, favourite = rng.integers(2, MAX_OPTIONS + 1, 500), np.zeros(500, np.uint32)
    for i, n in enumerate(number):
        visits[i, :n] = rng.integers(0, (1, 3, 40)[i % 3], n) + (i % 4 == 0)
        returns[i, :n] = np.round(visits[i, :n] * rng.uniform(-1, 1, n), 3)
        favourite[i] = rng.integers(n)
    for selection in ("puct", "ucb1"):
        guide = TreeGuide(uniform, RULES, 16, 0.7, selection)
        chosen = np.asarray(jax.jit(guide._select)(visits, returns, number.astype(np.uint32), favourite))
        for i, n in enumerate(number):
            expected = select_by_hand(selection, 0.7, visits[i, :n].tolist(), returns[i, :n].tolist(), int(favourite[i]))
            assert int(chosen[i]) == expected, (selection, i, visits[i, :n], returns[i, :n], favourite[i])
