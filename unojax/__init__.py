"""unojax: a GPU-batched simulator, belief tracker and solver for two-player UNO with hidden hands.

Names are imported on first use. The import adds an option to `XLA_FLAGS`, see `unojax.device.small_loops`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unojax import registry as registry  # fills the table of agents
from unojax.device.small_loops import build_small_loops_whole
from unojax.display import SHOWN_BY

if TYPE_CHECKING:
    from unojax.agents import Agent, PolicyAgent
    from unojax.arena import Matches, Pairs, play_match, play_rounds
    from unojax.arena.ratings import bradley_terry, paired_score
    from unojax.belief import (
        Belief,
        Info,
        belief_given_hand,
        belief_init,
        belief_update,
        belief_update_checked,
        infer_action,
    )
    from unojax.belief.predictive import Predictive, expected_reward, own_successors, predict
    from unojax.decks import parse_deck, small_deck
    from unojax.device.compilation_cache import keep_compiled_programs
    from unojax.game import Error, State, init, legal_mask, step, step_checked
    from unojax.games.advising import advise
    from unojax.games.at_table import Table
    from unojax.games.record import Trajectory, play_game
    from unojax.observation import Observation, determinize, observe
    from unojax.policies import POLICIES, PackedPolicy, Policy, RulePolicy, get_policy, uniform
    from unojax.pomdp import Successors, observation_log_prob, reward, successors, transition_log_prob
    from unojax.rules import RULES_VERSION, Rules
    from unojax.simulation import Games, Slots, Transitions, check_slots, rollout, simulate, start_slots
    from unojax.specs import parse_agent
    from unojax.text.notation import format_action, format_cards, parse_action, parse_cards
    from unojax.text.observation import format_observation, make_observation, parse_observation
    from unojax.text.position import format_position, make_state, parse_position
    from unojax.view import View, view_of

__version__ = "0.1.0"

_HOMES = {
    "agents": ("Agent", "PolicyAgent"),
    "arena": ("Matches", "Pairs", "play_match", "play_rounds"),
    "arena.ratings": ("bradley_terry", "paired_score"),
    "belief": (
        "Belief",
        "Info",
        "belief_given_hand",
        "belief_init",
        "belief_update",
        "belief_update_checked",
        "infer_action",
    ),
    "belief.predictive": ("Predictive", "expected_reward", "own_successors", "predict"),
    "device.compilation_cache": ("keep_compiled_programs",),
    "game": ("Error", "State", "init", "legal_mask", "step", "step_checked"),
    "games.advising": ("advise",),
    "games.at_table": ("Table",),
    "games.record": ("Trajectory", "play_game"),
    "observation": ("Observation", "determinize", "observe"),
    "policies": ("POLICIES", "PackedPolicy", "Policy", "RulePolicy", "get_policy", "uniform"),
    "pomdp": ("Successors", "observation_log_prob", "reward", "successors", "transition_log_prob"),
    "decks": ("parse_deck", "small_deck"),
    "rules": ("RULES_VERSION", "Rules"),
    "simulation": ("Games", "Slots", "Transitions", "check_slots", "rollout", "simulate", "start_slots"),
    "specs": ("parse_agent",),
    "text.notation": ("format_action", "format_cards", "parse_action", "parse_cards"),
    "text.observation": ("format_observation", "make_observation", "parse_observation"),
    "text.position": ("format_position", "make_state", "parse_position"),
    "view": ("View", "view_of"),
}
_SUBMODULES = (
    *(
        "agents",
        "analysis",
        "arena",
        "belief",
        "bits",
        "cards",
        "decks",
        "device",
        "game",
        "games",
        "observation",
        "policies",
        "pomdp",
    ),
    *("rules", "search", "simulation", "solve", "specs", "table", "text", "value", "view", "viz", "widget"),
)
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Lists of literals: type checkers read no other form of it.
__all__ = ["POLICIES", "RULES_VERSION", "Agent", "Belief", "Error", "Games", "Info", "Matches", "Observation"]
__all__ += ["PackedPolicy", "Pairs", "Policy", "PolicyAgent", "Predictive", "RulePolicy", "Rules", "Slots", "State"]
__all__ += ["Successors", "Table", "Trajectory", "Transitions", "View"]
__all__ += ["advise", "belief_given_hand", "belief_init", "belief_update", "belief_update_checked", "bradley_terry"]
__all__ += ["check_slots", "determinize"]
__all__ += [
    "expected_reward",
    "format_action",
    "format_cards",
    "format_observation",
    "format_position",
    "get_policy",
    "infer_action",
    "init",
]
__all__ += [
    "keep_compiled_programs",
    "legal_mask",
    "make_observation",
    "make_state",
    "observation_log_prob",
    "observe",
    "own_successors",
    "paired_score",
]
__all__ += [
    "parse_action",
    "parse_agent",
    "parse_cards",
    "parse_deck",
    "parse_observation",
    "parse_position",
    "play_game",
    "play_match",
]
__all__ += [
    "play_rounds",
    "predict",
    "reward",
    "rollout",
    "simulate",
    "small_deck",
    "start_slots",
    "step",
    "step_checked",
    "successors",
    "transition_log_prob",
    "uniform",
    "view_of",
]

build_small_loops_whole()
SHOWN_BY.update(line="unojax.text", picture="unojax.viz.notebook")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"unojax.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'unojax' has no attribute {name!r}")
    value = getattr(import_module(f"unojax.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # The names that this module itself uses are nobody else's.
    return sorted({*(name for name in globals() if name.startswith("__")), *_SUBMODULES, *__all__})
