"""Games as lists of positions, played by policies and read from lists of actions."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of, refusals
from unojax import Observation, Rules, cards, game, parse_position
from unojax.decks import small_deck
from unojax.games.record import Trajectory, play_game
from unojax.games.replay import play, replay
from unojax.policies import POLICIES, Policy, uniform
from unojax.pomdp import transition_log_prob

RULES = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=3)
KEY = jax.random.key(0)
FEW = Rules(deck=small_deck(colors=2, ranks=(*range(4), 10, 12), copies=1, wilds=1), hand_size=3)
EMPTY_DECK = "Y0,Y1/R0,R1,RS,Y3/R2,R3,Y2,YS,Y+2,W,W+4/0 R+2 0 2 0 - *"


@partial(jax.jit, static_argnames="policies")
def play_64(keys: jax.Array, policies: tuple[Policy, Policy]) -> tuple[Trajectory, jax.Array, jax.Array]:
    """Return 64 games, log T of their steps, and the legal masks before them."""
    games = jax.vmap(partial(play_game, policies=policies, num_steps=60, rules=RULES))(keys)
    before, after = (jax.tree.map(lambda leaf, t=t: leaf[:, t : t + 60], games.states) for t in (0, 1))
    log_prob = jax.vmap(jax.vmap(transition_log_prob))(before, games.actions, after)
    return games, log_prob, jax.vmap(jax.vmap(game.legal_mask))(before)


def test_positions_follow_from_one_another_and_the_last_is_repeated():
    """The key decides the game, and each player follows its own policy.

    One policy plays wild cards first, the other last, so a play with both kinds in hand identifies the policy.
    """
    pair = (POLICIES["wilds-first"], POLICIES["keep-wilds"])
    keys = jax.random.split(jax.random.key(1), 32)
    games, log_prob, masks = jax.device_get(play_64(jax.tree.map(lambda k: jnp.concatenate([k, k]), keys), pair))
    before, after = (jax.tree.map(lambda leaf, t=t: leaf[:, t : t + 60], games.states) for t in (0, 1))
    actions, over = games.actions, before.terminated | before.truncated
    np.testing.assert_array_equal(actions == game.NO_ACTION, over)
    assert 0 < over.mean() < 1 and not after.error.any()
    assert np.isfinite(log_prob).all()
    np.testing.assert_array_equal(after.last_action[~over], actions[~over])
    for hand in ("hands", "deck", "pile", "winner"):
        np.testing.assert_array_equal(getattr(after, hand)[over], getattr(before, hand)[over])
    np.testing.assert_array_equal(actions[:32], actions[32:])
    assert len(np.unique(actions[:32], axis=0)) > 16

    wild = np.arange(61) % 15 >= 13
    both = (masks[..., :60] & wild[:60]).any(-1) & (masks[..., :60] & ~wild[:60]).any(-1) & ~over
    for player, expected in ((0, True), (1, False)):
        mine = both & (before.current_player == player)
        assert mine.sum() > 10 and (wild[actions][mine] == expected).all()


def test_a_game_with_an_illegal_action_is_refused():
    def always_draws(key: jax.Array, observation: Observation, legal_mask: jax.Array) -> jax.Array:
        return jnp.int32(cards.DRAW)

    with pytest.raises(ValueError, match=r"the policy of player 0 chose action 60 in step \d+, which is not legal there"):
        play(jax.random.key(3), (always_draws, uniform), rules=RULES)
    refusals({"num_steps": lambda: play_game(jax.random.key(3), num_steps=-1)})


def test_cards_drawn_come_as_given_and_are_written_as_read():
    """Under rules that play some drawn cards at once, the others go to the hand."""
    start = parse_position(EMPTY_DECK, rules=FEW)
    played = replay(start, "draw(R2,R3) R1 R2 RS Y3", KEY, max_steps=3)
    assert " ".join(step.notation(with_cards=True) for step in played.steps) == "draw(R2,R3) R1 R2"
    first = played.steps[0]
    assert (first.notation(with_cards=False), first.drawn, first.reshuffled) == ("draw", "R2 R3", True)
    start = parse_position("B1/G1/-/* R9 0 0 0 - *", rules=Rules.rlcard())
    for token in ("draw(W:B)", "draw(R5)", "draw(G3)"):
        assert replay(start, token, KEY).steps[0].notation(with_cards=True) == token
    few = Rules(play_drawn="auto", deck=deck_of("R1 R2 Y1 Y2 Y3"), hand_size=1)
    step = replay(parse_position("Y3/Y1,Y2/R1/0 R2 0 0 0 - *", rules=few), "draw(R1)", KEY).steps[0]
    assert (step.laid, step.reshuffled) == ("R1", True)


def test_other_arguments_are_refused_and_a_game_is_shown_in_a_line():
    start = parse_position(EMPTY_DECK, rules=FEW)
    listed, number = cast(Any, ["draw"]), cast(Any, 0)
    refusals({"actions must be text": lambda: replay(start, listed, KEY)})
    refusals({"replay takes a random key": lambda: replay(start, "draw", number)})
    assert repr(replay(start, "", KEY)) == f"<Replay of 0 steps, {start!r}>"


def test_draws_that_can_not_have_been_are_refused():
    def read(token: str, position: str = "B1/G1/-/* R9 0 0 0 - *", rules: str = "rlcard") -> partial:
        return partial(replay, parse_position(position, rules=rules), token, KEY)

    refusals({f"draw(W:B) ({token})": read(token) for token in ("draw(W)", "draw(W:)", "draw(W:YB)", "draw(R5:B)", "draw(B9:G)")})
    refusals(
        {
            "a pass": read("draw(G3)", "B1,R2/G1/-/* R9 0+R2 0 1 draw *", "official"),
            "no other draw": read("draw(W:B)", rules="default"),
            "the deck holds 0 x R+2": partial(replay, parse_position(EMPTY_DECK, rules=FEW), "draw(R+2,R2)", KEY),
        }
    )
