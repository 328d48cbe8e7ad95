"""Games of RLCard's UNO, replayed under `Rules.rlcard()` with the same actions and draws: every state must be equal.

One call of RLCard is one or two steps, because it makes a penalty's draw a part of the play. Two defects of RLCard are not
compared: the loser draws after a last card that is a +2 or Wild+4, and a draw of too few cards raises an IndexError.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from unojax import bits, cards
from unojax.game import GivenCards, State, legal_mask, step_with
from unojax.rules import Rules
from unojax.text import make_state

_COLORS = "rybg"
_TRAITS = (*"0123456789", "skip", "reverse", "draw_2", "wild", "wild_draw_4")
NUM_GAMES = 500


class Step(NamedTuple):
    """A step: action, deck after it as int[54], colour, and RLCard's table after it at the end of a call."""

    action: int
    deck: np.ndarray
    color: int
    table: dict[str, Any] | None


def record(game: Any, choose: Any) -> tuple[list[dict[str, Any]], list[int], bool]:
    """Return RLCard's tables of a game, its actions, and whether the last one raised an IndexError."""
    game.init_game()
    tables, actions = [table_of(game)], []
    while not game.is_over():
        name = choose(game.get_legal_actions())
        actions.append(number_of(name))
        try:
            game.step(name)
        except IndexError:
            return tables, actions, True
        tables.append(table_of(game))
    return tables, actions, False


def table_of(game: Any) -> dict[str, Any]:
    """Return an RLCard table in the numbers of this package."""
    current, over = game.round, game.is_over()
    return {
        "hands": [counts_of(player.hand) for player in game.players],
        "deck": counts_of(game.dealer.deck),
        "pile": counts_of(current.played_cards),
        "rank": _TRAITS.index(current.target.trait),
        "color": _COLORS.index(current.target.color),
        "player": int(current.current_player),
        # A card is listed as often as it is held.
        "legal": [] if over else sorted({number_of(name) for name in game.get_legal_actions()}),
        "winner": int(current.winner[0]) if over else -1,
    }


def number_of(name: str) -> int:
    if name == "draw":
        return cards.DRAW
    color, trait = name.split("-")
    return _COLORS.index(color) * cards.NUM_RANKS + _TRAITS.index(trait)


def counts_of(held: Any) -> list[int]:
    pairs = [(_TRAITS.index(card.trait), card.color) for card in held]
    types = [cards.card_type(_COLORS.index(color) if rank < cards.WILD else 0, rank) for rank, color in pairs]
    return np.bincount(types, minlength=cards.NUM_TYPES).tolist()


def steps_of(tables: list[dict[str, Any]], actions: list[int], failed: bool, totals: Counter[str]) -> list[Step]:
    """Return the steps of a game, and count calls, steps and reshuffles."""
    steps: list[Step] = []
    for action, before, after in zip(actions[: len(actions) - failed], tables, tables[1:], strict=False):
        deck, mover = np.array(before["deck"]), before["player"]
        gained = np.array(after["hands"][mover]) - np.array(before["hands"][mover])
        rank, lays = (action % cards.NUM_RANKS if action < cards.DRAW else after["rank"]), True
        if action == cards.DRAW:
            if not deck.sum():
                totals["refills"] += 1
                deck = np.array(before["pile"])
            top = np.arange(cards.NUM_TYPES) == cards.card_type(after["color"], after["rank"])
            lays = not gained.any()
            deck = deck - (top if lays else gained)
        owes = lays and rank in ((cards.DRAW_TWO,) if action == cards.DRAW else (cards.DRAW_TWO, cards.WILD_DRAW_FOUR))
        steps.append(Step(action, deck, after["color"], None if owes else after))
        if owes and after["winner"] < 0:
            totals["refills"] += int(deck.sum() < (2 if rank == cards.DRAW_TWO else 4))
            steps.append(Step(cards.DRAW, np.array(after["deck"]), after["color"], after))
        totals["calls"] += 1
    totals["steps"] += len(steps)
    return steps


def start_of(table: dict[str, Any]) -> State:
    top = cards.card_type(table["color"], table["rank"])
    hands = [" ".join(np.repeat(cards.TYPE_NAMES, hand)) for hand in table["hands"]]
    assert table["pile"][top] == sum(table["pile"]) == 1
    color = cards.COLOR_NAMES[table["color"]] if top >= cards.WILD_TYPE else None
    return make_state(*hands, cards.TYPE_NAMES[top], color=color, player=table["player"], rules=Rules.rlcard())


@jax.jit
def replay(start: State, actions: np.ndarray, decks: np.ndarray, colors: np.ndarray) -> tuple[State, jax.Array]:
    """Play all games side by side: states and legal masks [T, G]."""

    def one_game(state: State, action: Any, deck: Any, color: Any) -> State:
        return step_with(state, action, GivenCards(bits.pack(cards.onehot(deck)), color))

    def one_step(state: State, given: Any) -> Any:
        after = jax.vmap(one_game)(state, *given)
        return after, (after, jax.vmap(legal_mask)(after))

    return jax.lax.scan(one_step, start, (actions, decks, colors))[1]


def compare(table: dict[str, Any], state: State, mask: np.ndarray, where: str) -> None:
    found = {name: cards.count_types(getattr(state, name)).tolist() for name in ("hands", "deck", "pile")}
    numbers = {"rank": "top_rank", "color": "color", "player": "current_player", "winner": "winner"}
    found |= {name: int(getattr(state, field)) for name, field in numbers.items()}
    found["legal"] = [] if state.terminated else np.flatnonzero(mask).tolist()
    # RLCard passes the turn on after the end.
    expected = table | ({"player": found["player"]} if table["winner"] >= 0 else {})
    assert found == expected, where
    assert not state.error, f"{where}: illegal here"


@pytest.mark.slow
def test_every_state_is_that_of_rlcard():
    uno = pytest.importorskip("rlcard.games.uno", reason="RLCard is not installed")
    game, choose, totals = uno.Game(), random.Random(0).choice, Counter[str]()
    game.np_random = np.random.RandomState(0)
    played = [record(game, choose) for _ in range(NUM_GAMES)]
    plans = [steps_of(*recorded, totals) for recorded in played]
    longest = 1 << max(map(len, plans)).bit_length()
    actions, colors = np.full((longest, NUM_GAMES), -1, np.int32), np.zeros((longest, NUM_GAMES), np.int8)
    decks = np.zeros((longest, NUM_GAMES, cards.NUM_TYPES), np.int8)
    for column, plan in enumerate(plans):
        for row, step in enumerate(plan):
            actions[row, column], decks[row, column], colors[row, column] = step[:3]
    starts = jax.tree.map(lambda *leaves: np.stack(leaves), *(jax.device_get(start_of(tables[0])) for tables, *_ in played))
    first = jax.device_get(jax.jit(jax.vmap(legal_mask))(starts))
    states, masks = jax.device_get(replay(starts, actions, decks, colors))
    for column, (plan, (tables, *_)) in enumerate(zip(plans, played, strict=True)):
        compare(tables[0], jax.tree.map(lambda leaf, c=column: leaf[c], starts), first[column], f"start of game {column}")
        for row, step in enumerate(plan):
            if step.table is not None:
                state = jax.tree.map(lambda leaf, at=(row, column): leaf[at], states)
                compare(step.table, state, masks[row, column], f"step {row} of game {column}")
    assert totals["steps"] > totals["calls"] > 10_000 and totals["refills"] > 0
