"""The heuristic value against positions worked out by hand and in plain Python, and as a network of searches and agents."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of
from tests.value.positions import observe_all, random_hands, random_states
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


def seen(mine: str, theirs: str, top: str, **others) -> Observation:
    return observe(make_state(mine, theirs, top, rules=RULES, **others), 0)


def test_a_position_by_hand():
    """Unseen: R1 Y0 Y+2 G4 W, of which R1, Y0 and W can be played on a red 0. The opponent holds two of them."""
    position = seen("R5 B3 W", "G4 Y+2", "R0")
    assert float(heuristic_value(position, weights=WEIGHTS)) == pytest.approx(0.5 * (2 - 3) - 0.25 * 2 * 3 / 5 + 2.0 * 1)
    # The hand G4 Y+2 has nothing to play, the hand R1 W two cards.
    hands = bits.pack(np.stack([parse_cards("G4 Y+2"), parse_cards("R1 W")]))
    belief = Hands(hands, jnp.log(jnp.array([0.25, 0.75])))
    assert float(heuristic_value(position, belief, weights=WEIGHTS)) == pytest.approx(-0.5 - 0.25 * 0.75 * 2 + 2.0)


def test_a_penalty_counts_for_the_player_who_must_draw():
    mine, theirs = (seen("R5 B3", "G4 R1", "Y+2", penalty=2, player=player) for player in (0, 1))
    without = seen("R5 B3", "G4 R1", "Y+2")
    found = [float(heuristic_value(one, weights=HeuristicWeights(1.0, 0.0, 0.0))) for one in (mine, theirs, without)]
    assert found == [-2.0, 2.0, 0.0]


def value_by_hand(one: Observation, hands: np.ndarray, probs: np.ndarray) -> float:
    """V in plain Python, hand by hand: bool[N, 108] with probabilities."""
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


@pytest.fixture(scope="module")
def positions() -> tuple[Observation, Hands]:
    states = random_states(31, NUM)
    observations = observe_all(states, jnp.zeros(NUM, jnp.int32))
    packed, weights = random_hands(32, observations, 6)
    return observations, Hands(packed, jnp.log(jnp.asarray(weights)))


def test_it_is_the_expectation_over_the_hands_of_a_belief(positions):
    observations, hands = positions
    found = jax.jit(jax.vmap(heuristic_value))(observations, hands)
    onehots, probs = np.asarray(bits.unpack(hands.packed)), np.exp(np.asarray(hands.log_weights))
    for i in range(NUM):
        one = jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], observations)
        assert float(found[i]) == pytest.approx(value_by_hand(one, onehots[i], probs[i]), abs=1e-5)
    assert np.ptp(found) > 0.2


def test_as_a_network_it_reads_the_same_from_features(positions):
    observations, hands = positions
    view, network = view_of(observations), HeuristicNetwork.of()
    for outlook, belief in ((outlook_of_hands(view, hands), hands), (outlook_of_unseen(view), None)):
        expected = jax.vmap(heuristic_value)(observations, belief)
        outputs = network(features_of(view, outlook))
        np.testing.assert_allclose(outputs.win_logit, 2 * expected, atol=1e-5)
        np.testing.assert_allclose(outputs.value, np.tanh(expected), atol=1e-5)


def test_plays_are_worth_what_the_positions_after_them_are():
    """Of R5 and Y+2 on a red 0, the +2 leaves the opponent two cards more and other cards to play."""
    position = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], seen("R5 Y0 W", "G4 R1", "R0"))
    view = view_of(position)
    legal = np.zeros((1, cards.DRAW), bool)
    plays = {name: parse_action(name) for name in ("R5", "Y0", "W:B")}
    legal[0, list(plays.values())] = True
    values = value_plays(HeuristicNetwork.of(WEIGHTS), view, outlook_of_unseen(view), jnp.asarray(legal))[0]
    # Unseen are R1 Y+2 B3 G4 W. On R5 can be played R1, W; on Y0 Y+2, W; on a wild for blue B3, W.
    v = {"R5": 0.5 * (2 - 2) - 0.25 * 2 * 2 / 5 + 2, "Y0": 0.5 * 0 - 0.25 * 2 * 2 / 5 + 2, "W:B": -0.25 * 2 * 2 / 5}
    for name, action in plays.items():
        assert float(values[action]) == pytest.approx(math.tanh(v[name]), abs=1e-6)


def test_by_name_in_agents_and_searches():
    network = load_network("heuristic")
    assert isinstance(network, HeuristicNetwork) and network.num_params == 3
    agent = parse_agent("value:network=heuristic,belief=unseen")
    position = observe(make_state("R5 W", "G4 R1 B3", "R0"), 0)
    action = agent.act(jax.random.key(0), agent.init(jax.random.key(0), position), position, position.legal_mask)
    assert int(action) == parse_action("R5"), "the wild is kept"
    search = parse_agent("mc:leaf=heuristic,weight=1e9,rollouts=8,particles=16,keep=0")
    memory = search.init(jax.random.key(0), position)
    assert int(search.act(jax.random.key(1), memory, position, position.legal_mask)) == parse_action("R5")
    # No columns are missing to it under other rules.
    parse_agent("value:network=heuristic", rules="official")


@pytest.mark.parametrize("weights", [HeuristicWeights(math.nan, 0.0, 0.0), HeuristicWeights(0.0, math.inf, 0.0), (1.0, 2.0)])
def test_weights_that_are_none_are_refused(weights):
    with pytest.raises(ValueError, match="heuristic weights must be three finite numbers"):
        heuristic_value(seen("R5 B3", "G4 R1", "R0"), weights=weights)
    with pytest.raises(ValueError, match="heuristic weights must be three finite numbers"):
        HeuristicNetwork.of(HeuristicWeights(*weights, *(math.nan,) * (3 - len(weights))))


def test_it_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="is no trained network"):
        save_network(tmp_path / "mine.safetensors", HeuristicNetwork.of())
