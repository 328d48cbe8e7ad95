"""The particle filter: `belief` has the cloud and its start, `filter` the update, `moves` its derivation; `accounts` says what a
particle is, `ledger` what is public, `likelihood` how likely the opponent's plays are in a particle."""

from unojax.belief.particles.belief import MAX_PLAYS, MAX_SLOTS, Belief, Info, belief_init
from unojax.belief.particles.filter import MOST_ROUNDS, NUM_MOVES, belief_update, belief_update_checked

__all__ = [
    "MAX_PLAYS",
    "MAX_SLOTS",
    "MOST_ROUNDS",
    "NUM_MOVES",
    "Belief",
    "Info",
    "belief_init",
    "belief_update",
    "belief_update_checked",
]
