"""Random games under many rules, judged by the oracle: every field of every state, every legal mask, every drawn card.

The games are played on the device in one call for each set of rules and brought over once. The actions are uniform over the legal ones,
but one in thirty is any number from -30 to 99, so illegal and out-of-range ones come up everywhere.
"""

from __future__ import annotations

import functools
from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.oracle import game as oracle
from unojax import cards, game
from unojax.game import State
from unojax.rules import Rules, small_deck

RULES = {
    "default": Rules(),
    "skip and reverse pass the turn": Rules(skip_forfeits=False, step_penalty=0.125),
    "any start card, any first player": Rules(start_card="any", first_player="random", max_steps=40, step_penalty=0.1),
    "numbers only": Rules(deck=small_deck(colors=2, ranks=(0, 1, 2, 3, 4), wilds=0), hand_size=4),
    "two colours and all effects": Rules(deck=small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=1), hand_size=3),
    "draws without end": Rules(deck=small_deck(colors=3, ranks=(1, 12), wilds=2), hand_size=4, start_card="any"),
    "one card each": Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, start_card="any"),
    "one step": Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, max_steps=1),
}
NUM_STEPS = {"default": 320, "skip and reverse pass the turn": 320, "any start card, any first player": 45, "one step": 3}
NUM_GAMES = 300

CARD_FIELDS = ("hands", "deck", "pile")


class Played(NamedTuple):
    """`num_games` games of T steps, as NumPy arrays: states [G, T + 1, ...], masks [G, T + 1, 61], actions [G, T]."""

    states: State
    masks: np.ndarray
    actions: np.ndarray


@functools.partial(jax.jit, static_argnames=("num_steps", "rules"))
def play(keys: jax.Array, *, num_steps: int, rules: Rules) -> tuple[State, jax.Array, jax.Array]:
    """One random game per key."""

    def one_step(state: State, key: jax.Array):
        key_legal, key_any, key_which, key_draw = jax.random.split(key, 4)
        mask = game.legal_mask(state, rules=rules)
        legal = jax.random.categorical(key_legal, jnp.where(mask, 0.0, -jnp.inf))
        anything = jax.random.randint(key_any, (), -30, 100)
        action = jnp.where(jax.random.bernoulli(key_which, 1 / 30), anything, legal)
        return game.step(state, action, key_draw, rules=rules), (state, mask, action)

    def one_game(key: jax.Array):
        key_init, key_steps = jax.random.split(key)
        start = game.init(key_init, rules=rules)
        last, (states, masks, actions) = jax.lax.scan(one_step, start, jax.random.split(key_steps, num_steps))
        states, masks = jax.tree.map(
            lambda before, end: jnp.concatenate([before, end[None]]), (states, masks), (last, game.legal_mask(last, rules=rules))
        )
        return states, masks, actions

    return jax.vmap(one_game)(keys)


def played(name: str, seed: int, num_games: int) -> Played:
    keys = jax.random.split(jax.random.key(seed), num_games)
    return Played(*jax.device_get(play(keys, num_steps=NUM_STEPS.get(name, 160), rules=RULES[name])))


def counter(counts: np.ndarray) -> Counter[str]:
    """int[54] -> multiset of card names."""
    return Counter({oracle.CARDS[t]: int(counts[t]) for t in np.flatnonzero(counts)})


def variant(rules: Rules) -> oracle.Variant:
    return oracle.Variant(
        deck=counter(np.array(rules.deck)),
        hand_size=rules.hand_size,
        skip_forfeits=rules.skip_forfeits,
        wild_may_start=rules.start_card == "any",
        anyone_may_start=rules.first_player == "random",
        max_steps=rules.max_steps,
        step_penalty=rules.step_penalty,
    )


def counts_of(onehots: np.ndarray) -> np.ndarray:
    """bool[..., 108] -> int[..., 54], on the host."""
    of_slot = np.eye(cards.NUM_TYPES, dtype=np.float32)[cards.TYPE_OF_SLOT]
    return (onehots.astype(np.float32) @ of_slot).astype(int)


def snapshot(told: oracle.Game) -> tuple[list[int], list[float]]:
    """All that a `State` holds, as the oracle has it: counts of the four sets, then the other fields."""
    sets = [pack.get(card, 0) for pack in (*told.hands, told.deck, told.pile) for card in oracle.CARDS]
    others = [
        oracle.RANKS.index(oracle.rank_of(told.top)),
        oracle.COLORS.index(told.color),
        told.player,
        told.penalty,
        told.terminated,
        told.truncated,
        -1 if told.winner is None else told.winner,
        *told.rewards,
        told.step_count,
        told.error,
        -1 if told.last_action is None else told.last_action,
    ]
    return sets, others


OTHER_FIELDS = (
    "top_rank",
    "color",
    "current_player",
    "penalty",
    "terminated",
    "truncated",
    "winner",
    "rewards",
    "step_count",
    "error",
    "last_action",
)


def judge(games: Played, index: int, rules: Rules) -> Counter[str]:
    """Replay one game with the oracle and compare all there is. Returns the oracle's count of events."""
    states = jax.tree.map(lambda x: x[index], games.states)
    hands = counts_of(states.hands)
    told = oracle.Game.deal(
        variant(rules),
        [counter(hand) for hand in hands[0]],
        top=oracle.card_and_color(int(states.color[0]) * 15 + int(states.top_rank[0]))[0],
        color=oracle.COLORS[states.color[0]],
        player=int(states.current_player[0]),
    )
    snapshots, legal = [snapshot(told)], [told.legal_actions()]
    # Two steps beyond the end: the first sets the rewards to zero, the second changes nothing at all.
    is_over = states.terminated | states.truncated
    num_steps = min(len(is_over) - 1, int(np.argmax(is_over)) + 2 if is_over.any() else len(is_over) - 1)
    for t in range(num_steps):
        player, action = told.player, int(games.actions[index, t])
        drawn = hands[t + 1, player] - hands[t, player] if action == oracle.DRAW else np.zeros(54)
        told.step(action, counter(np.maximum(drawn, 0)))
        snapshots.append(snapshot(told))
        legal.append(told.legal_actions())

    upto = num_steps + 1
    told_sets = np.array([sets for sets, _ in snapshots]).reshape(upto, 4, cards.NUM_TYPES)
    told_onehots = told_sets[..., cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT
    onehots = np.concatenate([states.hands, states.deck[:, None], states.pile[:, None]], 1)
    np.testing.assert_array_equal(onehots[:upto], told_onehots, err_msg="hand 0, hand 1, deck, pile")
    told_others = np.array([others for _, others in snapshots], np.float32)
    column = 0
    for name in OTHER_FIELDS:
        value = getattr(states, name)[:upto]
        width = value[0].size
        np.testing.assert_array_equal(
            value.reshape(upto, width).astype(np.float32), told_others[:, column : column + width], err_msg=name
        )
        column += width
    told_masks = np.zeros((upto, cards.NUM_ACTIONS), bool)
    for t, actions in enumerate(legal):
        told_masks[t, list(actions)] = True
    np.testing.assert_array_equal(games.masks[index, :upto], told_masks, err_msg="legal_mask")

    # The rest of the array is the fixed point.
    jax.tree.map(lambda x: np.testing.assert_array_equal(x[num_steps:], np.broadcast_to(x[num_steps], x[num_steps:].shape)), states)
    return told.events


@functools.cache
def events_of(name: str, seed: int = 0, num_games: int = NUM_GAMES) -> Counter[str]:
    """Judge many games; what happened in them."""
    games = played(name, seed, num_games)
    return sum((judge(games, index, RULES[name]) for index in range(num_games)), Counter())


def test_snapshot_covers_every_field_of_the_state():
    assert set(State.__dataclass_fields__) == {*CARD_FIELDS, *OTHER_FIELDS}


@pytest.mark.parametrize("name", RULES)
def test_every_field_of_every_state_agrees_with_the_oracle(name: str):
    assert events_of(name)["illegal action"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", RULES)
def test_ten_times_as_many_games_agree_with_the_oracle(name: str):
    for seed in range(1, 11):
        events_of(name, seed)


def test_the_games_visit_every_corner_of_the_rules():
    """The comparison above says nothing about what did not happen, so all of it has to."""
    seen = sum((events_of(name) for name in RULES), Counter())
    expected = {
        "illegal action",
        "action out of range",
        "truncated",
        *(f"played {rank}" for rank in oracle.RANKS),
        *(f"won with {rank}" for rank in ("1", "S", "R", "+2", "W", "W+4")),
        *(f"drew {due}" for due in (1, 2, 4)),
        *(f"reshuffled for {due} with {left} left" for due in (1, 2, 4) for left in range(due)),
        *(f"{how} as {due} could not be drawn" for how in ("won", "lost", "tied") for due in (1, 2, 4)),
    }
    assert expected - set(seen) == set()
