"""Games as trees of nodes, and their solution by plain recursion over histories, without merging."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.oracle.chain import draws, successors
from tests.oracle.game import COLORS, DRAW, WILDS, Game, Variant, card_and_color, color_of

CHANCE = -1
Key = tuple[Any, ...]
"""A player's observations so far."""
Behavior = dict[Key, dict[int, float]]
"""Probabilities of the actions at each information state."""


@dataclass
class Node:
    """A history. `player` moves there: 0, 1, CHANCE; None at the end.

    Attributes:
        key: Information state of that player.
        children: Children by action, or by number of the outcome.
        probs: Probabilities of the outcomes.
        payoff: Return of player 0, at the end.
        game: Position, where a player moves.
    """

    player: int | None
    key: Key = ()
    children: dict[int, Node] = field(default_factory=dict)
    probs: dict[int, float] = field(default_factory=dict)
    payoff: float = 0.0
    game: Game | None = None

    def walk(self) -> Iterator[Node]:
        """Yield this node and all after it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


def _chance(outcomes: list[tuple[float, Node]]) -> Node:
    children = {index: child for index, (_, child) in enumerate(outcomes)}
    return Node(CHANCE, children=children, probs={index: prob for index, (prob, _) in enumerate(outcomes)})


def _sorted(hand: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(hand.elements()))


def stand_in(variant: Variant) -> dict[str, str]:
    """Return the representative of each colour, if colours that the deck lacks are merged."""
    lacking = [color for color in COLORS if not any(color_of(card) == color for card in +variant.deck)]
    return {color: lacking[0] if color in lacking else color for color in COLORS}


def grow(variant: Variant, *, merge_colors: bool = False) -> Node:
    """Return the tree of a game: hand of player 0, of player 1, start card, then steps."""
    stands_for = stand_in(variant) if merge_colors else {color: color for color in COLORS}

    def after_hands(hand_0: Counter[str], hand_1: Counter[str]) -> Node:
        rest = variant.deck - hand_0 - hand_1
        tops = {card: n for card, n in rest.items() if variant.wild_may_start or color_of(card)}
        outcomes: dict[tuple, float] = defaultdict(float)
        for top, copies in tops.items():
            colors, firsts = color_of(top) or COLORS, (0, 1) if variant.anyone_may_start else (0,)
            for color in colors:
                for first in firsts:
                    share = copies / sum(tops.values()) / len(colors) / len(firsts)
                    outcomes[top, color if color_of(top) else stands_for[color], first] += share
        return _chance(
            [
                (prob, play(Game.deal(variant, [hand_0, hand_1], *start), [(_sorted(hand), *start) for hand in (hand_0, hand_1)]))
                for start, prob in outcomes.items()
            ]
        )

    def play(game: Game, seen: list[Key]) -> Node:
        if game.is_over:
            sign = {None: 0.0, 0: 1.0, 1: -1.0}[game.winner]
            return Node(None, payoff=sign)
        mover = game.player
        node = Node(mover, key=(mover, *seen[mover]), game=game)
        for action in sorted(game.legal_actions()):
            card, color = card_and_color(action) if action != DRAW else ("", "")
            if card in WILDS and stands_for[color] != color:
                continue
            outcomes = []
            for after, prob in successors(game, action):
                drawn = _sorted(after.hands[mover] - game.hands[mover])
                said = [(mover, action, drawn if player == mover else len(drawn)) for player in (0, 1)]
                outcomes.append((prob, play(after, [(*seen[player], said[player]) for player in (0, 1)])))
            drew = action == DRAW and game.deck.total() + game.pile.total() - 1 >= (game.penalty or 1)
            node.children[action] = _chance(outcomes) if drew else outcomes[0][1]
        return node

    def after_hand(hand_0: Counter[str]) -> Node:
        hands = draws(variant.deck - hand_0, variant.hand_size)
        return _chance([(prob, after_hands(hand_0, hand_1)) for hand_1, prob in hands])

    return _chance([(prob, after_hand(hand)) for hand, prob in draws(variant.deck, variant.hand_size)])


def infosets(root: Node) -> tuple[dict[Key, list[Node]], dict[Key, list[Node]]]:
    """Return the histories in each information state, by player."""
    found: tuple[dict[Key, list[Node]], dict[Key, list[Node]]] = ({}, {})
    for node in root.walk():
        if node.player in (0, 1):
            found[node.player].setdefault(node.key, []).append(node)
    return found


def behavior_of(root: Node, choose: Callable[[Node], dict[int, float]]) -> tuple[Behavior, Behavior]:
    """Return the behaviour at every information state, from one history in each."""
    first, second = ({key: choose(nodes[0]) for key, nodes in states.items()} for states in infosets(root))
    return first, second


def uniform(node: Node) -> dict[int, float]:
    return {action: 1 / len(node.children) for action in node.children}


def value(node: Node, strategies: tuple[Behavior, Behavior]) -> float:
    """Return the expected return of player 0."""
    if node.player is None:
        return node.payoff
    probs = node.probs if node.player == CHANCE else strategies[node.player][node.key]
    return sum(probs[index] * value(child, strategies) for index, child in node.children.items())


def best_response(root: Node, player: int, behavior: Behavior) -> float:
    """Return the best expected return of `player` against a known behaviour, without hidden cards."""
    reach: dict[int, float] = {}

    def spread(node: Node, prob: float) -> None:
        """Compute the reach probability of each history by chance and the other player."""
        reach[id(node)] = prob
        for index, child in node.children.items():
            if node.player == player or node.player is None:
                spread(child, prob)
            else:
                spread(child, prob * (node.probs if node.player == CHANCE else behavior[node.key])[index])

    spread(root, 1.0)
    states = infosets(root)[player]
    best: dict[Key, int] = {}

    def act(key: Key) -> int:
        if key not in best:
            nodes = states[key]
            gains = {a: sum(reach[id(n)] * worth(n.children[a]) for n in nodes) for a in nodes[0].children}
            best[key] = max(gains, key=gains.__getitem__)
        return best[key]

    def worth(node: Node) -> float:
        """Return the return of `player` from this node."""
        if node.player is None:
            return node.payoff if player == 0 else -node.payoff
        if node.player == player:
            return worth(node.children[act(node.key)])
        probs = node.probs if node.player == CHANCE else behavior[node.key]
        return sum(probs[index] * worth(child) for index, child in node.children.items())

    return worth(root)


def cfr(root: Node, iterations: int, *, plus: bool) -> tuple[Behavior, Behavior]:
    """Return average strategies of CFR or CFR+ by the formulas of Zinkevich et al. and Tammelin; players alternate."""
    actions = {node.key: list(node.children) for node in root.walk() if node.player in (0, 1)}
    regrets: dict[Key, dict[int, float]] = {key: dict.fromkeys(of, 0.0) for key, of in actions.items()}
    sums: dict[Key, dict[int, float]] = {key: dict.fromkeys(of, 0.0) for key, of in actions.items()}

    def scaled(weights: dict[int, float]) -> dict[int, float]:
        # Rounding errors are no regrets.
        positive = {a: w if w > 1e-14 else 0.0 for a, w in weights.items()}
        total = sum(positive.values())
        return {a: w / total if total > 0 else 1 / len(weights) for a, w in positive.items()}

    def walk(node: Node, player: int, own: float, others: float, weight: float) -> float:
        """Return the return of `player`, and accumulate regrets and sums."""
        if node.player is None:
            return node.payoff if player == 0 else -node.payoff
        if node.player == CHANCE:
            return sum(p * walk(node.children[i], player, own, others * p, weight) for i, p in node.probs.items())
        sigma = current[node.key]
        if node.player != player:
            return sum(p * walk(node.children[a], player, own, others * p, weight) for a, p in sigma.items())
        worths = {a: walk(node.children[a], player, own * p, others, weight) for a, p in sigma.items()}
        mean = sum(sigma[a] * worths[a] for a in sigma)
        for a in sigma:
            regrets[node.key][a] += others * (worths[a] - mean)
        if not any(node is other for other in states[player][node.key][1:]):
            for a in sigma:
                sums[node.key][a] += weight * own * sigma[a]
        return mean

    states = infosets(root)
    current = {key: scaled(of) for key, of in regrets.items()}
    for t in range(1, iterations + 1):
        for player in (0, 1):
            walk(root, player, 1.0, 1.0, float(t) if plus else 1.0)
            for key in states[player]:
                if plus:
                    regrets[key] = {a: max(r, 0.0) for a, r in regrets[key].items()}
                current[key] = scaled(regrets[key])
    first, second = ({key: scaled(sums[key]) for key in states[player]} for player in (0, 1))
    return first, second
