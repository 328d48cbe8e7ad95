"""Beliefs over the opponent's hand: particle, exact, closed-form and bootstrap filters, all as `updaters`."""

from unojax.belief.history import infer_action
from unojax.belief.opponents import ConsistentOpponent, Family, PolicyOpponent, consistent_opponent, uniform_opponent
from unojax.belief.particles import Belief, Info, belief_given_hand, belief_init, belief_update, belief_update_checked

__all__ = [
    "Belief",
    "ConsistentOpponent",
    "Family",
    "Info",
    "PolicyOpponent",
    "belief_given_hand",
    "belief_init",
    "belief_update",
    "belief_update_checked",
    "consistent_opponent",
    "infer_action",
    "uniform_opponent",
]
