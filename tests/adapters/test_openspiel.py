"""The game in OpenSpiel: its own tests, the engine's games, and its solvers against ours."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Final

import jax
import numpy as np
import pytest

pytest.importorskip("pyspiel", reason="open_spiel is not installed")

import pyspiel
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms import cfr, expected_game_score, exploitability, external_sampling_mccfr
from open_spiel.python.observation import make_observation

from tests.adapters.engine import RULES, every_rules, some_rules
from tests.adapters.engine import SMALL as CHEAP
from tests.helpers import assert_trees_equal, deck_of, jitted_mask, refusals, slow_but
from unojax import bits, cards, game, observe, parse_observation, solve
from unojax.adapters import openspiel
from unojax.rules import PRESETS, Rules
from unojax.text import format_cards

PROGRAMS: Final = 170  # a game of each rule set, and trees of small games
FIELDS = ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "terminated", "winner", "step_count")
FIELDS += ("last_action", "drawn", "contested")
SMALL = Rules(deck=deck_of("R1 R2 Y1 Y2 RS W"), hand_size=2, max_steps=4)
SMALLER = replace(SMALL, max_steps=3)
TINY = {"deck": deck_of("R1 Y1 Y+2 W W+4"), "hand_size": 1, "max_steps": 3}
TREES = {
    "default": SMALL,
    "official": Rules.official(points=False, **TINY),
    "rlcard": Rules.rlcard(**TINY),
    "house": Rules.house(**TINY),
    "until laid": Rules(draw_until_playable=True, play_drawn="auto", start_card="any", **TINY),
}


def start_of(spiel):
    """Return the first decision, after the first outcome of each chance node."""
    state = spiel.new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.chance_outcomes()[0][0])
    return state


@some_rules
def test_random_simulations_of_openspiel(name: str):
    """Random games, with and without serialisation."""
    pyspiel.random_sim_test(openspiel.load_game(RULES[name]), num_sims=2, serialize=True, verbose=False)


def test_the_simulation_of_openspiels_python_tests():
    games_sim_test = pytest.importorskip("open_spiel.python.tests.games_sim_test", reason="the wheel lacks its own tests")
    games_sim_test.GamesSimTest().sim_game(openspiel.load_game(CHEAP))


@pytest.mark.parametrize("name", slow_but(("default", "official"), TREES))
def test_the_full_tree(name: str):
    """Perfect recall, zero sum and chances of sum 1, as in OpenSpiel's `integration_tests/api_test.py`."""
    seen: dict[str, tuple] = {}
    nodes = 0

    def walk(state, recalls: tuple[tuple, tuple]) -> None:
        nonlocal nodes
        nodes += 1
        if state.is_terminal():
            assert sum(state.returns()) == pytest.approx(0)
            assert set(map(abs, state.returns())) <= {0.0, 1.0}
            return
        if state.is_chance_node():
            outcomes = state.chance_outcomes()
            assert sum(p for _, p in outcomes) == pytest.approx(1)
            for action, _ in outcomes:
                walk(state.child(action), recalls)
            return
        player = state.current_player()
        information = state.information_state_string(player)
        tensor = np.asarray(state.information_state_tensor(player)).tobytes()
        # The same information: the same legal actions, the same tensor, the same past information and actions of the player.
        about = (state.legal_actions(), tensor, recalls[player])
        assert seen.setdefault(information, about) == about
        for action in state.legal_actions():
            mine = (*recalls[player], (information, action))
            walk(state.child(action), (mine, recalls[1]) if player == 0 else (recalls[0], mine))

    walk(openspiel.load_game(TREES[name]).new_initial_state(), ((), ()))
    tensors = [about[1] for about in seen.values()]
    assert len(set(tensors)) == len(tensors) and nodes > 300


@every_rules
def test_games_are_the_engines(name: str):
    """Every step is a possible `unojax.step`, and a bot reads the observation's text."""
    rules, rng, steps = RULES[name], np.random.default_rng(0), 0
    spiel = openspiel.load_game(rules)
    take = jax.jit(lambda state, action, deck, color: game.step_with(state, action, game.GivenCards(deck, color)))
    look = jax.jit(observe)

    def pass_chance(state) -> None:
        while state.is_chance_node():
            actions, probs = zip(*state.chance_outcomes(), strict=True)
            assert sum(probs) == pytest.approx(1)
            state.apply_action(int(rng.choice(actions, p=probs)))

    while steps < 200:
        state = spiel.new_initial_state()
        pass_chance(state)
        ours, total = state.state(), np.zeros(2)
        drawn_at_start = sum(map(len, state.start_drawn))
        assert ours.deck.sum() == rules.num_cards - 2 * rules.hand_size - 1 - drawn_at_start
        while not state.is_terminal():
            player = state.current_player()
            assert player == ours.current_player
            assert state.legal_actions() == np.flatnonzero(jitted_mask(ours)).tolist()
            read = parse_observation(state.observation_string(player), rules=spiel.rules)
            assert_trees_equal(jax.device_get(read), jax.device_get(look(ours.replace(rules=spiel.rules), np.int8(player))))
            action = int(rng.choice(state.legal_actions()))
            state.apply_action(action)
            pass_chance(state)
            theirs = state.state()
            ours = jax.device_get(take(ours, np.int32(action), bits.pack(theirs.deck), theirs.color))
            for field in FIELDS:
                np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field), field)
            total += ours.rewards
            steps += 1
        assert ours.is_over or openspiel.MAX_STEPS == ours.step_count
        np.testing.assert_allclose(state.returns(), total, atol=1e-5)
        assert min(spiel.min_utility(), *state.returns()) == spiel.min_utility()


def test_chance_at_the_start_is_the_engines():
    """Cards, the colour of a wild card and the first player are uniform."""
    rules = Rules(deck=deck_of("R1 R1 Y2 W"), hand_size=1, start_card="any", first_player="random", max_steps=4)
    state = openspiel.load_game(rules).new_initial_state()
    for card in ("R1", "Y2"):
        state.apply_action(cards.TYPE_NAMES.index(card))
    outcomes = state.chance_outcomes()
    of_card = {card: sum(p for a, p in outcomes if a % cards.NUM_TYPES == card) for card in (1, cards.WILD_TYPE)}
    assert of_card == pytest.approx({1: 0.5, cards.WILD_TYPE: 0.5}) and len(outcomes) == 2 + 8
    children = [state.child(action) for action, _ in outcomes]
    assert {child.current_player() for child in children} == {0, 1}
    assert {int(child.state().color) for child in children} == {0, 1, 2, 3}


def test_exploitability_is_that_of_our_solver():
    """Compare OpenSpiel's best responses in its tree with ours in the sequence form."""
    rules = replace(SMALLER, deck=deck_of("R1 R1 Y1 Y2 RS W"))
    spiel, tree = openspiel.load_game(rules), solve.enumerate_game(rules)
    ours = solve.exploitability(tree, solve.of_policy(tree, "uniform"))
    theirs = exploitability.exploitability(spiel, spiel_policy.UniformRandomPolicy(spiel))
    assert theirs == pytest.approx(float(ours), abs=1e-5)


@pytest.mark.slow
def test_cfr_plus_and_mccfr_run():
    spiel = openspiel.load_game(SMALLER)
    start = exploitability.exploitability(spiel, spiel_policy.UniformRandomPolicy(spiel))
    plus = cfr.CFRPlusSolver(spiel)
    for _ in range(8):
        plus.evaluate_and_update_policy()
    average = plus.average_policy()
    assert exploitability.exploitability(spiel, average) < start / 2
    value = solve.cfr(solve.enumerate_game(SMALLER), tolerance=1e-4).value
    score = expected_game_score.policy_value(spiel.new_initial_state(), [average, average])[0]
    assert score == pytest.approx(float(value), abs=0.03)
    sampled = external_sampling_mccfr.ExternalSamplingSolver(spiel)
    for _ in range(20):
        sampled.iteration()
    assert exploitability.exploitability(spiel, sampled.average_policy()) < start


def test_observers_show_what_they_are_asked_for():
    spiel = openspiel.load_game(SMALL)
    state, kind, private = start_of(spiel), pyspiel.IIGObservationType, pyspiel.PrivateInfoType
    full = make_observation(spiel)
    public, recalled = (
        make_observation(spiel, kind(perfect_recall=recall, private_info=private.NONE)) for recall in (False, True)
    )
    for observer in (full, public):
        observer.set_from(state, player=0)
    assert full.tensor.sum() > public.tensor.sum() > 0
    assert "player 0" in state.observation_string(0) and "hand" in state.observation_string(1)
    hand = format_cards(state.state().hands[0])
    assert hand in full.string_from(state, player=0)
    for observer in (public, recalled):
        assert "player 0" in observer.string_from(state, player=0) and hand not in observer.string_from(state, player=0)
    with pytest.raises(ValueError, match="nobody sees both hands"):
        make_observation(spiel, kind(perfect_recall=False, private_info=private.ALL_PLAYERS))


def test_positions_are_small_and_clones_share_them():
    """A state has hundreds of bytes, and clones share its immutable parts."""
    spiel, rng = openspiel.load_game(SMALL), np.random.default_rng(0)
    state, looks = spiel.new_initial_state(), []
    while not state.is_terminal():
        looks.append(spiel.nodes.facts(state.position))
        outcomes = [action for action, _ in state.chance_outcomes()] if state.is_chance_node() else state.legal_actions()
        state.apply_action(int(rng.choice(outcomes)))
    assert len(looks) > 5 and max(len(pickle.dumps(tuple(look))) for look in looks) < 500
    clone = state.clone()
    assert clone.steps and all(ours is theirs for ours, theirs in zip(clone.steps, state.steps, strict=True))
    assert clone._nodes is state._nodes


def test_parameters_go_both_ways():
    for rules in (*PRESETS.values(), CHEAP, SMALL, Rules.official(points=False)):
        spiel = openspiel.load_game(rules)
        again = pyspiel.load_game(str(spiel))
        assert str(again) == str(spiel) and again.rules == spiel.rules
        assert again.rules == replace(rules, max_steps=rules.max_steps or openspiel.MAX_STEPS)
        is_zero_sum = spiel.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM
        assert is_zero_sum == (rules.step_penalty == 0)
    spiel = pyspiel.load_game("unojax_uno(rules=official,hand_size=5,stacking=True,max_steps=90)")
    assert spiel.rules == Rules.official(hand_size=5, stacking=True, max_steps=90) and spiel.num_distinct_actions() == 62


def test_refused_actions_and_outcomes():
    """Illegal actions, missing cards, undeclared outcomes, and actions after the end are rejected."""
    spiel = openspiel.load_game(SMALL)
    state, playing = spiel.new_initial_state(), start_of(spiel)
    possible = {outcome for outcome, _ in state.chance_outcomes()}
    wrong = next(action for action in range(61) if action not in playing.legal_actions())
    over = start_of(spiel)
    while not over.is_terminal():
        over.apply_action(over.chance_outcomes()[0][0] if over.is_chance_node() else over.legal_actions()[0])
    later = state.child(min(possible))
    refusals(
        {f"chance outcome {n}": lambda n=n: state.clone()._apply_action(n) for n in {-1, 3, 53, 54, 1000} - possible}
        | {
            "impossible here": lambda: later._apply_action(-1 - min(possible)),
            f"action {wrong}": lambda: playing.apply_action(wrong),
            "after the end of the game": lambda: over._apply_action(cards.DRAW),
            "rules": lambda: openspiel.load_game("homely"),
        }
    )
