"""The RLCard environment: RLCard's own test of UNO, the engine's games, and RLCard's agents in both."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import jax
import numpy as np
import pytest

pytest.importorskip("rlcard", reason="rlcard is not installed")

import rlcard
from rlcard.games.uno.utils import ACTION_LIST
from rlcard.models.uno_rule_models import UNORuleAgentV1

from tests.adapters.engine import RULES, engine_positions, some_rules
from tests.helpers import assert_trees_equal, refusals
from unojax import cards, paired_score, parse_agent, play_match
from unojax.adapters import rlcard as bridge
from unojax.rules import Rules
from unojax.text import parse_action

PROGRAMS: Final = 60  # a game of each rule set, and matches


class Random:
    """RLCard's random agent, without the imports of its module."""

    use_raw = False

    def __init__(self, seed: int = 0):
        self.rng = np.random.default_rng(seed)

    def step(self, state):
        return int(self.rng.choice(list(state["legal_actions"])))

    def eval_step(self, state):
        return self.step(state), {}


def test_actions_are_a_permutation():
    assert sorted(map(bridge.to_rlcard, range(cards.NUM_ACTIONS))) == list(range(cards.NUM_ACTIONS))
    names = {"R5": "r-5", "YS": "y-skip", "BR": "b-reverse", "G+2": "g-draw_2", "W:G": "g-wild", "W+4:Y": "y-wild_draw_4"}
    for ours, theirs in (names | {"draw": "draw"}).items():
        assert ACTION_LIST[bridge.to_rlcard(parse_action(ours))] == theirs
    assert all(bridge.to_rlcard(bridge.to_rlcard(a)) == a for a in range(cards.NUM_ACTIONS))


def test_the_test_of_rlcard():
    """`tests/envs/test_uno_env.py` and `determism_util.py` of RLCard, which are not in its wheel."""
    env = rlcard.make("unojax-uno", config={"seed": 0, "allow_step_back": True})
    state, _ = env.reset()
    assert state["obs"].size == 240 and env.num_actions == cards.NUM_ACTIONS and env.num_players == 2
    before = env.get_perfect_information()
    for _ in range(2):
        env.step(next(iter(state["legal_actions"])))
        state = env.get_state(env.get_player_id())
    for _ in range(2):
        env.step_back()
    assert env.get_perfect_information() == before and env.step_back() is False
    env.set_agents([Random(0), UNORuleAgentV1()])
    trajectories, payoffs = env.run(is_training=False)
    assert sum(payoffs) == 0 and set(payoffs) <= {-1, 0, 1}
    assert all(isinstance(t, dict) for trajectory in trajectories for t in trajectory[::2])

    def play(seed: int) -> list:
        env = bridge.make(seed=seed)
        env.set_agents([Random(1), Random(2)])
        return [env.run()[1].tolist() for _ in range(3)] + [env.get_perfect_information()]

    assert play(5) == play(5) != play(6)


@some_rules
def test_games_are_the_engines(name: str):
    env = bridge.make(RULES[name], seed=3)
    state, player = {}, -1
    for _, ours, _, legal, action in engine_positions(RULES[name], seed=3):
        if ours.step_count == 0:
            state, player = env.reset()
        assert_trees_equal(ours, env.game.state())
        assert player == ours.current_player and env.is_over() == ours.is_over
        assert sorted(map(bridge.to_rlcard, state["legal_actions"])) == legal
        raw, hands = state["raw_obs"], env.get_perfect_information()["hand_cards"]
        assert [len(hand) for hand in hands] == ours.hands.sum(-1).tolist() == raw["num_cards"]
        assert raw["penalty"] == ours.penalty and (raw["drawn"] is None) == (ours.drawn < 0)
        assert (raw["contested"] is None) == (ours.contested < 0)
        np.testing.assert_array_equal(env.get_payoffs(), ours.rewards if ours.terminated else [0, 0])
        if action is not None:
            state, player = env.step(bridge.to_rlcard(action))


def test_planes_and_names_are_those_of_rlcard():
    """Planes decode to held copies and the target; an illegal action changes nothing."""
    env = bridge.make(seed=1)
    state, player = env.reset()
    planes, raw = state["obs"], state["raw_obs"]
    colors, ranks = "rgby", bridge._RANKS
    for color, rank in np.ndindex(4, 13):
        assert planes[raw["hand"].count(f"{colors[color]}-{ranks[rank]}"), color, rank] == 1
    color, rank = (int(i[0]) for i in np.nonzero(planes[3]))
    assert raw["target"] == f"{colors[color]}-{ranks[rank]}" and player == raw["current_player"] == 0
    wrong = next(a for a in range(cards.NUM_ACTIONS) if a not in state["legal_actions"])
    refusals(
        {
            "is not legal": lambda: env.step(wrong),
            "action must be in": lambda: env.step(99),
            "'no-card'": lambda: env.step("no-card", raw_action=True),
        }
    )
    assert env.action_recorder == [] and env.timestep == 0
    name = state["raw_legal_actions"][0]
    env.step(name, raw_action=True)
    assert env.action_recorder == [(player, name)] and env.timestep == 1


def test_refused_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A model that always draws is rejected under rules with optional draws."""
    state = {"raw_legal_actions": ["r-5", "draw"], "raw_obs": {"hand": ["r-5"]}}
    assert UNORuleAgentV1().eval_step(state)[0] == "draw"
    refusals(
        {"model": lambda: parse_agent("rlcard:leduc-holdem-cfr"), "'no.pt'": lambda: parse_agent("rlcard:no.pt")}
        | {
            got: lambda rules=rules: parse_agent("rlcard:uno-rule-v1", rules=rules)
            for got, rules in {
                "got may_draw=True, play_drawn='may', wild_draw_four='challenge'": Rules.official(),
                "got play_drawn='may'": Rules.house(),
                "got may_draw=True": Rules(may_draw=True),
            }.items()
        }
        | {
            "play_drawn": lambda: play_match(
                jax.random.key(0), (parse_agent("rlcard:uno-rule-v1"), "uniform"), 1, rules=Rules.house()
            )
        }
    )
    # A checkpoint that is written again is loaded again.
    monkeypatch.setattr(bridge, "_load_checkpoint", lambda path: Path(path).read_text())
    path = tmp_path / "model.pt"
    for content in ("first", "second one"):
        path.write_text(content)
        assert bridge._load(str(path), bridge._written(str(path))) == content


@pytest.mark.slow
def test_the_same_agent_wins_as_often_in_the_loop_of_rlcard_and_in_the_arena():
    """RLCard's rule agent against random play: within five standard errors, except once in a million runs."""
    env, wins, num = bridge.make(seed=0), 0.0, 400
    for number in range(num):
        seat = number % 2
        agents = [UNORuleAgentV1(), Random(number)]
        np.random.seed(number)  # noqa: NPY002  (RLCard's agents draw from NumPy's one global generator)
        env.set_agents(agents[::-1] if seat else agents)
        wins += (env.run()[1][seat] + 1) / 2
    score = paired_score(play_match(jax.random.key(0), ("rlcard:uno-rule-v1", "uniform"), 400).points)
    share = wins / num
    error = np.hypot(score.standard_error, np.sqrt(share * (1 - share) / num))
    assert abs(share - score.value) < 5 * error


def test_the_same_key_plays_the_same_games_in_batches_of_any_size():
    agent = parse_agent("rlcard:uno-rule-v1")
    one, two = (play_match(jax.random.key(1), (agent, "uniform"), 8, batch_size=size, workers=1) for size in (16, 8))
    np.testing.assert_array_equal(one.winner, two.winner)
    np.testing.assert_array_equal(one.num_steps, two.num_steps)
