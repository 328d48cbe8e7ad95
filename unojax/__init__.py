"""unojax: a GPU-batched simulator, belief tracker and solver for two-player UNO with hidden hands."""

from unojax.game import Error, State, init, legal_mask, step, step_checked
from unojax.observation import Observation, observe
from unojax.policies import POLICIES, Policy, RulePolicy, get_policy, uniform
from unojax.rules import RULES_VERSION, Rules, small_deck
from unojax.simulate import Games, simulate

__version__ = "0.1.0"

__all__ = [
    "POLICIES",
    "RULES_VERSION",
    "Error",
    "Games",
    "Observation",
    "Policy",
    "RulePolicy",
    "Rules",
    "State",
    "get_policy",
    "init",
    "legal_mask",
    "observe",
    "simulate",
    "small_deck",
    "step",
    "step_checked",
    "uniform",
]
