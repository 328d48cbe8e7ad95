"""Agents against each other, fairly: `play_match`.

Games come in **pairs** with the seats swapped, like the duplicate deals of bridge. In both games of a pair player p is dealt the
same hand, the same random words decide p's k-th draw, and the agent that is player p gets the same keys. So a part of the luck
cancels (more, the more alike the agents play), and two equal agents play the same game twice. Everything random in pair i derives
from `fold_in(key, i)`: results depend neither on the batch size nor on the number of workers, and matches with the same key have
the same deals.

The games of a batch move in lockstep. The host asks each agent to choose where it has a choice, moves all games by one step, and
lets both agents see it. An agent's functions run for those games alone that need them, a few games (a *chunk*) at a time, so a
finished game or a forced move costs next to nothing however slow the agents are. Each agent's part is a program of its own,
compiled once for all its opponents, and its time is taken apart.
"""

from unojax.arena.match import AgentError, Batch, compile_match, default_batch_size, default_workers, play_batches, play_match
from unojax.arena.pairs import Pairs, split_pairs
from unojax.arena.rounds import Matches, play_rounds
from unojax.arena.tournaments import Tournament, tournament
from unojax.arena.win_rates import WinRates, win_rates

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
