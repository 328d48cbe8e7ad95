"""Which colour is declared, on crafted hands."""

from __future__ import annotations

import jax
import pytest

from unojax import legal_mask, make_state, observe
from unojax.analysis import declare, declaring
from unojax.policies import RulePolicy
from unojax.text import format_action

SCORES = {
    "held": declaring.held,
    "not held": lambda view: -declaring.held(view),
    "not seen": declaring.not_seen,
    "active": declaring.is_active,
}


@pytest.mark.parametrize(
    ("score", "declared"),
    [
        # Most blue cards in hand; no green one; the pile has yellow cards, and the hand few others; red is active.
        ("held", {"W:B"}),
        ("not held", {"W:G"}),
        ("not seen", {"W:G"}),
        ("active", {"W:R"}),
    ],
)
def test_declared_color(score: str, declared: set[str]):
    state = make_state("W B1 B2 B3 Y1 R2", "G5", "R9", pile="Y3 Y4 Y5 R1 R3", player=0)
    policy = RulePolicy("test", "wild cards by score", (declare(SCORES[score]),))
    probs = policy.action_probs(observe(state, 0), legal_mask(state))
    plays = {format_action(int(action)) for action in jax.numpy.flatnonzero(probs)}
    # The coloured play stays as likely as a declaration.
    assert plays == declared | {"R2"}
