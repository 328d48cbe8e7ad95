"""Fair matches between agents: `play_match`.

Games come in **pairs** with the seats swapped, like the duplicate deals of bridge. In both games of a pair, player p gets
the same hand, the same random words for p's k-th draw, and the same keys for the agent. A part of the luck therefore
cancels, more for more similar agents; two equal agents play the same game twice. All randomness of pair i derives from
`fold_in(key, i)`: results depend neither on the batch size nor on the number of workers, and matches with the same key have
the same deals.

The games of a batch move in lockstep. The host requests actions from each agent at its decisions, advances all games by one
step, and updates both agents. An agent's functions run only for the games that need them, a few (a *chunk*) at a time, so
finished games and forced moves cost almost nothing. Each agent has its own program, compiled once for all its opponents, and
its time is measured separately.
"""

from unojax.arena.lanes import AgentError
from unojax.arena.match import Batch, compile_match, default_batch_size, play_batches, play_match
from unojax.arena.pairs import Pairs, split_pairs
from unojax.arena.rounds import Matches, play_rounds
from unojax.arena.tournaments import Tournament, tournament
from unojax.arena.win_rates import WinRates, win_rates
from unojax.device.mesh import default_workers

__all__ = [
    "AgentError",
    "Batch",
    "Matches",
    "Pairs",
    "Tournament",
    "WinRates",
    "compile_match",
    "default_batch_size",
    "default_workers",
]
__all__ += ["play_batches", "play_match", "play_rounds", "split_pairs", "tournament", "win_rates"]
