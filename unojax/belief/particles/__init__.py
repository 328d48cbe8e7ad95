"""The particle filter: `filter` has it, `moves` its derivation, `accounts` says what a particle is, `ledger` what is public,
`likelihood` how likely the opponent's plays are in a particle."""

from unojax.belief.particles.filter import (
    MAX_PLAYS,
    MAX_SLOTS,
    MOST_ROUNDS,
    NUM_MOVES,
    Belief,
    Info,
    belief_init,
    belief_update,
)

__all__ = ["MAX_PLAYS", "MAX_SLOTS", "MOST_ROUNDS", "NUM_MOVES", "Belief", "Info", "belief_init", "belief_update"]
