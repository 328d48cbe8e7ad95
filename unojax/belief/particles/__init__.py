"""The particle filter: `filter` has the update, `stages` its events, `proposals` the derivation, `trajectory` the particles."""

from unojax.belief.particles.belief import MAX_PLAYS, MAX_SLOTS, Belief, Info, belief_init
from unojax.belief.particles.filter import NUM_MOVES, belief_update, belief_update_checked
from unojax.belief.particles.known_hand import belief_given_hand

__all__ = ["MAX_PLAYS", "MAX_SLOTS", "NUM_MOVES", "Belief", "Info"]
__all__ += ["belief_given_hand", "belief_init", "belief_update", "belief_update_checked"]
