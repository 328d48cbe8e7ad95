"""What two observations tell, against what truly happened in random games."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from jax import Array

from tests.belief.oracle import FULL, PASSING, THIN, Record, play_games
from unojax import cards, game
from unojax.belief import history
from unojax.observation import Observation

BOTH = pytest.mark.parametrize("player", [0, 1])


@pytest.fixture(scope="module", params=[FULL, PASSING, THIN], ids=["full", "passing", "thin"])
def record(request: pytest.FixtureRequest) -> Record:
    if request.param is FULL:
        return play_games(seed=1, num_games=300, num_steps=100, rules=FULL)
    return play_games(seed=3, num_games=300, num_steps=25, rules=request.param)


def steps(record: Record, player: int) -> tuple[Observation, Observation]:
    seen = record.observations[player]
    return jax.tree.map(lambda x: x[:-1], seen), jax.tree.map(lambda x: x[1:], seen)


def over_steps(fn, *args):
    return np.asarray(jax.jit(jax.vmap(jax.vmap(fn)))(*args))


def counts(onehot: Array) -> np.ndarray:
    """Copies of each type, in NumPy."""
    return np.asarray(onehot, int) @ np.eye(cards.NUM_TYPES, dtype=int)[cards.TYPE_OF_SLOT]


@BOTH
def test_infer_action(record: Record, player: int) -> None:
    happened = record.happened
    inferred = over_steps(history.infer_action, *steps(record, player))
    assert inferred.dtype == np.int32
    np.testing.assert_array_equal(inferred, happened)
    live = ~record.states.terminated[:-1]
    assert (happened[live] == game.NO_ACTION).any(), "no illegal action was tried"
    assert (happened[~live] == game.NO_ACTION).all()
    assert (~live).any()


@BOTH
def test_infer_action_ignores_last_action(record: Record, player: int) -> None:
    before, after = (replace(o, last_action=np.zeros_like(o.last_action)) for o in steps(record, player))
    np.testing.assert_array_equal(over_steps(history.infer_action, before, after), record.happened)


def test_the_games_hold_the_traps(record: Record) -> None:
    """Plays that leave the top card equal, and (small decks) impossible draws that end the game, occur in the games above."""
    s, happened = record.states, record.happened
    same_top = (s.top_rank[1:] == s.top_rank[:-1]) & (s.color[1:] == s.color[:-1])
    assert (same_top & (happened >= 0) & (happened != cards.DRAW)).sum() > 20
    ended = s.terminated[1:] & ~s.terminated[:-1]
    assert (ended & (happened == cards.DRAW)).sum() > 20 or s.deck.shape[0] > 100


@BOTH
def test_draws_and_reshuffles(record: Record, player: int) -> None:
    before, after = steps(record, player)
    s, drew = record.states, record.happened == cards.DRAW
    own, other = s.hands[:, :, player], s.hands[:, :, 1 - player]
    mine = s.current_player[:-1] == player

    np.testing.assert_array_equal(over_steps(history.opponent_moved, before), ~mine)
    np.testing.assert_array_equal(
        over_steps(history.opponent_drew, before, after),
        np.where(drew & ~mine, other[1:].sum(-1) - other[:-1].sum(-1), 0),
    )
    np.testing.assert_array_equal(
        over_steps(history.observer_drew, before, after),
        np.where((drew & mine)[..., None], counts(own[1:]) - counts(own[:-1]), 0),
    )
    truly = drew & (s.pile[1:].sum(-1) == 1) & (s.pile[:-1].sum(-1) > 1)
    np.testing.assert_array_equal(over_steps(history.reshuffled, before, after), truly)
    assert truly.any() or s.deck.shape[0] > 100, "no reshuffle on the small decks"

    # What opponent and deck held before the draw, with the reshuffled pile, they hold after it, but for the observer's own draw.
    held_after = counts(other[1:]) + counts(s.deck[1:]) + np.where(mine[..., None], counts(own[1:]) - counts(own[:-1]), 0)
    unseen = over_steps(history.unseen_at_draw, before, after)
    np.testing.assert_array_equal(unseen[drew], held_after[drew])


@BOTH
def test_could_not_play(record: Record, player: int) -> None:
    before, _ = steps(record, player)
    s = record.states
    told = over_steps(history.opponent_could_not_play, before, record.happened)
    theirs = np.asarray(s.current_player[:-1] != player)
    np.testing.assert_array_equal(told, theirs & (record.happened == cards.DRAW) & (s.penalty[:-1] == 0))

    playable = over_steps(history.playable_types, s.color[:-1], s.top_rank[:-1])
    holds_one = np.any(playable & (counts(s.hands[:-1, :, 1 - player]) > 0), axis=-1)
    assert told.any()
    assert not holds_one[told].any()
    live = theirs & (record.happened >= 0) & (s.penalty[:-1] == 0)
    np.testing.assert_array_equal(holds_one[live], ~told[live])


@BOTH
def test_imagining_the_true_hand_gives_the_opponents_view(record: Record, player: int) -> None:
    theirs = record.observations[1 - player]
    imagined = jax.jit(jax.vmap(jax.vmap(history.imagine)))(record.observations[player], record.states.hands[:, :, 1 - player])
    assert jax.tree.structure(imagined) == jax.tree.structure(theirs)
    for name in ("player", "hand", "pile", "opponent_count", "deck_count", "top_rank", "color", "penalty", "current_player"):
        got, want = getattr(imagined, name), getattr(theirs, name)
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert got.dtype == want.dtype, name


@pytest.mark.parametrize(
    ("color", "rank", "names"),
    [
        (cards.RED, 5, "R0 R1 R2 R3 R4 R5 R6 R7 R8 R9 RS RR R+2 Y5 B5 G5 W W+4"),
        # A declared colour, and no rank to match: other wild cards are playable anyway.
        (cards.GREEN, cards.WILD, "G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 GS GR G+2 W W+4"),
        (cards.BLUE, cards.WILD_DRAW_FOUR, "B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 BS BR B+2 W W+4"),
    ],
)
def test_playable_types(color: int, rank: int, names: str) -> None:
    playable = np.flatnonzero(np.asarray(history.playable_types(color, rank)))
    assert {cards.TYPE_NAMES[t] for t in playable} == set(names.split())
