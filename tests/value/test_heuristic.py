"""The heuristic value against plain Python, and as a network of searches and agents."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from tests.helpers import deck_of, refusals
from tests.value.positions import observe_all, pack, random_hands, random_states
from unojax import Rules, bits, cards, make_state, observe, parse_action, parse_agent, parse_cards
from unojax.belief.hands import Hands
from unojax.observation import Observation
from unojax.value import (
    HEURISTIC_WEIGHTS,
    HeuristicNetwork,
    HeuristicWeights,
    heuristic_value,
    load_network,
    outlook_of_hands,
    outlook_of_unseen,
    save_network,
    value_plays,
)
from unojax.value import features as features_of
from unojax.view import view_of

RULES = Rules(deck=deck_of("R0 R1 R5 Y0 Y+2 B3 G4 W W"), hand_size=2)
WEIGHTS = HeuristicWeights(0.5, -0.25, 2.0)
NUM = 24
by_weights = jax.jit(heuristic_value, static_argnames="weights")


def seen(mine: str, theirs: str, top: str, **others) -> Observation:
    return observe(make_state(mine, theirs, top, rules=RULES, **others), 0)


def test_positions_by_hand():
    """Contract: V = a1 (n2 - |H1|) + a2 E[playable in H2] + a3 wilds(H1)."""
    # Unseen are R1 Y0 Y+2 G4 W, of which R1, Y0 and W are playable on a red 0. The opponent holds two of them.
    position = seen("R5 B3 W", "G4 Y+2", "R0")
    assert float(by_weights(position, weights=WEIGHTS)) == pytest.approx(0.5 * (2 - 3) - 0.25 * 2 * 3 / 5 + 2.0 * 1)
    # The hand G4 Y+2 has nothing to play, the hand R1 W two cards.
    belief = Hands(pack(np.stack([parse_cards("G4 Y+2"), parse_cards("R1 W")])), np.log(np.array([0.25, 0.75], np.float32)))
    assert float(by_weights(position, belief, weights=WEIGHTS)) == pytest.approx(-0.5 - 0.25 * 0.75 * 2 + 2.0)
    # A penalty counts for the player who must draw.
    for penalty, player, margin in ((2, 0, -2.0), (2, 1, 2.0), (0, 0, 0.0)):
        position = seen("R5 B3", "G4 R1", "Y+2", penalty=penalty, player=player)
        assert float(by_weights(position, weights=HeuristicWeights(1.0, 0.0, 0.0))) == margin


def test_the_value_is_linear_in_weights_that_may_be_traced():
    position = seen("R5 B3 W", "G4 Y+2", "R0")
    value = jax.jit(lambda weights: heuristic_value(position, weights=weights))
    gradient = jax.jit(jax.grad(value))(WEIGHTS)
    assert gradient == pytest.approx((-1.0, 2 * 3 / 5, 1.0))
    batch = HeuristicWeights(*np.array([WEIGHTS, HEURISTIC_WEIGHTS], np.float32).T)
    values = jax.vmap(value)(batch)
    assert values.tolist() == pytest.approx([np.dot(weights, gradient) for weights in (WEIGHTS, HEURISTIC_WEIGHTS)])


def value_by_hand(one: Observation, hands: np.ndarray, probs: np.ndarray) -> float:
    """Return V in plain Python over hands, bool[N, 108], with probabilities."""
    top, color = int(one.top_rank), int(one.color)

    def is_playable(slot: int) -> bool:
        kind = int(cards.TYPE_OF_SLOT[slot])
        return kind >= 52 or kind // 13 == color or kind % 13 == top

    expected = sum(float(p) * sum(map(is_playable, np.flatnonzero(hand))) for hand, p in zip(hands, probs, strict=True))
    own = np.flatnonzero(one.hand)
    wilds = sum(cards.TYPE_OF_SLOT[slot] >= 52 for slot in own)
    penalty = int(one.penalty) * (-1 if int(one.current_player) == int(one.player) else 1)
    a1, a2, a3 = HEURISTIC_WEIGHTS
    return a1 * (int(one.opponent_count) - len(own) + penalty) + a2 * expected + a3 * wilds


def test_the_value_is_an_expectation_over_the_belief_also_as_a_network():
    observations = jax.device_get(observe_all(random_states(31, NUM), np.zeros(NUM, np.int32)))
    packed, weights = random_hands(32, observations, 6)

    @jax.jit
    def values(observations: Observation, hands: Hands):
        view, network = view_of(observations), HeuristicNetwork.of()
        found = [jax.vmap(heuristic_value)(observations, belief) for belief in (hands, None)]
        return found, [
            network(features_of(view, outlook)) for outlook in (outlook_of_hands(view, hands), outlook_of_unseen(view))
        ]

    found, outputs = jax.device_get(values(observations, Hands(packed, np.log(weights))))
    onehots = np.asarray(bits.unpack(packed))
    for i in range(NUM):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], observations)
        assert float(found[0][i]) == pytest.approx(value_by_hand(one, onehots[i], weights[i]), abs=1e-5)
    assert np.ptp(found[0]) > 0.2
    for expected, output in zip(found, outputs, strict=True):
        np.testing.assert_allclose(output.win_logit, 2 * expected, atol=1e-5)
        np.testing.assert_allclose(output.value, np.tanh(expected), atol=1e-5)


def test_plays_have_the_values_of_the_positions_after_them():
    """Unseen are R1 Y+2 B3 G4 W. R1 and W are playable on R5, Y+2 and W on Y0, B3 and W on a wild for blue."""
    position = jax.tree.map(lambda leaf: np.asarray(leaf)[None], seen("R5 Y0 W", "G4 R1", "R0"))
    plays = {parse_action("R5"): -0.2 + 2, parse_action("Y0"): -0.2 + 2, parse_action("W:B"): -0.2}
    legal = np.isin(np.arange(cards.DRAW), list(plays))[None]

    @jax.jit
    def values(position: Observation):
        return value_plays(HeuristicNetwork.of(WEIGHTS), view_of(position), outlook_of_unseen(view_of(position)), legal)

    np.testing.assert_allclose(np.asarray(values(position))[legal], [math.tanh(v) for v in plays.values()], atol=1e-6)


def test_by_name_in_agents_and_searches():
    network = load_network("heuristic")
    assert isinstance(network, HeuristicNetwork) and network.num_params == 3
    position = observe(make_state("R5 W", "G4 R1 B3", "R0"), 0)
    for spec in (
        "value:network=heuristic,belief=unseen",
        "mc:leaf=heuristic,weight=1e9,rollouts=8,belief=unseen,policy=uniform,keep=0",
    ):
        agent = parse_agent(spec)

        @jax.jit
        def decide(position: Observation, agent=agent):
            return agent.act(jax.random.key(1), agent.init(jax.random.key(0), position), position, position.legal_mask)

        assert int(decide(position)) == parse_action("R5"), f"{spec} keeps the wild"
    # It lacks no columns under other rules.
    parse_agent("value:network=heuristic", rules="official")


def test_refusals(tmp_path):
    position = seen("R5 B3", "G4 R1", "R0")
    for weights in (HeuristicWeights(math.nan, 0.0, 0.0), HeuristicWeights(0.0, math.inf, 0.0)):
        refusals(
            {
                "weights (of a value)": lambda weights=weights: heuristic_value(position, weights=weights),
                "weights (of a network)": lambda weights=weights: HeuristicNetwork.of(weights),
            }
        )
    refusals(
        {
            "weights": lambda: heuristic_value(position, weights=(1.0, 2.0)),
            "no trained network": lambda: save_network(tmp_path / "mine.safetensors", HeuristicNetwork.of()),
        }
    )
