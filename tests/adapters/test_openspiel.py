"""The game in OpenSpiel: the tests that ship with it, the engine's states, and its solvers against ours."""

from __future__ import annotations

import pickle
from dataclasses import replace

import jax
import numpy as np
import pytest

pytest.importorskip("pyspiel", reason="open_spiel is not installed")

import pyspiel
from open_spiel.python import policy as spiel_policy
from open_spiel.python.algorithms import cfr, expected_game_score, exploitability, external_sampling_mccfr
from open_spiel.python.observation import make_observation

from tests.adapters.engine import EVERY_RULES, SOME_RULES
from tests.adapters.engine import SMALL as CHEAP
from tests.helpers import deck_of, jitted_mask
from unojax import bits, cards, game, solve
from unojax.adapters import openspiel
from unojax.rules import PRESETS, Rules
from unojax.text import format_cards

FIELDS = ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty", "terminated", "winner", "step_count")
FIELDS += ("last_action", "drawn", "contested")
SMALL = Rules(deck=deck_of("R1 R2 Y1 Y2 RS W"), hand_size=2, max_steps=4)


@pytest.mark.parametrize("rules", SOME_RULES)
def test_random_simulations(rules: Rules):
    """OpenSpiel's own: consistency of the interface along random games, with and without their serialisation."""
    pyspiel.random_sim_test(openspiel.load_game(rules), num_sims=2, serialize=True, verbose=False)


def test_simulation_of_the_python_suite():
    games_sim_test = pytest.importorskip("open_spiel.python.tests.games_sim_test", reason="the wheel lacks its own tests")
    games_sim_test.GamesSimTest().sim_game(openspiel.load_game(CHEAP))


TINY = {"deck": deck_of("R1 Y1 Y+2 W W+4"), "hand_size": 1, "max_steps": 3}
LAID = Rules(draw_until_playable=True, play_drawn="auto", start_card="any", **TINY)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param(SMALL, id="default"),
        pytest.param(Rules.official(points=False, **TINY), id="official"),
        pytest.param(Rules.rlcard(**TINY), id="rlcard"),
        pytest.param(Rules.house(**TINY), id="house", marks=pytest.mark.slow),
        pytest.param(LAID, id="until laid", marks=pytest.mark.slow),
    ],
)
def test_the_full_tree(rules: Rules):
    """What OpenSpiel's `integration_tests/api_test.py` checks on whole trees: perfect recall, constant sum, chance adding up."""
    spiel = openspiel.load_game(rules)
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

    walk(spiel.new_initial_state(), ((), ()))
    tensors = [about[1] for about in seen.values()]
    assert len(set(tensors)) == len(tensors) and nodes > 300


@pytest.mark.parametrize("rules", EVERY_RULES)
def test_games_are_the_engines(rules: Rules):
    """Random games: every step is one that `unojax.step` may take, with the cards that OpenSpiel's chance has picked."""
    spiel, rng, steps = openspiel.load_game(rules), np.random.default_rng(0), 0
    take = jax.jit(lambda state, action, deck, color: game.step_with(state, action, game.GivenCards(deck, color)))

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
            assert state.current_player() == ours.current_player
            assert state.legal_actions() == np.flatnonzero(jitted_mask(ours)).tolist()
            action = int(rng.choice(state.legal_actions()))
            state.apply_action(action)
            pass_chance(state)
            theirs = state.state()
            ours = jax.device_get(take(ours, np.int32(action), bits.pack(theirs.deck), theirs.color))
            for name in FIELDS:
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), name)
            total += ours.rewards
            steps += 1
        assert ours.is_over or openspiel.MAX_STEPS == ours.step_count
        np.testing.assert_allclose(state.returns(), total, atol=1e-5)
        assert min(spiel.min_utility(), *state.returns()) == spiel.min_utility()


def test_chance_is_the_engines():
    """Probabilities of the start: each card as likely as another; a wild card's colour and the first player by fair coins."""
    rules = Rules(deck=deck_of("R1 R1 Y2 W"), hand_size=1, start_card="any", first_player="random", max_steps=4)
    state = openspiel.load_game(rules).new_initial_state()
    for card in ("R1", "Y2"):
        state.apply_action(cards.TYPE_NAMES.index(card))
    outcomes = state.chance_outcomes()
    of_card = {card: sum(p for a, p in outcomes if a % cards.NUM_TYPES == card) for card in (1, cards.WILD_TYPE)}
    assert of_card == pytest.approx({1: 0.5, cards.WILD_TYPE: 0.5})
    assert len(outcomes) == 2 + 8
    children = [state.child(action) for action, _ in outcomes]
    assert {child.current_player() for child in children} == {0, 1}
    assert {int(child.state().color) for child in children} == {0, 1, 2, 3}


def test_exploitability_is_that_of_our_solver():
    """OpenSpiel's best responses in its tree against ours in the sequence form."""
    rules = replace(SMALL, deck=deck_of("R1 R1 Y1 Y2 RS W"), max_steps=3)
    spiel = openspiel.load_game(rules)
    tree = solve.enumerate_game(rules)
    uniform = spiel_policy.UniformRandomPolicy(spiel)
    ours = solve.exploitability(tree, solve.of_policy(tree, "uniform"))
    assert exploitability.exploitability(spiel, uniform) == pytest.approx(float(ours), abs=1e-5)


@pytest.mark.slow
def test_cfr_plus_and_mccfr_run():
    rules = replace(SMALL, max_steps=3)
    spiel = openspiel.load_game(rules)
    start = exploitability.exploitability(spiel, spiel_policy.UniformRandomPolicy(spiel))
    plus = cfr.CFRPlusSolver(spiel)
    for _ in range(8):
        plus.evaluate_and_update_policy()
    average = plus.average_policy()
    assert exploitability.exploitability(spiel, average) < start / 2
    value = solve.cfr(solve.enumerate_game(rules), tolerance=1e-4).value
    score = expected_game_score.policy_value(spiel.new_initial_state(), [average, average])[0]
    assert score == pytest.approx(float(value), abs=0.03)
    sampled = external_sampling_mccfr.ExternalSamplingSolver(spiel)
    for _ in range(20):
        sampled.iteration()
    assert exploitability.exploitability(spiel, sampled.average_policy()) < start


def test_observers():
    spiel = openspiel.load_game(SMALL)
    state = spiel.new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.chance_outcomes()[0][0])
    full = make_observation(spiel)
    full.set_from(state, player=0)
    public = make_observation(spiel, pyspiel.IIGObservationType(perfect_recall=False, private_info=pyspiel.PrivateInfoType.NONE))
    public.set_from(state, player=0)
    assert full.tensor.sum() > public.tensor.sum() > 0
    assert "player 0" in state.observation_string(0) and "hand" in state.observation_string(1)
    hand = format_cards(state.state().hands[0])
    assert hand in full.string_from(state, player=0)
    recalled = make_observation(spiel, pyspiel.IIGObservationType(perfect_recall=True, private_info=pyspiel.PrivateInfoType.NONE))
    for observer in (public, recalled):
        assert "player 0" in observer.string_from(state, player=0) and hand not in observer.string_from(state, player=0)
    with pytest.raises(ValueError, match="nobody sees both hands"):
        make_observation(
            spiel, pyspiel.IIGObservationType(perfect_recall=False, private_info=pyspiel.PrivateInfoType.ALL_PLAYERS)
        )


def test_what_is_kept_and_copied_is_small():
    """A position takes hundreds of bytes, not thousands; and OpenSpiel's clones share what cannot change."""
    spiel, rng = openspiel.load_game(SMALL), np.random.default_rng(0)
    state = spiel.new_initial_state()
    while not state.is_terminal():
        outcomes = [action for action, _ in state.chance_outcomes()] if state.is_chance_node() else state.legal_actions()
        state.apply_action(int(rng.choice(outcomes)))
    looks = spiel.nodes._looks.values()
    assert len(looks) > 5
    for look in looks:
        assert len(pickle.dumps(tuple(look))) < 500
    clone = state.clone()
    assert clone.steps and all(ours is theirs for ours, theirs in zip(clone.steps, state.steps, strict=True))
    assert clone._nodes is state._nodes


def test_parameters_go_both_ways():
    for rules in (*PRESETS.values(), CHEAP, SMALL):
        spiel = openspiel.load_game(rules)
        again = pyspiel.load_game(str(spiel))
        assert str(again) == str(spiel) and again.rules == spiel.rules
        assert again.rules == replace(rules, max_steps=rules.max_steps or openspiel.MAX_STEPS)


def test_rules_by_name():
    spiel = pyspiel.load_game("unojax_uno(rules=official,hand_size=5,stacking=True,max_steps=90)")
    assert spiel.rules == Rules.official(hand_size=5, stacking=True, max_steps=90)
    # What undoes a field of a preset is given with all others.
    assert pyspiel.load_game(str(openspiel.load_game(Rules.official(points=False)))).rules.points is False
    assert spiel.num_distinct_actions() == 62 and openspiel.load_game("house").rules.stacking
    with pytest.raises(ValueError, match=r"rules must be a unojax\.Rules or one of default, official, house, rlcard"):
        openspiel.load_game("homely")


def test_a_step_penalty_is_not_zero_sum():
    spiel = openspiel.load_game(CHEAP)
    assert spiel.get_type().utility == pyspiel.GameType.Utility.GENERAL_SUM
    assert openspiel.load_game(SMALL).get_type().utility == pyspiel.GameType.Utility.ZERO_SUM


def test_an_illegal_action_is_refused():
    state = openspiel.load_game(SMALL).new_initial_state()
    while state.is_chance_node():
        state.apply_action(state.chance_outcomes()[0][0])
    wrong = next(action for action in range(61) if action not in state.legal_actions())
    with pytest.raises(ValueError, match=f"action {wrong} is not legal here; legal are"):
        state.apply_action(wrong)


def test_impossible_outcomes_and_actions_after_the_end_are_refused():
    """Each is a card that no deck has, an outcome that the game does not declare, or comes too late."""
    state = openspiel.load_game(SMALL).new_initial_state()
    possible = {outcome for outcome, _ in state.chance_outcomes()}
    for outcome in {-1, 3, 53, 54, 1000} - possible:
        with pytest.raises(ValueError, match=f"chance outcome {outcome} is impossible here; possible are "):
            state.clone()._apply_action(outcome)
    state.apply_action(min(possible))
    with pytest.raises(ValueError, match="impossible here"):
        state._apply_action(-1 - min(possible))
    while not state.is_terminal():
        state.apply_action(state.chance_outcomes()[0][0] if state.is_chance_node() else state.legal_actions()[0])
    with pytest.raises(ValueError, match="after the end of the game"):
        state._apply_action(cards.DRAW)
