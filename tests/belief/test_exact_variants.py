"""The exact filter under rules that people play, against all worlds that could be, each played by the oracle in plain Python."""

from __future__ import annotations

import math
from collections import Counter

import jax
import numpy as np
import pytest

from tests.helpers import deck_of, play
from tests.oracle import game as oracle
from tests.oracle.chain import draws, successors
from tests.oracle.positions import to_oracle
from unojax.belief.exact import exact_init, exact_update
from unojax.belief.history import infer_action
from unojax.observation import Observation, observe
from unojax.rules import Rules

SMALL = {"deck": deck_of("R1 R1 RS R+2 R+2 Y1 YR Y2 Y+2 W W W+4 W+4 B3"), "hand_size": 3}
VARIANTS = {
    "official": Rules.official(**SMALL),
    "house": Rules.house(**SMALL),
    "rlcard": Rules.rlcard(**SMALL),
    "all at will": Rules.official(stacking=True, draw_until_playable=True, skip_forfeits=False, **SMALL),
    "no wild+4 beside the colour": Rules(wild_draw_four="no_color", play_drawn="may", stacking=True, **SMALL),
    "until, the last resort": Rules(draw_until_playable=True, wild_draw_four="last", may_draw=True, reshuffle_top=True, **SMALL),
    "auto until": Rules.rlcard(draw_until_playable=True, may_draw=True, stacking=True, **SMALL),
}

Worlds = list[tuple[oracle.Game, float]]

_observe = jax.jit(jax.vmap(observe, in_axes=(0, None)))
_infer = jax.jit(infer_action)


def worlds_of(told: oracle.Game, observer: int) -> Worlds:
    """All positions that look the same to an observer without a past, with their probabilities."""
    hidden = 1 - observer
    unseen = told.deck + told.hands[hidden]
    worlds = []
    for hand, prob in draws(unseen, told.hands[hidden].total()):
        world = told.copy()
        world.hands[hidden], world.deck = hand, unseen - hand
        worlds.append((world, prob))
    return worlds


def sight(world: oracle.Game, observer: int) -> tuple:
    """What an observer sees."""
    own = frozenset((+world.hands[observer]).items())
    turn = (world.player, world.penalty, world.drawn is not None, world.contested, world.terminated)
    mine = world.drawn if world.player == observer else None
    sizes = (world.hands[1 - observer].total(), world.deck.total())
    return own, frozenset((+world.pile).items()), sizes, world.top, world.color, turn, mine, world.last_action


def follow(worlds: Worlds, observer: int, action: int, told: oracle.Game) -> tuple[Worlds, float]:
    """Condition the worlds on a step, after which the true one is `told`; and the probability of what was seen."""
    merged: dict[tuple, tuple[oracle.Game, float]] = {}
    seen = sight(told, observer)
    for world, prob in worlds:
        legal = world.legal_actions()
        if action not in legal:
            continue
        by_choice = 1.0 if world.player == observer else 1.0 / len(legal)
        for after, chance in successors(world, action):
            if sight(after, observer) == seen:
                key = frozenset((+after.hands[1 - observer]).items()), after.drawn
                before = merged[key][1] if key in merged else 0.0
                merged[key] = after, before + prob * by_choice * chance
    total = sum(prob for _, prob in merged.values())
    return [(world, prob / total) for world, prob in merged.values()], total


def check_game(states, observer: int, rules: Rules) -> Counter[str]:
    """Compare the filter with the worlds after every step of one game."""
    views = jax.device_get(_observe(states, np.int32(observer)))

    def view(t: int) -> Observation:
        return jax.tree.map(lambda x: x[t], views)

    def told_at(t: int) -> oracle.Game:
        return to_oracle(jax.tree.map(lambda x: x[t], states), rules)

    told, seen = told_at(0), Counter()
    belief, worlds = exact_init(view(0)), worlds_of(told, observer)
    for t in range(len(states.terminated) - 1):
        if states.terminated[t]:
            break
        before, after = view(t), view(t + 1)
        action = int(_infer(before, after))
        if action < 0:
            # An illegal action; or, hardly ever, a Skip that is all there is in deck and pile and comes up again.
            if states.step_count[t + 1] != states.step_count[t]:
                assert rules.play_drawn == "auto"
                assert states.deck[t].sum() + states.pile[t].sum() == 1
                break
            continue
        assert action == states.last_action[t + 1]
        told = told_at(t + 1)
        worlds, evidence = follow(worlds, observer, action, told)
        belief, log_evidence = exact_update(belief, before, action, after)
        assert log_evidence == pytest.approx(math.log(evidence), abs=1e-5)
        hands, probs = belief.hands()
        found = {tuple(counts): prob for counts, prob in zip(hands.tolist(), probs.tolist(), strict=True)}
        expected: dict[tuple, float] = {}
        for world, prob in worlds:
            hand = tuple(world.hands[1 - observer][card] for card in oracle.CARDS)
            expected[hand] = expected.get(hand, 0.0) + prob
        assert found.keys() == expected.keys()
        np.testing.assert_allclose([found[key] for key in expected], list(expected.values()), atol=1e-6)
        kind = "draw" if action == 60 else "challenge" if action == 61 else "play"
        seen[f"{'own' if before.is_my_turn else 'their'} {kind}"] += 1
        seen["their turn goes on"] += bool(after.has_drawn) and not bool(after.is_my_turn)
    return seen


def check_games(name: str, number: int, num_steps: int = 24) -> Counter[str]:
    rules, seen = VARIANTS[name], Counter()
    games = play(3, num_games=number, num_steps=num_steps, rules=rules)
    for index in range(number):
        seen += check_game(jax.tree.map(lambda x, i=index: x[i], games.states), index % 2, rules)
    return seen


def test_few_games_agree_with_all_worlds_that_could_be():
    seen = check_games("all at will", 4)
    assert seen["their draw"]
    assert seen["their play"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS)
def test_more_games_of_every_variant_agree_with_all_worlds_that_could_be(name: str):
    seen = check_games(name, 24, 40)
    rules = VARIANTS[name]
    assert bool(seen["their turn goes on"]) == (rules.play_drawn == "may" or rules.draw_until_playable)
    assert bool(seen["their challenge"] and seen["own challenge"]) == (rules.wild_draw_four == "challenge")
