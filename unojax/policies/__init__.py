"""Policies: how a player chooses among the legal actions.

`POLICIES` has the named ones. `packed` says what a policy is, `rule` has simple rules, `scoring` those that add up points.
"""

from __future__ import annotations

from typing import Final

from unojax.policies.packed import PackedPolicy, Policy, distinct
from unojax.policies.rule import RULE_POLICIES, Preference, RulePolicy, uniform
from unojax.policies.scoring import LINEAR, LOOKAHEAD, LinearPolicy, LookaheadPolicy

__all__ = [
    "POLICIES",
    "LinearPolicy",
    "LookaheadPolicy",
    "PackedPolicy",
    "Policy",
    "Preference",
    "RulePolicy",
    "distinct",
    "get_policy",
    "uniform",
]

POLICIES: Final[dict[str, PackedPolicy]] = {**RULE_POLICIES, LOOKAHEAD.name: LOOKAHEAD, LINEAR.name: LINEAR}
"""The named policies."""


def get_policy(name: str) -> PackedPolicy:
    """A named policy.

    Raises:
        ValueError: there is no such policy; the message lists those there are.
    """
    if name not in POLICIES:
        raise ValueError(f"no policy is called {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]
