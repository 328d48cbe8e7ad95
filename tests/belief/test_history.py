"""Two observations around a step: what is read off them, against what truly happened in random games."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from tests.belief.oracle import FULL, PASSING, THIN, Record, play_games
from unojax import bits, cards, game
from unojax.belief import history
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

BOTH = pytest.mark.parametrize("player", [0, 1])


@pytest.fixture(
    scope="module",
    params=[pytest.param(rules, marks=pytest.mark.slow) for rules in (FULL, PASSING)] + [THIN],
    ids=["full", "passing", "thin"],
)
def record(request: pytest.FixtureRequest) -> Record:
    if request.param is FULL:
        return some_lanes(play_games(seed=1, num_games=100, num_steps=100, rules=FULL), 40)
    return some_lanes(play_games(seed=3, num_games=300, num_steps=25, rules=request.param), 200)


def some_lanes(record: Record, num: int) -> Record:
    return jax.tree.map(lambda rows: rows[:, :num], record)


def steps(record: Record, player: int) -> tuple[Observation, Observation]:
    seen = record.observations[player]
    return jax.tree.map(lambda x: x[:-1], seen), jax.tree.map(lambda x: x[1:], seen)


@jax.jit
def told(before: Observation, after: Observation) -> dict[str, Array]:
    """All facts about steps with axes [T, G], in one program."""

    def one(before: Observation, after: Observation) -> dict[str, Array]:
        action = history.infer_action(before, after)
        return {
            "infer_action": action,
            "is_one_step": history.is_one_step(before, after),
            "opponent_moved": history.opponent_moved(before),
            "opponent_drew": history.opponent_drew(before, after),
            "observer_drew": history.observer_drew(before, after),
            "reshuffled": history.reshuffled(before, after),
            "unseen_at_draw": history.unseen_at_draw(before, after),
            "unseen_words": cards.counts(bits.unpack(history.unseen_words(before))),
            "opponent_could_not_play": history.opponent_could_not_play(before, action),
            "playable_types": history.playable_types(before.color, before.top_rank),
        }

    return jax.vmap(jax.vmap(one))(before, after)


def counts(onehot: Array) -> np.ndarray:
    """Copies of each type, in NumPy."""
    return np.asarray(onehot, int) @ np.eye(cards.NUM_TYPES, dtype=int)[cards.TYPE_OF_SLOT]


@BOTH
def test_infer_action(record: Record, player: int) -> None:
    happened = record.happened
    inferred = np.asarray(told(*steps(record, player))["infer_action"])
    assert inferred.dtype == np.int32
    np.testing.assert_array_equal(inferred, happened)
    live = ~record.states.terminated[:-1]
    assert (happened[live] == game.NO_ACTION).any(), "no illegal action was tried"
    assert (happened[~live] == game.NO_ACTION).all()
    assert (~live).any()


@BOTH
def test_infer_action_ignores_last_action(record: Record, player: int) -> None:
    before, after = (replace(o, last_action=np.zeros_like(o.last_action)) for o in steps(record, player))
    np.testing.assert_array_equal(told(before, after)["infer_action"], record.happened)


def test_the_games_hold_the_traps(record: Record) -> None:
    """Plays that leave the top card equal, and (small decks) impossible draws that end the game, occur in the games above."""
    s, happened = record.states, record.happened
    same_top = (s.top_rank[1:] == s.top_rank[:-1]) & (s.color[1:] == s.color[:-1])
    assert (same_top & (happened >= 0) & (happened != cards.DRAW)).sum() > 20
    ended = s.terminated[1:] & ~s.terminated[:-1]
    assert (ended & (happened == cards.DRAW)).sum() > 20 or s.deck.shape[0] > 100


@BOTH
def test_draws_and_reshuffles(record: Record, player: int) -> None:
    facts = told(*steps(record, player))
    s, drew = record.states, record.happened == cards.DRAW
    own, other = s.hands[:, :, player], s.hands[:, :, 1 - player]
    mine = s.current_player[:-1] == player

    np.testing.assert_array_equal(facts["opponent_moved"], ~mine)
    np.testing.assert_array_equal(
        facts["opponent_drew"],
        np.where(drew & ~mine, other[1:].sum(-1) - other[:-1].sum(-1), 0),
    )
    np.testing.assert_array_equal(
        facts["observer_drew"],
        np.where((drew & mine)[..., None], counts(own[1:]) - counts(own[:-1]), 0),
    )
    truly = drew & (s.pile[1:].sum(-1) == 1) & (s.pile[:-1].sum(-1) > 1)
    np.testing.assert_array_equal(facts["reshuffled"], truly)
    assert truly.any() or s.deck.shape[0] > 100, "no reshuffle on the small decks"

    # What opponent and deck held before the draw, with the reshuffled pile, they hold after it, but for the observer's own draw.
    held_after = counts(other[1:]) + counts(s.deck[1:]) + np.where(mine[..., None], counts(own[1:]) - counts(own[:-1]), 0)
    np.testing.assert_array_equal(np.asarray(facts["unseen_at_draw"])[drew], held_after[drew])
    np.testing.assert_array_equal(facts["unseen_words"], counts(other[:-1]) + counts(s.deck[:-1]))


@BOTH
def test_every_real_micro_step_is_one(record: Record, player: int) -> None:
    """Illegal attempts, ends, and steps that a finished game ignores included."""
    assert np.asarray(told(*steps(record, player))["is_one_step"]).all()


def flip(mask: np.ndarray, slots: np.ndarray) -> np.ndarray:
    """Sets with a slot each turned over: bool[T, G, 108], int[T, G]."""
    return mask ^ (np.arange(cards.NUM_CARDS) == slots[..., None])


def test_what_is_no_micro_step_is_told(record: Record) -> None:
    """A skipped turn, another player's view, and each field of what was seen changed, one at a time."""
    before, after = steps(record, 0)
    live = (record.happened >= 0) & ~after.terminated
    twice = live[:-1] & live[1:]
    # Of the same shape, for the same program; the last rows say nothing.
    skipped = told(before, jax.tree.map(lambda x: np.concatenate([x[1:], x[-1:]]), after))
    assert not np.asarray(skipped["is_one_step"])[:-1][twice].any()
    backwards = told(after, before)["is_one_step"]
    assert not np.asarray(backwards)[live].any()
    others = told(before, steps(record, 1)[1])["is_one_step"]
    assert not np.asarray(others)[live].any()
    other_games = told(before, jax.tree.map(lambda x: np.roll(x, 1, axis=1), after))["is_one_step"]
    assert np.asarray(other_games)[live].mean() < 0.02, "two games may look the same by chance"

    drew = record.happened == cards.DRAW
    rng = np.random.default_rng(0)
    anywhere = rng.integers(0, cards.NUM_CARDS, live.shape)
    wrong = {
        "opponent_count": replace(after, opponent_count=after.opponent_count + np.int8(1)),
        "deck_count": replace(after, deck_count=after.deck_count - np.int8(1)),
        "current_player": replace(after, current_player=1 - after.current_player),
        "penalty": replace(after, penalty=2 - after.penalty),
        "terminated": replace(after, terminated=~after.terminated),
        "hand": replace(after, hand=flip(after.hand, anywhere)),
        "pile": replace(after, pile=flip(after.pile, anywhere)),
        "player": replace(after, player=1 - after.player),
    }
    for name, seen in wrong.items():
        assert not np.asarray(told(before, seen)["is_one_step"])[live].any(), name
    # A draw leaves the top card as it was; a play may look like one of another colour or rank only if the card is another one.
    for name, seen in {
        "color": replace(after, color=(after.color + np.int8(1)) % np.int8(4)),
        "top_rank": replace(after, top_rank=(after.top_rank + np.int8(1)) % np.int8(15)),
    }.items():
        assert not np.asarray(told(before, seen)["is_one_step"])[live & drew].any(), name
        wild = after.top_rank >= cards.WILD
        assert not np.asarray(told(before, seen)["is_one_step"])[live & ~drew & ~wild].any(), name


is_one_step = jax.jit(history.is_one_step)


def drawn(before: Observation, card: str) -> Observation:
    """What the observer would see after a draw of one card."""
    held = cards.count_types(np.asarray(before.hand))
    held[cards.TYPE_NAMES.index(card)] += 1
    return replace(
        before, hand=jnp.asarray(cards.onehot_of(held)), deck_count=before.deck_count - jnp.int8(1), current_player=jnp.int8(1)
    )


@pytest.mark.parametrize(
    ("mine", "card", "is_possible"),
    [("B1 B2", "Y3", True), ("B1 B2", "R5", True), ("B1 R2", "Y3", False), ("B1 W", "Y3", False), ("B1 B2", "G9", False)],
    ids=["any card", "one that fits", "could play", "could play a wild", "both copies lie on the pile"],
)
def test_own_draws(mine: str, card: str, is_possible: bool) -> None:
    before = observe(make_state(mine, "B5", "R5", pile="G9 G9"), 0)
    assert bool(is_one_step(before, drawn(before, card))) == is_possible


def test_an_action_belongs_if_it_is_the_one_shown() -> None:
    before = observe(make_state("B1 B2", "B5", "R5"), 0)
    after = drawn(before, "Y3")
    belongs = jax.jit(history.belongs)
    assert belongs(before, jnp.int32(cards.DRAW), after)
    assert not belongs(before, jnp.int32(3), after)
    assert not belongs(before, jnp.int32(game.NO_ACTION), after)
    # Whatever was refused, nothing happened.
    assert all(belongs(before, jnp.int32(action), before) for action in (game.NO_ACTION, 3, cards.DRAW))


def test_rules_that_differ_are_refused() -> None:
    before = observe(make_state("B1 B2", "B5", "R5"), 0)
    with pytest.raises(ValueError, match="skip_forfeits"):
        history.is_one_step(before, replace(before, rules=Rules(skip_forfeits=False)))


@BOTH
def test_could_not_play(record: Record, player: int) -> None:
    facts, s = told(*steps(record, player)), record.states
    could_not = np.asarray(facts["opponent_could_not_play"])
    theirs = np.asarray(s.current_player[:-1] != player)
    np.testing.assert_array_equal(could_not, theirs & (record.happened == cards.DRAW) & (s.penalty[:-1] == 0))

    holds_one = np.any(facts["playable_types"] & (counts(s.hands[:-1, :, 1 - player]) > 0), axis=-1)
    assert could_not.any()
    assert not holds_one[could_not].any()
    live = theirs & (record.happened >= 0) & (s.penalty[:-1] == 0)
    np.testing.assert_array_equal(holds_one[live], ~could_not[live])


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
