"""Beliefs over the opponent's hand.

* `particles`: the particle filter, `belief_init` and `belief_update`; `moves` has its derivation, `accounts` says what a particle
  is, `likelihood` how likely the opponent's plays are in it.
* `exact`: the exact Bayes filter, by enumeration, for small decks.
* `closed_form`: formulas for the uniform belief, and the closed-form belief that resets at each play.
* `bootstrap`: the plain bootstrap particle filter, for comparison.
* `summary`: expected counts, marginals, most likely hands. `adaptive`: more particles where they are needed.
* `opponents`: opponent models. `history`: what two observations tell. `cache`: a host-side cache of beliefs.
"""

from unojax.belief.history import infer_action
from unojax.belief.opponents import ConsistentOpponent, PolicyOpponent, consistent_opponent, uniform_opponent
from unojax.belief.particles import Belief, Info, belief_init, belief_update, belief_update_checked

__all__ = [
    "Belief",
    "ConsistentOpponent",
    "Info",
    "PolicyOpponent",
    "belief_init",
    "belief_update",
    "belief_update_checked",
    "consistent_opponent",
    "infer_action",
    "uniform_opponent",
]
