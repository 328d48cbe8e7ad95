"""Facts inferred from two observations around a transition, against the true states."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
import pytest

from tests import corpus
from tests.belief.games import RULES, Games, games_of
from tests.helpers import counts_of, deck_of, refusals, slow_but
from unojax import bits, cards, game
from unojax.belief import history
from unojax.games.replay import replay
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

PROGRAMS: Final = 80  # in the slow part, several for each rule set

NUM_GAMES = 60


def some_games(name: str) -> Games:
    """Return games of a rule set; "full" is the full deck."""
    if name != "full":
        games = games_of(RULES[name])
        return jax.tree.map(lambda x: x[:NUM_GAMES], games)
    states = corpus.games("default").states
    seen = corpus.views("default", 0), corpus.views("default", 1)
    actions = np.where(np.diff(states.step_count, axis=1) > 0, states.last_action[:, 1:], game.NO_ACTION)
    return jax.tree.map(lambda x: x[:NUM_GAMES], Games(states, seen, actions))


def around(seen: Observation) -> tuple[Observation, Observation]:
    """Return the observations before and after each step, [G, T]."""
    return jax.tree.map(lambda x: x[:, :-1], seen), jax.tree.map(lambda x: x[:, 1:], seen)


@jax.jit
@jax.vmap
@jax.vmap
def facts_of(before: Observation, after: Observation) -> dict[str, jax.Array]:
    """Return all facts about transitions, [G, T]."""
    action = history.infer_action(before, after)
    return {
        "infer_action": action,
        "is_one_step": history.is_one_step(before, after),
        "opponent_moved": history.opponent_moved(before),
        "opponent_drew": history.opponent_drew(before, after),
        "observer_drew": history.observer_drew(before, after),
        "reshuffled": history.read_step(before, after).reshuffled,
        "unseen_at_draw": history.read_step(before, after).unseen,
        "unseen_words": cards.counts(bits.unpack(history.unseen_words(before))),
        "opponent_could_not_play": history.opponent_could_not_play(before, action),
        "playable_types": history.playable_types(before.color, before.top_rank),
    }


@pytest.mark.parametrize("name", slow_but(["thin"], ["full", *RULES]))
def test_facts_are_those_of_the_true_states(name: str) -> None:
    """Contract: `infer_action(before, after)` recovers the action, also without the last action."""
    games = some_games(name)
    states, actions, drew = games.states, games.actions, games.actions == cards.DRAW
    rules = states.rules
    # In these games a card that is drawn and laid at once comes up unnoticed; they end there.
    known = (actions >= 0) | (states.step_count[:, 1:] == states.step_count[:, :-1])
    live = ~states.terminated[:, :-1] & known
    assert (actions[live] == game.NO_ACTION).any() and (~live).any(), "no illegal action was tried, or no game ends"
    for seat in (0, 1):
        before, after = around(games.seen[seat])
        facts = jax.device_get(facts_of(before, after))
        assert facts["infer_action"].dtype == np.int32
        np.testing.assert_array_equal(facts["infer_action"][known], actions[known])
        blind = facts_of(*(replace(seen, last_action=np.zeros_like(seen.last_action)) for seen in (before, after)))
        np.testing.assert_array_equal(np.asarray(blind["infer_action"])[known], actions[known])
        assert facts["is_one_step"][known].all()

        own, other = counts_of(states.hands[:, :, seat]), counts_of(states.hands[:, :, 1 - seat])
        deck, mine = counts_of(states.deck), states.current_player[:, :-1] == seat
        np.testing.assert_array_equal(facts["opponent_moved"], ~mine)
        np.testing.assert_array_equal(facts["unseen_words"], other[:, :-1] + deck[:, :-1])
        if rules.play_drawn == "auto":
            continue
        gained = np.where((drew & mine)[..., None], own[:, 1:] - own[:, :-1], 0)
        np.testing.assert_array_equal(facts["observer_drew"], gained)
        number = np.where(drew & ~mine, other[:, 1:].sum(-1) - other[:, :-1].sum(-1), 0)
        np.testing.assert_array_equal(facts["opponent_drew"], number)
        # After a draw, opponent and deck hold the cards from before it, with a reshuffled pile, without those the observer drew.
        np.testing.assert_array_equal(facts["unseen_at_draw"][drew], (other[:, 1:] + deck[:, 1:] + gained)[drew])
        pile = states.pile.sum(-1)
        shuffled = drew & (pile[:, 1:] < pile[:, :-1])
        np.testing.assert_array_equal(facts["reshuffled"], shuffled)
        assert shuffled.any() or name == "full"
        if rules.has_plain_turns:
            assert (shuffled <= (pile[:, 1:] == 1)).all()
            could_not, free = facts["opponent_could_not_play"], ~mine & (states.penalty[:, :-1] == 0)
            np.testing.assert_array_equal(could_not, free & drew)
            holds = (facts["playable_types"] & (other[:, :-1] > 0)).any(-1)
            of_actions = free & (actions >= 0)
            np.testing.assert_array_equal(holds[of_actions], ~could_not[of_actions])


def test_the_games_hold_the_traps() -> None:
    """Contract: a second red 5 on a red 5 leaves the top card equal."""
    games = some_games("thin")
    states = games.states
    same_top = (states.top_rank[:, 1:] == states.top_rank[:, :-1]) & (states.color[:, 1:] == states.color[:, :-1])
    assert (same_top & (games.actions >= 0) & (games.actions != cards.DRAW)).sum() > 20


def test_what_is_no_transition_is_found() -> None:
    """A skipped turn, another player's view, and each field of an observation changed."""
    games = some_games("thin")
    before, after = around(games.seen[0])
    live, rng = (games.actions >= 0) & ~after.terminated, np.random.default_rng(0)
    anywhere = np.arange(cards.NUM_CARDS) == rng.integers(0, cards.NUM_CARDS, live.shape)[..., None]

    def is_one_step(before: Observation, after: Observation) -> np.ndarray:
        return np.asarray(facts_of(before, after)["is_one_step"])

    # Of the same shape, for the same program; the last columns say nothing.
    skipped = is_one_step(before, jax.tree.map(lambda x: np.concatenate([x[:, 1:], x[:, -1:]], 1), after))
    assert not skipped[:, :-1][live[:, :-1] & live[:, 1:]].any()
    other_games = is_one_step(before, jax.tree.map(lambda x: np.roll(x, 1, axis=0), after))
    assert other_games[live].mean() < 0.02, "two games may look the same by chance"
    draws, wild = games.actions == cards.DRAW, after.top_rank >= cards.WILD
    changed: dict[str, tuple[Any, np.ndarray]] = {
        "opponent_count": (after.opponent_count + np.int8(1), live),
        "deck_count": (after.deck_count - np.int8(1), live),
        "current_player": (1 - after.current_player, live),
        "penalty": (2 - after.penalty, live),
        "terminated": (~after.terminated, live),
        "hand": (after.hand ^ anywhere, live),
        "pile": (after.pile ^ anywhere, live),
        "player": (1 - after.player, live),
        # A play of a wild card may look like one of another colour or rank.
        "color": ((after.color + np.int8(1)) % np.int8(4), live & (draws | ~wild)),
        "top_rank": ((after.top_rank + np.int8(1)) % np.int8(15), live & (draws | ~wild)),
    }
    assert not is_one_step(after, before)[live].any(), "backwards"
    assert not is_one_step(before, around(games.seen[1])[1])[live].any(), "another player"
    for name, (value, where) in changed.items():
        assert not is_one_step(before, replace(after, **{name: value}))[where].any(), name


def test_imagining_the_true_hand_gives_the_opponents_view() -> None:
    games = some_games("thin")
    imagine = jax.jit(jax.vmap(jax.vmap(history.imagine)))
    for seat in (0, 1):
        theirs, imagined = games.seen[1 - seat], imagine(games.seen[seat], games.states.hands[:, :, 1 - seat])
        assert jax.tree.structure(imagined) == jax.tree.structure(theirs)
        for name in ("player", "hand", "pile", "opponent_count", "deck_count", "top_rank", "color", "penalty", "current_player"):
            found, expected = getattr(imagined, name), getattr(theirs, name)
            np.testing.assert_array_equal(found, expected, err_msg=name)
            assert found.dtype == expected.dtype, name


def drawn(before: Observation, card: str) -> Observation:
    """Return the observer's view after drawing a card."""
    held = cards.count_types(before.hand) + (np.arange(cards.NUM_TYPES) == cards.TYPE_NAMES.index(card))
    turn = {"deck_count": before.deck_count - np.int8(1), "current_player": np.int8(1)}
    return replace(before, hand=cards.onehot_of(held), **turn)


def test_own_draws() -> None:
    """An action must be the one shown; without an event any rejected action is accepted."""
    belongs, draw = jax.jit(history.belongs), np.int32(cards.DRAW)
    for mine, card, is_possible in (
        ("B1 B2", "Y3", True),
        ("B1 B2", "R5", True),
        # The player could have played, or both copies lie on the pile.
        ("B1 R2", "Y3", False),
        ("B1 W", "Y3", False),
        ("B1 B2", "G9", False),
    ):
        before = jax.device_get(observe(make_state(mine, "B5", "R5", pile="G9 G9"), 0))
        after = drawn(before, card)
        assert bool(belongs(before, draw, after)) == is_possible, (mine, card)
        assert not any(belongs(before, np.int32(action), after) for action in (3, game.NO_ACTION))
        assert all(belongs(before, np.int32(action), before) for action in (game.NO_ACTION, 3, cards.DRAW))
    refusals({"skip_forfeits": lambda: history.is_one_step(before, replace(before, rules=Rules(skip_forfeits=False)))})


@pytest.mark.parametrize(("deck", "is_possible"), [("R2 R3", False), ("R2 Y9", True)])
def test_a_turn_ends_only_by_a_card_that_could_not_be_played(deck: str, is_possible: bool) -> None:
    """A draw and a pass look like one draw, which a playable card does not explain."""
    rules = Rules(play_drawn="may", deck=deck_of(f"R1 B3 R5 {deck}"), hand_size=1)
    played = replay(make_state("R1", "B3", "R5", player=1, rules=rules), "draw(R2) draw", jax.random.key(0))
    before, in_turn, at_end = played.observations(0)
    belongs, draw = jax.jit(history.belongs), np.int32(cards.DRAW)
    assert belongs(before, draw, in_turn) and belongs(in_turn, draw, at_end)
    assert bool(belongs(before, draw, at_end)) == is_possible


def test_playable_types() -> None:
    """Contract: a card is playable if it is Wild or Wild+4, of the active colour, or of the rank of the top card."""
    playable_types = jax.jit(history.playable_types)
    for color, rank, names in (
        (cards.RED, 5, "R0 R1 R2 R3 R4 R5 R6 R7 R8 R9 RS RR R+2 Y5 B5 G5 W W+4"),
        # A declared colour, and no rank to match: other wild cards are playable anyway.
        (cards.GREEN, cards.WILD, "G0 G1 G2 G3 G4 G5 G6 G7 G8 G9 GS GR G+2 W W+4"),
        (cards.BLUE, cards.WILD_DRAW_FOUR, "B0 B1 B2 B3 B4 B5 B6 B7 B8 B9 BS BR B+2 W W+4"),
    ):
        assert {cards.TYPE_NAMES[t] for t in np.flatnonzero(playable_types(color, rank))} == set(names.split())
