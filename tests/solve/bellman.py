"""V*, Q* and pi* of the POMDP by the Bellman equation over beliefs, in plain Python, without the solver and the filters.

A belief is a dictionary of worlds (`tests.belief.oracle.World`), indistinguishable to the player, with probabilities. For the
player's action a, or None while the opponent moves,

    Q*(b, a) = sum_o' P(o' | b, a) (R(o') + gamma V*(tau(b, a, o')))            V*(b) = max_a Q*(b, a)

where the next worlds are grouped by the player's observation: a group's weight is P(o' | b, a), and the scaled group is
tau(b, a, o'). One step is one public action of either player.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.belief.oracle import DRAW, View, World, Worlds, _after_draw, _play, legal_actions, view_of
from tests.oracle import game as oracle
from tests.oracle.chain import deals

Chooser = Callable[[World, int], dict[int, float]]
"""chooser(world, last action) -> probabilities of the opponent's legal actions."""
History = tuple[View, ...]


def reward_at(w: World) -> float:
    """Return the player's reward when a world is reached."""
    if not w.over:
        return 0.0
    mine, theirs = map(len, w.hands)
    return float((theirs > mine) - (mine > theirs))


def following(w: World, action: int, skip_forfeits: bool) -> Iterator[tuple[float, World]]:
    """Yield every world after an action, with its probability."""
    return _after_draw(w, None) if action == DRAW else iter([(1.0, _play(w, action, skip_forfeits))])


def dealt(variant: oracle.Variant, player: int) -> Worlds:
    """Return every deal, with the player in seat 0 of the worlds."""
    worlds: Worlds = defaultdict(float)
    for game, prob in deals(variant):
        hands = tuple(_types(game.hands[seat]) for seat in (player, 1 - player))
        color = oracle.COLORS.index(game.color)
        (top,) = _types([game.top])
        worlds[World(hands, _types(game.deck.elements()), (), top, color, int(player != 0), 0, False)] += prob
    return worlds


def _types(cards) -> tuple[int, ...]:
    names = cards.elements() if hasattr(cards, "elements") else cards
    return tuple(sorted(oracle.CARDS.index(name) for name in names))


def split(worlds: Worlds) -> list[tuple[float, Worlds]]:
    """Group worlds by the player's observation: P(o), and the belief after it."""
    groups: dict[View, Worlds] = defaultdict(dict)
    for w, p in worlds.items():
        groups[view_of(w)][w] = p
    totals = [(sum(group.values()), group) for group in groups.values()]
    return [(total, {w: p / total for w, p in group.items()}) for total, group in totals]


@dataclass
class Bellman:
    """The recursion against a fixed opponent.

    Attributes:
        choose: The opponent.
        skip_forfeits, max_steps: Rules.
        gamma: Discount of each transition.
        q: Q* of each own action, at each history of the player's views.
    """

    choose: Chooser
    skip_forfeits: bool
    max_steps: int
    gamma: float = 1.0
    q: dict[History, dict[int, float]] = field(default_factory=dict)

    def root(self, worlds: Worlds) -> float:
        """Return V* before the deal is seen."""
        return sum(prob * self.value(belief, (), 0, -1) for prob, belief in split(worlds))

    def value(self, belief: Worlds, past: History, steps: int, last: int) -> float:
        """Return V*(b)."""
        some = next(iter(belief))
        if some.over or steps == self.max_steps:
            return 0.0
        past = (*past, view_of(some))
        if some.mover == 0:
            legal = legal_actions(some.hands[0], some.top, some.color, some.penalty)
            q = {a: self._q({w: {a: 1.0} for w in belief}, belief, past, steps) for a in legal}
            self.q[past] = q
            return max(q.values())
        return self._q({w: self.choose(w, last) for w in belief}, belief, past, steps)

    def _q(self, probs: dict[World, dict[int, float]], belief: Worlds, past: History, steps: int) -> float:
        """Return the mean over the next observations, with these action probabilities of each world's mover."""
        by_action: dict[int, Worlds] = defaultdict(lambda: defaultdict(float))
        for w, p in belief.items():
            for action, prob in probs[w].items():
                for chance, after in following(w, action, self.skip_forfeits) if prob else ():
                    by_action[action][after] += p * prob * chance
        total = 0.0
        for action, worlds in by_action.items():
            for prob, after in split(worlds):
                seen = next(iter(after))
                total += prob * (reward_at(seen) + self.gamma * self.value(after, past, steps + 1, action))
        return total

    def greedy(self, past: History) -> int:
        """Return pi*, the action of the highest Q*."""
        return max(self.q[past], key=self.q[past].__getitem__)

    def return_of_greedy(self, worlds: Worlds) -> float:
        """Return the expected return of pi*, world by world, without beliefs."""
        return sum(p * self._follow(w, (), 0, -1) for w, p in worlds.items())

    def _follow(self, w: World, past: History, steps: int, last: int) -> float:
        if w.over or steps == self.max_steps:
            return 0.0
        past = (*past, view_of(w))
        probs = {self.greedy(past): 1.0} if w.mover == 0 else self.choose(w, last)
        total = 0.0
        for action, prob in probs.items():
            for chance, after in following(w, action, self.skip_forfeits) if prob else ():
                total += prob * chance * (reward_at(after) + self.gamma * self._follow(after, past, steps + 1, action))
        return total
