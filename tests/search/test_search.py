"""Searches against brute force on endgames, against crafted positions, and for what they must not see."""

from collections import Counter
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of, variant
from tests.oracle.chain import _key, successors
from tests.oracle.game import Game
from unojax import Rules, cards, game, make_state, observe, parse_action
from unojax.game import State
from unojax.search.agents import MonteCarloAgent, SearchAgent, TreeAgent
from unojax.search.monte_carlo import Estimate, choose, sample_hands

ENDGAME = "R1 R2 RS Y1 Y2 Y+2 W"
ENDGAME_RULES = Rules(deck=deck_of(ENDGAME), hand_size=2)
DISCOUNT = 0.9


def think(agent: SearchAgent, states: State, seed: int = 0) -> tuple[Estimate, np.ndarray]:
    """The agent's estimates for the players to move, who know nothing but what they see."""

    def one(key: jax.Array, state: State) -> tuple[Estimate, jax.Array]:
        key_init, key_think = jax.random.split(key)
        player = state.current_player
        seen = observe(state, player, rules=agent.rules)
        memory = agent.reveal(agent.init(key_init, seen), state, player)
        return agent.think(key_think, memory, seen, game.legal_mask(state))

    keys = jax.random.split(jax.random.key(seed), len(states.color))
    return jax.device_get(jax.jit(jax.vmap(one))(keys, states))


def stacked(states: list[State]) -> State:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def names(actions: np.ndarray) -> list[str]:
    from unojax.text import format_action

    return [format_action(int(a)) for a in actions]


class Endless(Exception):
    """A line of play is too long to be followed to its end."""


class Brute:
    """Exact values in plain Python, all beliefs kept: player `me` does best with what it sees, the other one plays uniformly.

    A belief is a list of positions that look the same to `me`, with weights. Values are sums over positions of weight times
    return, steps after the first discounted.
    """

    def __init__(self, me: int):
        self.me = me

    def value(self, worlds: list[tuple[Game, float]], depth: int = 0) -> float:
        """Of a belief."""
        first = worlds[0][0]
        if first.terminated:
            outcome = 0.0 if first.winner is None else 1.0 if first.winner == self.me else -1.0
            return outcome * sum(weight for _, weight in worlds)
        if depth == 9:
            raise Endless
        if first.player == self.me:
            return max(self.after(worlds, {action}, depth) for action in first.legal_actions())
        return self.after(worlds, None, depth)

    def after(self, worlds: list[tuple[Game, float]], actions: set[int] | None, depth: int = 0) -> float:
        """When the player to move takes one of some actions, each as likely; None: of all that are legal."""
        groups: dict[tuple, dict[tuple, tuple[Game, float]]] = {}
        for world, weight in worlds:
            chosen = world.legal_actions() if actions is None else actions
            for action in chosen:
                for after, prob in successors(world, action):
                    group = groups.setdefault(self.observation(action, after), {})
                    _, so_far = group.get(_key(after), (after, 0.0))
                    group[_key(after)] = after, so_far + weight * prob / len(chosen)
        total = 0.0
        for group in groups.values():
            is_end = next(iter(group.values()))[0].terminated
            total += (1.0 if is_end else DISCOUNT) * self.value(list(group.values()), depth + 1)
        return total

    def observation(self, action: int, after: Game) -> tuple:
        """What `me` sees of an action."""
        sets = (frozenset((+cards).items()) for cards in (after.hands[self.me], after.pile))
        public = (action, after.top, after.color, after.player, after.penalty, after.terminated, after.winner)
        return (*sets, after.hands[1 - self.me].total(), *public)


@pytest.fixture(scope="module")
def endgames() -> tuple[State, list[dict[int, float]]]:
    """Positions with an empty deck, so that the opponent's hand is known, and the exact value of every legal play."""
    rng = np.random.default_rng(0)
    states, values = [], []
    while len(states) < 32:
        top, *others = rng.permutation(ENDGAME.split()).tolist()
        if top == "W":
            continue
        mine = int(rng.integers(2, 5))
        hands = [Counter(others[:mine]), Counter(others[mine:])]
        position = Game(variant(ENDGAME_RULES), hands, Counter(), Counter([top]), top, top[0], 0)
        if len(position.legal_actions()) < 2:
            continue
        try:
            found = {action: Brute(0).after([(position, 1.0)], {action}) for action in position.legal_actions()}
        except Endless:
            continue
        states.append(make_state(" ".join(others[:mine]), " ".join(others[mine:]), top, deck="", rules=ENDGAME_RULES))
        values.append(found)
    return stacked(states), values


def test_tree_search_finds_the_best_reply_by_brute_force(endgames):
    states, exact = endgames
    agent = TreeAgent(
        belief="unseen",
        particles=4,
        policy="uniform",
        simulations=2000,
        stop=0.0,
        exploration=1.0,
        keep=0.0,
        discount=DISCOUNT,
        rules=ENDGAME_RULES,
    )
    estimate, legal = think(agent, states)
    flat, _ = think(
        MonteCarloAgent(
            belief="unseen", particles=4, policy="uniform", rollouts=2000, keep=0.0, discount=DISCOUNT, rules=ENDGAME_RULES
        ),
        states,
    )
    flat_errors = []
    for i, values in enumerate(exact):
        assert set(np.flatnonzero(legal[i])) == set(values)
        chosen = int(np.argmax(np.where(legal[i], estimate.value[i], -np.inf)))
        best = max(values.values())
        assert values[chosen] >= best - 0.02, (names(np.array(list(values))), values, estimate.value[i][legal[i]])
        # Plays tried on the way to the best reply pull its mean down, never up.
        np.testing.assert_allclose(estimate.value[i, chosen], values[chosen], atol=0.12)
        assert estimate.value[i, chosen] <= values[chosen] + 6 * estimate.value_error[i, chosen] + 1e-3
        flat_errors += [abs(flat.value[i, a] - v) for a, v in values.items()]
    # The test can tell: rollouts without a tree are far off somewhere.
    assert max(flat_errors) > 0.3


@pytest.mark.parametrize("agent", [MonteCarloAgent(belief="unseen", rollouts=100), TreeAgent(belief="unseen", simulations=100)])
def test_a_win_is_found(agent: SearchAgent):
    # The skip, and the last card before the opponent's turn. The other way round the opponent may play its last card.
    state = make_state("RS R9", "B1", "R7")
    estimate, legal = think(agent, stacked([state]))
    assert names(np.flatnonzero(legal[0])) == ["R9", "RS"]
    assert estimate.value[0, parse_action("RS")] == 1.0 > estimate.value[0, parse_action("R9")]


def test_never_the_colour_of_the_known_last_card():
    # Everything but the opponent's green 5 lies open: on red or yellow it cannot follow, and nothing is left to draw.
    rules = Rules(deck=deck_of("R1 G1 R9 G5 Y1"), hand_size=1)
    state = make_state("R1 G1 R9", "G5", "Y1", deck="", rules=rules)
    for agent in (
        MonteCarloAgent(belief="unseen", particles=1, rollouts=100, keep=0.0, rules=rules),
        TreeAgent(belief="unseen", particles=1, simulations=100, keep=0.0, rules=rules),
    ):
        estimate, legal = think(agent, stacked([state]))
        assert names(np.flatnonzero(legal[0])) == ["R1", "G1"]
        assert estimate.value[0, parse_action("G1")] == -1.0 < estimate.value[0, parse_action("R1")]


@pytest.mark.parametrize("belief", ["unseen", "particles"])
def test_the_hidden_hand_is_never_read(belief):
    agent = MonteCarloAgent(belief=belief, particles=64, rollouts=32)
    mine, top = "R1 R2 Y7 B3 W", "R7"
    one = stacked([make_state(mine, theirs, top) for theirs in ("G1 G2 G3", "W W+4 R9", "B1 B1 Y0")])

    def decide(state: State) -> jax.Array:
        key_init, key_act = jax.random.split(jax.random.key(3))
        seen = observe(state, 0)
        return agent.act(key_act, agent.reveal(agent.init(key_init, seen), state, jnp.int32(0)), seen, game.legal_mask(state))

    chosen = np.asarray(jax.jit(jax.vmap(decide))(one))
    assert len(set(chosen.tolist())) == 1
    truth = MonteCarloAgent(belief="truth", rollouts=32)
    values = think(truth, one)[0].value
    assert not np.allclose(values[0], values[1])


def test_one_decision_is_the_same_alone_and_among_others(endgames):
    states, _ = endgames
    agent = MonteCarloAgent(belief="unseen", particles=8, rollouts=16, rules=ENDGAME_RULES)
    together, _ = think(agent, jax.tree.map(lambda x: x[:5], states))

    def alone(key: jax.Array, state: State) -> Estimate:
        key_init, key_think = jax.random.split(key)
        seen = observe(state, 0, rules=ENDGAME_RULES)
        return agent.think(key_think, agent.init(key_init, seen), seen, game.legal_mask(state))[0]

    keys = jax.random.split(jax.random.key(0), 5)
    single = jax.jit(alone)(keys[3], jax.tree.map(lambda x: x[3], states))
    for a, b in zip(together, single, strict=True):
        np.testing.assert_allclose(a[3], b, atol=1e-6)


def test_nothing_is_searched_without_a_choice_or_out_of_turn():
    agent = MonteCarloAgent(belief="unseen", particles=8, rollouts=16)
    forced, over = make_state("B1 G2", "R5", "R7"), make_state("R1", "R5", "R7")
    over = game.step(over, parse_action("R1"), jax.random.key(0))
    estimate, legal = think(agent, stacked([forced, over]))
    assert not legal.any() and not estimate.num_samples.any()
    out_of_turn = make_state("R1 R2", "R5", "R7", player=1)
    seen, mask = observe(out_of_turn, 0), game.legal_mask(out_of_turn)
    estimate, legal = agent.think(jax.random.key(0), agent.init(jax.random.key(1), seen), seen, mask)
    assert not np.asarray(legal).any()
    assert int(agent.act(jax.random.key(0), (), observe(forced, 0), game.legal_mask(forced))) == cards.DRAW


def test_errors_are_standard_errors_and_gains_paired(endgames):
    states, _ = endgames
    one = jax.tree.map(lambda x: jnp.repeat(x[:1], 64, axis=0), states)
    agent = MonteCarloAgent(belief="unseen", particles=8, policy="uniform", rollouts=128, rules=ENDGAME_RULES)
    estimate, legal = think(agent, one)
    plays = np.flatnonzero(legal[0])
    base_value = np.take_along_axis(estimate.value, estimate.base[:, None], axis=1)
    np.testing.assert_allclose(estimate.gain[:, plays], (estimate.value - base_value)[:, plays], atol=1e-5)
    # Gains over the base play that most of the repeats have.
    same = estimate.base == np.bincount(estimate.base).argmax()
    for value, error in ((estimate.value, estimate.value_error), (estimate.gain[same], estimate.gain_error[same])):
        spread, stated = value[:, plays].std(0), error[:, plays].mean(0)
        # 32 repeats or more: the standard deviation is within these bounds except with probability 1e-5.
        assert ((spread < 1.6 * stated + 1e-6) & (spread > 0.5 * stated - 1e-6)).all()


def test_early_stop_saves_rollouts_and_keeps_the_contenders(endgames):
    states, exact = endgames
    agent = partial(MonteCarloAgent, belief="unseen", particles=8, policy="uniform", rollouts=256, rules=ENDGAME_RULES, keep=0.0)
    full, legal = think(agent(), states)
    stopped, _ = think(agent(stop=3.0), states)
    assert (full.num_samples[legal] == 256).all()
    share = stopped.num_samples[legal].mean() / 256
    assert 0.3 < share < 0.9, share
    best_full, best_stopped = (np.argmax(np.where(legal, e.value, -np.inf), axis=1) for e in (full, stopped))
    rows = np.arange(len(exact))
    # What is chosen differs only where the values are close.
    gap = full.value[rows, best_full] - full.value[rows, best_stopped]
    assert (gap < 0.1).all()
    # A play that was given up has the same first samples.
    first = stopped.num_samples == 64
    assert first.any()


def test_gains_are_measured_against_a_base_play_of_any_number():
    # The base play of the first decision is action 0, the red 0.
    state = make_state("R0 W", "B1 B2", "R7")
    estimate, legal = think(MonteCarloAgent(belief="unseen", rollouts=100), stacked([state]))
    assert estimate.base[0] == parse_action("R0") == 0
    np.testing.assert_allclose(estimate.gain[0][legal[0]], (estimate.value[0] - estimate.value[0, 0])[legal[0]], atol=1e-6)
    assert np.abs(estimate.gain[0]).max() > 0


def test_plays_given_up_are_not_chosen():
    estimate = Estimate(
        value=jnp.zeros(60),
        gain=jnp.zeros(60).at[7].set(0.3).at[9].set(0.2),
        value_error=jnp.zeros(60),
        gain_error=jnp.full(60, 0.01),
        num_samples=jnp.zeros(60, jnp.int32).at[jnp.array([3, 9])].set(1000).at[7].set(250),
        base=jnp.int32(3),
    )
    assert int(choose(estimate, jnp.zeros(60, bool).at[jnp.array([3, 7, 9])].set(True), 1.0)) == 9


def test_the_base_play_is_kept_unless_another_is_clearly_better():
    def choice(gain: float, error: float, keep: float) -> int:
        zeros = jnp.zeros(60)
        estimate = Estimate(
            zeros, zeros.at[7].set(gain), zeros, zeros.at[7].set(error), jnp.full(60, 10).astype(jnp.int32), jnp.int32(3)
        )
        return int(choose(estimate, jnp.zeros(60, bool).at[jnp.array([3, 7])].set(True), keep))

    assert choice(0.2, 0.1, 1.0) == 7
    assert choice(0.2, 0.3, 1.0) == 3
    assert choice(0.2, 0.3, 0.0) == 7
    assert choice(-0.2, 0.0, 0.0) == 3


def test_sampled_hands_follow_the_weights():
    hands = tuple(jnp.arange(4, dtype=jnp.uint32) + c for c in range(4))
    weights = jnp.log(jnp.array([0.5, 0.0, 0.25, 0.25]))
    drawn = sample_hands(jax.random.key(0), hands, weights, 400)
    assert Counter(np.asarray(drawn[0]).tolist()) == {0: 200, 2: 100, 3: 100}
    np.testing.assert_array_equal(drawn[3] - drawn[0], 3)
    # In random order, so that any part of them is a sample too.
    assert 60 < (np.asarray(drawn[0][:200]) == 0).sum() < 140


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(MonteCarloAgent, belief="guess"), "belief must be one of particles, unseen, truth, got 'guess'"),
        (partial(MonteCarloAgent, rollouts=1), "rollouts must be at least 2, got 1"),
        (partial(MonteCarloAgent, rollouts=10, stop=1.0), "multiple of 4"),
        (partial(MonteCarloAgent, policy="clever"), "no policy is called 'clever'"),
        (partial(MonteCarloAgent, model="clever"), "no policy is called 'clever'"),
        (partial(MonteCarloAgent, depth=8), "depth=8 needs a network"),
        (partial(MonteCarloAgent, leaf="pretrained", discount=0.9), "leaf needs discount=1, got 0.9"),
        (partial(MonteCarloAgent, weight=-1.0), "weight must be a number of rollouts, at least 0"),
        (partial(MonteCarloAgent, discount=0.0), "discount must be in"),
        (partial(MonteCarloAgent, keep=-1.0), "keep must be"),
        (partial(TreeAgent, simulations=5), "multiple of 4"),
        (partial(TreeAgent, nodes=0), "nodes must be at least 1"),
        (partial(TreeAgent, exploration=-1.0), "exploration must be at least 0"),
    ],
)
def test_impossible_settings_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()
