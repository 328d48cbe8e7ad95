"""Agents with memory at the information states of a game, against the same agents led there by hand."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import slow_but
from tests.oracle.game import DRAW
from tests.solve import oracle
from tests.solve.positions import shown
from tests.solve.test_enumeration import leaning, root_of, tree_of
from unojax import bits, cards, solve
from unojax.agents import RESIGN
from unojax.policies import POLICIES
from unojax.solve import play
from unojax.solve.seen import look_back


class Digesting:
    """Remembers a digest of all that it saw, in order, and plays by it: `update` at a wrong past would show."""

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
    """For each information state, the decisions of both players on the way to one of its histories."""
    found: dict[oracle.Key, list[oracle.Node]] = {}

    def walk(node: oracle.Node, before: list[oracle.Node]) -> None:
        here = before if node.player in (None, oracle.CHANCE) else [*before, node]
        if node.player == player:
            found.setdefault(node.key, here)
        for child in node.children.values():
            walk(child, here)

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
            seen = [shown(n.game, tree.rules, player)[0] for n in nodes]  # pyright: ignore[reportArgumentType]
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
    """Chosen action by action, a policy that is never in doubt is the strategy that its probabilities tell."""
    tree = tree_of(name, True)

    def probs(observation, mask):
        return jax.nn.one_hot(jnp.argmax(leaning(observation, mask)), mask.shape[0])

    of_agent, of_policy = solve.of_agent(tree, lambda key, *seen: jnp.argmax(probs(*seen))), solve.of_policy(tree, probs)
    assert solve.exploitability(tree, of_agent) == pytest.approx(solve.exploitability(tree, of_policy), abs=1e-9)
    named = solve.of_agent(tree, "linear"), solve.of_policy(tree, "linear")
    for one, other in zip(*named, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_plays_are_averaged_over_keys():
    tree = tree_of("numbers", True)
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
    """P(hidden hand | what the player saw), by the book: every history weighed by chance and the other's behaviour."""
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


@pytest.mark.parametrize("name", ["numbers", "all ranks"])
def test_exact_beliefs(name):
    """Hidden hands and their probabilities, state by state in some order, are those that plain Python finds."""
    tree, root = tree_of(name, True), root_of(name, True)
    ours = look_back(tree, solve.uniform(tree))
    theirs = oracle.behavior_of(root, oracle.uniform)
    for player in (0, 1):
        hands = ours[player][1]
        assert hands is not None
        words = tuple(jnp.asarray(hands.packed[:, i]) for i in range(4))
        counts = np.asarray(cards.counts(bits.unpack(words)))  # pyright: ignore[reportArgumentType]
        names = [tuple(sorted(name for name, n in zip(cards.TYPE_NAMES, row, strict=True) for _ in range(n))) for row in counts]
        told = [(name, round(float(prob), 9)) for name, prob in zip(names, hands.prob, strict=True)]
        found = sorted(sorted(told[a:b]) for a, b in pairwise(hands.start))
        by_book = exact_hands(root, player, theirs[1 - player]).values()
        assert found == sorted(sorted((hand, round(prob, 9)) for hand, prob in of_state.items()) for of_state in by_book)


def test_mistakes_add_up_to_what_is_lost():
    tree = tree_of("all ranks", True)
    strategies, opponent = solve.of_policy(tree, leaning), solve.of_policy(tree, "keep-wilds")
    for player in (0, 1):
        lost = solve.mistakes(tree, player, strategies[player], opponent[1 - player])
        pair = (strategies[0], opponent[1]) if player == 0 else (opponent[0], strategies[1])
        earned = (1 - 2 * player) * solve.value(tree, pair)
        assert lost.min() >= 0 and lost.max() > 0
        best = solve.best_response(tree, player, opponent[1 - player])[0]
        assert lost.sum() == pytest.approx(best - earned, abs=1e-12)


def test_improvement_earns_no_less():
    tree = tree_of("all ranks", True)
    base = solve.of_policy(tree, leaning)
    better = solve.improve(tree, base)
    assert solve.value(tree, (better[0], base[1])) > solve.value(tree, base) > solve.value(tree, (base[0], better[1]))
    # It is one step: what no step betters is a best response.
    for _ in range(6):
        better = solve.improve(tree, better, base)
    for player in (0, 1):
        pair = (better[0], base[1]) if player == 0 else (base[0], better[1])
        best = solve.best_response(tree, player, base[1 - player])[0]
        assert (1 - 2 * player) * solve.value(tree, pair) == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
def test_flat_monte_carlo_comes_to_policy_improvement():
    """With the exact belief and many rollouts of its own opponent model, a search earns what one step of improvement does."""
    tree = tree_of("numbers", True)
    base = solve.of_policy(tree, "linear")
    limit = solve.improve(tree, base)
    found = solve.of_agent(tree, "mc:rollouts=2000,keep=0,belief=unseen", against=base)
    for player in (0, 1):
        pairs = [(s[0], base[1]) if player == 0 else (base[0], s[1]) for s in (found, limit)]
        earned = [(1 - 2 * player) * solve.value(tree, pair) for pair in pairs]
        # Plays whose values differ by less than 0.1, four standard errors at 2000 rollouts, may be confused.
        assert earned[0] == pytest.approx(earned[1], abs=0.02)


def test_who_never_has_a_choice_is_asked_nothing():
    """A game of one step: only player 0 moves."""
    tree = solve.enumerate_game(solve.DECKS["tiny"], 1)
    strategies = solve.of_agent(tree, Digesting())
    assert [len(strategy) for strategy in strategies] == [player.num_sequences for player in tree.players]
    assert tree.players[1].num_sequences == 1 and strategies[1].tolist() == [1.0]


def test_bad_input():
    tree = tree_of("numbers", True)
    with pytest.raises(ValueError, match="num_keys must be an integer of at least 1, got 0"):
        solve.of_agent(tree, "linear", num_keys=0)
    with pytest.raises(ValueError, match="looks at the hidden hand"):
        solve.of_agent(tree, "mc:belief=truth")

    class Peeking(Digesting):
        def reveal(self, memory, state, player):
            return memory

    with pytest.raises(ValueError, match="digesting looks at the hidden hand"):
        solve.of_agent(tree, Peeking())
    with pytest.raises(ValueError, match="linear has no belief that could be replaced"):
        solve.of_agent(tree, "linear", against=solve.uniform(tree))
    with pytest.raises(ValueError, match="no agent is called 'clever'"):
        solve.of_agent(tree, "clever")
    with pytest.raises(ValueError, match="chose action 60, which is not legal, at information state 0"):
        solve.of_agent(tree, lambda key, observation, mask: jnp.int32(DRAW))
    # A number that is no action, and may look like a play of a wild card or like one at another information state.
    with pytest.raises(ValueError, match="gave the game up at information state 0"):
        solve.of_agent(tree, lambda key, observation, mask: jnp.int32(RESIGN))
    with pytest.raises(ValueError, match="chose 61, which is no action, at information state 0"):
        solve.of_agent(tree, lambda key, observation, mask: jnp.int32(61))
    with pytest.raises(ValueError, match="player must be 0 or 1"):
        solve.mistakes(tree, 2, *solve.uniform(tree))
