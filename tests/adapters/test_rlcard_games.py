"""Games of RLCard's UNO (rlcard on PyPI), replayed under `Rules.rlcard()`: every state after every call must be the same.

RLCard plays with random legal actions. Here the same actions are played with the same cards drawn. Hands, deck, pile, top card,
colour, player to move, legal actions and winner are compared.

A call of RLCard's is one step or two here: it makes a penalty's draw a part of the play. What RLCard does otherwise are defects:

    a last card that is a +2 or Wild+4    the loser draws after the end; here the game is over
    too few cards to draw                 RLCard fails with an IndexError; here the game ends, and fewer cards win
    `target` in its observations          still shows the colour of a wild that the card was printed with; tables are compared
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unojax import bits, cards
from unojax.game import GivenCards, State, legal_mask, step_with
from unojax.rules import Rules

_COLORS: Final = "rybg"
_TRAITS: Final = (*"0123456789", "skip", "reverse", "draw_2", "wild", "wild_draw_4")


def record(games: int, seed: int) -> Iterator[dict[str, Any]]:
    """Play games with RLCard: its tables after each call, and the actions."""
    from rlcard.games.uno import Game  # pyright: ignore[reportMissingImports]

    game, choose = Game(), random.Random(seed).choice
    game.np_random = np.random.RandomState(seed)
    for _ in range(games):
        game.init_game()
        tables, actions, failed = [table_of(game)], [], False
        while not game.is_over() and not failed:
            actions.append(choose(game.get_legal_actions()))
            try:
                game.step(actions[-1])
            except IndexError:
                failed = True
            tables.append(table_of(game))
        yield {"tables": tables, "actions": [action_number(name) for name in actions], "failed": failed}


def table_of(game: Any) -> dict[str, Any]:
    """Read off what the table of a game of RLCard's holds, in numbers of ours."""
    current, over = game.round, game.is_over()
    return {
        "hands": [_types(player.hand) for player in game.players],
        "deck": _types(game.dealer.deck),
        "pile": _types(current.played_cards),
        "rank": _TRAITS.index(current.target.trait),
        "color": _COLORS.index(current.target.color),
        "player": int(current.current_player),
        "legal": [] if over else [action_number(name) for name in game.get_legal_actions()],
        "winner": int(current.winner[0]) if over else -1,
    }


def action_number(name: str) -> int:
    """Read an action that RLCard has named, as a number of ours."""
    if name == "draw":
        return 60
    color, trait = name.split("-")
    return _COLORS.index(color) * 15 + _TRAITS.index(trait)


def _types(cards: Any) -> list[int]:
    counts = [0] * 54
    for card in cards:
        rank = _TRAITS.index(card.trait)
        counts[rank + 39 if rank >= 13 else _COLORS.index(card.color) * 13 + rank] += 1
    return counts


def compare(games: int, seed: int) -> dict[str, int]:
    """Record games and replay them here.

    Returns:
        Numbers of games, calls and steps compared, of refills of the deck on the way, and of the calls left out as defects.

    Raises:
        AssertionError: If a state differs.
    """
    totals: dict[str, int] = dict.fromkeys(
        ("games", "calls", "steps", "refills", "won_with_a_penalty", "failed_for_want_of_cards"), 0
    )
    played = list(record(games, seed))
    plans = [steps_of(game, totals) for game in played]
    longest = 1 << max(len(plan) for plan in plans).bit_length()
    actions = np.full((longest, len(plans)), -1, np.int32)
    decks = np.zeros((longest, len(plans), 54), np.int8)
    colors = np.zeros((longest, len(plans)), np.int8)
    for column, plan in enumerate(plans):
        for row, (action, deck, color, _) in enumerate(plan):
            actions[row, column], decks[row, column], colors[row, column] = action, deck, color
    states, masks = _replay([game["tables"][0] for game in played], actions, decks, colors)
    for column, (plan, game) in enumerate(zip(plans, played, strict=True)):
        _same(game["tables"][0], states, masks, (0, column))
        for row, (*_, table) in enumerate(plan):
            if table is not None:
                _same(table, states, masks, (row + 1, column))
    return totals


def steps_of(game: dict[str, Any], totals: dict[str, int]) -> list[tuple[int, Any, int, dict[str, Any] | None]]:
    """List the steps of a game: action, deck after it, colour, and RLCard's table after it where that is the end of a call."""
    totals["games"] += 1
    steps = []
    for index, action in enumerate(game["actions"]):
        before, after = game["tables"][index], game["tables"][index + 1]
        if game["failed"] and index == len(game["actions"]) - 1:
            totals["failed_for_want_of_cards"] += 1
            break
        mover, deck, pile = before["player"], np.array(before["deck"]), np.array(before["pile"])
        color, gained = after["color"], np.array(after["hands"][mover]) - np.array(before["hands"][mover])
        totals["calls"] += 1
        if action == 60:
            if not deck.sum():
                totals["refills"] += 1
                deck, pile = pile, pile * 0
            drawn = gained if gained.any() else np.eye(54, dtype=int)[_type(after)]
            deck = deck - drawn
            lays, rank = not gained.any(), after["rank"]
            steps.append((60, deck, color, after))
            owes = lays and rank == 12
        else:
            lays, rank = True, action % 15
            steps.append((action, deck, color, after))
            owes = rank in (12, 14)
        if owes and after["winner"] >= 0:
            # The loser has drawn after the end.
            totals["won_with_a_penalty"] += 1
            steps[-1] = (*steps[-1][:3], None)
        elif owes:
            totals["refills"] += int(deck.sum() < (2 if rank == 12 else 4))
            steps[-1] = (*steps[-1][:3], None)
            steps.append((60, np.array(after["deck"]), color, after))
    totals["steps"] += len(steps)
    return steps


def _type(table: dict[str, Any]) -> int:
    return table["rank"] + 39 if table["rank"] >= 13 else table["color"] * 13 + table["rank"]


def states_of(tables: list[dict[str, Any]]) -> Any:
    """Make the states [G] of some tables, at which no penalty is pending."""
    import jax.numpy as jnp

    from unojax import cards
    from unojax.game import State

    def onehots(name: str) -> Any:
        return jnp.asarray(cards.onehot_of(np.array([table[name] for table in tables])))

    def numbers(name: str) -> Any:
        return jnp.array([table[name] for table in tables], jnp.int8)

    n = len(tables)
    zero, nobody, no = jnp.zeros(n, jnp.int8), jnp.full(n, -1, jnp.int8), jnp.zeros(n, bool)
    return State(
        hands=onehots("hands"),
        deck=onehots("deck"),
        pile=onehots("pile"),
        top_rank=numbers("rank"),
        color=numbers("color"),
        current_player=numbers("player"),
        penalty=zero,
        terminated=no,
        truncated=no,
        winner=nobody,
        rewards=jnp.zeros((n, 2), jnp.float32),
        step_count=jnp.zeros(n, jnp.int32),
        error=jnp.zeros(n, jnp.uint8),
        last_action=nobody,
        rules=Rules.rlcard(),
        drawn=nobody,
        contested=nobody,
    )


def _replay(starts: list[dict[str, Any]], actions: Any, decks: Any, colors: Any) -> tuple[Any, Any]:
    """Play all games side by side: states and legal masks [T + 1, G], NumPy."""
    start = states_of(starts)

    def one_step(state: State, given: Any) -> Any:
        def one_game(state: State, action: Any, deck: Any, color: Any) -> State:
            return step_with(state, action, GivenCards(bits.pack(cards.onehot(deck)), color))

        after = jax.vmap(one_game)(state, *given)
        return after, (after, jax.vmap(legal_mask)(after))

    @jax.jit
    def run(start: State, *given: Any) -> Any:
        _, (states, masks) = jax.lax.scan(one_step, start, given)
        first = start, jax.vmap(legal_mask)(start)
        return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, (states, masks))

    return jax.device_get(run(start, actions, decks, colors))


def _same(table: dict[str, Any], states: Any, masks: Any, at: tuple[int, int]) -> None:
    found = {
        "hands": cards.count_types(states.hands[at]).tolist(),
        "deck": cards.count_types(states.deck[at]).tolist(),
        "pile": cards.count_types(states.pile[at]).tolist(),
        "rank": int(states.top_rank[at]),
        "color": int(states.color[at]),
        "player": int(states.current_player[at]),
        "legal": [] if states.terminated[at] else np.flatnonzero(masks[at]).tolist(),
        "winner": int(states.winner[at]),
    }
    # RLCard moves the turn on after the end, and lists a card as often as it is held.
    expected = table | {"legal": sorted(set(table["legal"]))}
    if table["winner"] >= 0:
        expected["player"] = found["player"]
    for name, value in expected.items():
        assert found[name] == value, f"step {at[0]} of game {at[1]}: {name} is {found[name]}, in RLCard {value}"
    assert not states.error[at], f"step {at[0]} of game {at[1]}: illegal here"


@pytest.mark.slow
def test_every_state_is_that_of_rlcard() -> None:
    pytest.importorskip("rlcard", reason="RLCard is not installed")
    totals = compare(games=500, seed=0)
    assert totals["games"] == 500 and totals["steps"] > totals["calls"] > 10_000 and totals["refills"] > 0
