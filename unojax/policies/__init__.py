"""Policies choose among legal actions, without memory. `POLICIES` holds the named ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from unojax.device.returned import takes
from unojax.policies.packed import PackedPolicy, Policy, action_probs, ask, distinct, name_of, narrow
from unojax.policies.rule import RULE_POLICIES, Preference, RulePolicy, greedy, uniform
from unojax.policies.scoring import LINEAR, LOOKAHEAD, LinearPolicy, LookaheadPolicy

__all__ = ["LINEAR", "LOOKAHEAD", "POLICIES", "LinearPolicy", "LookaheadPolicy", "PackedPolicy", "Policy", "Preference"]
__all__ += [
    "RulePolicy",
    "action_probs",
    "as_policies",
    "ask",
    "distinct",
    "get_policy",
    "greedy",
    "name_of",
    "narrow",
    "uniform",
]

POLICIES: Final[dict[str, PackedPolicy]] = {**RULE_POLICIES, LOOKAHEAD.name: LOOKAHEAD, LINEAR.name: LINEAR}
"""The named policies."""


def get_policy(name: str) -> PackedPolicy:
    """Return a named policy. Raises ValueError, with all names, if there is none."""
    if name not in POLICIES:
        raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]


def as_policies(policies: Sequence[str | Policy]) -> tuple[Policy, Policy]:
    """Return two policies, one for each player, given by name or as objects.

    Raises:
        ValueError: If there are not two, a name is unknown, or one is an agent.
    """
    if not isinstance(policies, tuple | list) or len(policies) != 2:
        raise ValueError(f"policies must be two, names or callables, one for each player, got {policies!r}")
    first, second = (_as_policy(policy) for policy in policies)
    return first, second


def _as_policy(policy: str | Policy) -> Policy:
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise ValueError(
                f"no policy is called {policy!r}; choose one of {', '.join(POLICIES)}; agents that remember, such as mc, play in "
                "unojax.play_match"
            )
        return POLICIES[policy]
    if hasattr(policy, "act"):
        its_policy = ", or pass its policy: agent.policy" if hasattr(policy, "policy") else ""
        raise ValueError(f"policies don't remember, and {policy!r} is an agent: play it with unojax.play_match{its_policy}")
    if not callable(policy):
        raise ValueError(f"policies must be two, names or callables, one for each player, got {policy!r}")
    if not takes(policy, 3):
        raise ValueError(f"a policy takes key, observation and legal mask, and {policy!r} takes other arguments")
    return policy
