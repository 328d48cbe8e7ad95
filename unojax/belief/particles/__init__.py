"""The particle filter: `belief` has its start, `filter` the update, `moves` the derivation, `accounts` what a particle is."""

from unojax.belief.particles.belief import MAX_PLAYS, MAX_SLOTS, Belief, Info, belief_init
from unojax.belief.particles.filter import NUM_MOVES, belief_update, belief_update_checked

__all__ = ["MAX_PLAYS", "MAX_SLOTS", "NUM_MOVES", "Belief", "Info", "belief_init", "belief_update", "belief_update_checked"]
