"""Agents with memory at the information states of a game, against agents played there by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import refusals, slow_but
from tests.oracle.game import DRAW
from tests.solve import oracle
from tests.solve.games import earnings, leaning, root_of, tree_of
from tests.solve.positions import shown
from unojax import bits, cards, solve
from unojax.agents import RESIGN
from unojax.policies import POLICIES
from unojax.solve import play
from unojax.solve.seen import look_back

PROGRAMS = 70  # A search, beliefs and policies on trees.


class Digesting:
    """Plays by a digest of its observations in order, which a wrong past would change."""

    name = "digesting"

    @staticmethod
    def _digest(observation):
        types = jnp.arange(cards.NUM_TYPES, dtype=jnp.uint32)
        held = (cards.counts(observation.hand).astype(jnp.uint32) * (types * types + 7)).sum(dtype=jnp.uint32)
        played = (cards.counts(observation.pile).astype(jnp.uint32) * (types * 31 + 3)).sum(dtype=jnp.uint32)
        rest = [observation.opponent_count, observation.deck_count, observation.penalty, observation.last_action]
        for number in (*rest, observation.top_rank, observation.color, observation.current_player, observation.player):
            held = held * jnp.uint32(33) + number.astype(jnp.uint32)
        return held * jnp.uint32(2654435761) + played

    def init(self, key, observation):
        del key
        return self._digest(observation)

    def update(self, key, memory, before, action, after):
        del key
        memory = memory * jnp.uint32(69069) + self._digest(before)
        return (memory * jnp.uint32(69069) + self._digest(after)) * jnp.uint32(5) + action.astype(jnp.uint32)

    def act(self, key, memory, observation, legal_mask):
        del key, observation
        number = legal_mask.sum().astype(jnp.uint32)
        nth = (memory >> jnp.uint32(9)) % number
        return jnp.argmax(jnp.cumsum(legal_mask) > nth.astype(jnp.int32)).astype(jnp.int32)


def pasts(root: oracle.Node, player: int) -> dict[oracle.Key, list[oracle.Node]]:
    """Return both players' decisions on the way to one history of each information state."""
    found: dict[oracle.Key, list[oracle.Node]] = {}

    def walk(node: oracle.Node, before: list[oracle.Node]) -> None:
        past = before if node.player in (None, oracle.CHANCE) else [*before, node]
        if node.player == player:
            found.setdefault(node.key, past)
        for child in node.children.values():
            walk(child, past)

    walk(root, [])
    return found


@pytest.mark.parametrize("name", slow_but(["numbers"], ["numbers", "any start", "all ranks"]))
def test_memory_is_that_of_a_game_played_by_hand(name, monkeypatch):
    # Small chunks, which memories of several pasts fill and leave unfilled.
    monkeypatch.setattr(play, "_CHUNKS", (8, 8))
    tree, root, agent = tree_of(name, False), root_of(name, False), Digesting()
    act, update, init = jax.jit(agent.act), jax.jit(agent.update), jax.jit(agent.init)
    behavior: list[oracle.Behavior] = []
    for player in (0, 1):
        of_player: oracle.Behavior = {}
        for key, nodes in pasts(root, player).items():
            node = nodes[-1]
            of_player[key] = dict.fromkeys(node.children, 1.0 / len(node.children))
            if len(node.children) == 1:
                continue
            seen = [shown(n.game, tree.rules, player)[0] for n in nodes]
            memory = init(None, seen[0])
            for before, after in pairwise(seen):
                memory = update(None, memory, before, after.last_action.astype(jnp.int32), after)
            chosen = int(act(None, memory, seen[-1], seen[-1].legal_mask))
            of_player[key] = {action: float(action == chosen) for action in node.children}
        behavior.append(of_player)
    ours = solve.of_agent(tree, agent)
    assert solve.value(tree, ours) == pytest.approx(oracle.value(root, (behavior[0], behavior[1])), abs=1e-12)
    for player in (0, 1):
        expected = oracle.best_response(root, player, behavior[1 - player])
        assert solve.best_response(tree, player, ours[1 - player])[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["all ranks", "three colors"])
def test_a_policy_as_an_agent(name):
    """A deterministic policy, run as an agent, gives the strategy of its probabilities."""
    tree = tree_of(name)

    def probs(observation, mask):
        return jax.nn.one_hot(jnp.argmax(leaning(observation, mask)), mask.shape[0])

    of_agent, of_policy = solve.of_agent(tree, lambda key, *seen: jnp.argmax(probs(*seen))), solve.of_policy(tree, probs)
    assert solve.exploitability(tree, of_agent) == pytest.approx(solve.exploitability(tree, of_policy), abs=1e-9)
    named = solve.of_agent(tree, "linear"), solve.of_policy(tree, "linear")
    for one, other in zip(*named, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_plays_are_averaged_over_keys():
    tree = tree_of("numbers")
    uniform = POLICIES["uniform"]

    def one_play(key, observation, mask):
        return uniform(key, observation, mask)

    once, again = (solve.of_agent(tree, one_play, key=jax.random.key(5)) for _ in range(2))
    other = solve.of_agent(tree, one_play, key=jax.random.key(6))
    for player in (0, 1):
        np.testing.assert_array_equal(once[player], again[player])
        assert set(once[player].tolist()) == {0.0, 1.0}
    assert any((one != two).any() for one, two in zip(once, other, strict=True))
    # Hoeffding: that one of 100 means of 100 coins is off by 0.3 has a probability below 100 * 2 * exp(-2 * 100 * 0.3^2) = 3e-6.
    for mean, wanted in zip(solve.of_agent(tree, one_play, num_keys=100), solve.uniform(tree), strict=True):
        np.testing.assert_allclose(mean, wanted, atol=0.3)


def exact_hands(root: oracle.Node, player: int, other: oracle.Behavior) -> dict[oracle.Key, dict[tuple[str, ...], float]]:
    """Return P(hidden hand | observations): every history weighted by chance and the other's behaviour."""
    found: dict[oracle.Key, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))

    def walk(node: oracle.Node, prob: float) -> None:
        if node.player == player and len(node.children) > 1:
            assert node.game is not None
            found[node.key][tuple(sorted(node.game.hands[1 - player].elements()))] += prob
        for index, child in node.children.items():
            share = 1.0 if node.player == player else (node.probs if node.player == oracle.CHANCE else other[node.key])[index]
            walk(child, prob * share)

    walk(root, 1.0)
    return {key: {hand: p / sum(hands.values()) for hand, p in hands.items()} for key, hands in found.items()}


counts_of = jax.jit(lambda words: cards.counts(bits.unpack(words)))


@pytest.mark.parametrize("name", ["numbers", "all ranks"])
def test_exact_beliefs(name):
    """Contract: an exact Bayes filter by enumeration of hands. It agrees with plain Python at every state."""
    tree, root = tree_of(name), root_of(name)
    ours = look_back(tree, solve.uniform(tree))
    theirs = oracle.behavior_of(root, oracle.uniform)
    for player in (0, 1):
        hands = ours[player][1]
        assert hands is not None
        counts = np.asarray(counts_of(tuple(hands.packed[:, i] for i in range(4))))
        names = [tuple(sorted(name for name, n in zip(cards.TYPE_NAMES, row, strict=True) for _ in range(n))) for row in counts]
        ours_by_name = [(name, round(float(prob), 9)) for name, prob in zip(names, hands.prob, strict=True)]
        found = sorted(sorted(ours_by_name[a:b]) for a, b in pairwise(hands.start))
        by_book = exact_hands(root, player, theirs[1 - player]).values()
        assert found == sorted(sorted((hand, round(prob, 9)) for hand, prob in of_state.items()) for of_state in by_book)


def test_regret_adds_up_and_improvement_earns_no_less():
    tree = tree_of("all ranks")
    base, opponent = solve.of_policy(tree, leaning), solve.of_policy(tree, "keep-wilds")
    for player in (0, 1):
        lost = solve.mistakes(tree, player, base[player], opponent[1 - player])
        assert lost.min() >= 0 and lost.max() > 0
        best = solve.best_response(tree, player, opponent[1 - player])[0]
        assert lost.sum() == pytest.approx(best - earnings(tree, player, base[player], opponent[1 - player]), abs=1e-12)
    better = solve.improve(tree, base)
    for player in (0, 1):
        assert earnings(tree, player, better[player], base[1 - player]) > earnings(tree, player, base[player], base[1 - player])
    # A strategy that no step of improvement changes is a best response.
    for _ in range(6):
        better = solve.improve(tree, better, base)
    for player in (0, 1):
        best = solve.best_response(tree, player, base[1 - player])[0]
        assert earnings(tree, player, better[player], base[1 - player]) == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
def test_flat_monte_carlo_approaches_policy_improvement():
    """With the exact belief and many rollouts, a search earns as much as one step of improvement."""
    tree = tree_of("numbers")
    base = solve.of_policy(tree, "linear")
    limit = solve.improve(tree, base)
    found = solve.of_agent(tree, "mc:rollouts=2000,keep=0,belief=unseen", against=base)
    for player in (0, 1):
        earned = [earnings(tree, player, strategies[player], base[1 - player]) for strategies in (found, limit)]
        # Plays whose values differ by less than 0.1, four standard errors at 2000 rollouts, may be confused.
        assert earned[0] == pytest.approx(earned[1], abs=0.02)


def test_a_player_without_choices():
    """A game of one step: only player 0 moves."""
    tree = solve.enumerate_game(solve.DECKS["tiny"], 1)
    strategies = solve.of_agent(tree, Digesting())
    assert [len(strategy) for strategy in strategies] == [player.num_sequences for player in tree.players]
    assert tree.players[1].num_sequences == 1 and strategies[1].tolist() == [1.0]


def test_refusals():
    class Peeking(Digesting):
        def reveal(self, memory, state, player):
            return memory

    tree = tree_of("numbers")
    refusals(
        {
            "num_keys": lambda: solve.of_agent(tree, "linear", num_keys=0),
            "mc:belief=truth": lambda: solve.of_agent(tree, "mc:belief=truth"),
            "digesting": lambda: solve.of_agent(tree, Peeking()),
            "no belief": lambda: solve.of_agent(tree, "linear", against=solve.uniform(tree)),
            "'clever'": lambda: solve.of_agent(tree, "clever"),
            # Numbers that are no action may look like a play of a wild card or like a play at another information state.
            "action 60": lambda: solve.of_agent(tree, lambda key, observation, mask: jnp.int32(DRAW)),
            "gave the game up": lambda: solve.of_agent(tree, lambda key, observation, mask: jnp.int32(RESIGN)),
            "chose 61": lambda: solve.of_agent(tree, lambda key, observation, mask: jnp.int32(61)),
            "player": lambda: solve.mistakes(tree, 2, *solve.uniform(tree)),
        }
    )
