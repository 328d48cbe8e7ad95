"""Searches against brute force on endgames, on crafted positions, and without the hidden hand.

All searches are of 32 positions of one small game, so that few programs are compiled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of, refusals, variant
from tests.oracle.chain import _key, successors
from tests.oracle.game import Game
from unojax import Rules, cards, game, make_state, observe, parse_action, uniform
from unojax.agents import reveal
from unojax.belief.hands import Hands
from unojax.game import State
from unojax.search.agents import Remembered, SearchAgent, monte_carlo, tree
from unojax.search.monte_carlo import Estimate, choose, sample_hands
from unojax.search.rollouts import Rollouts
from unojax.search.tree import new_store
from unojax.text import format_action

ENDGAME = "R0 R2 RS Y0 Y2 Y+2 W"
RULES = Rules(deck=deck_of(ENDGAME), hand_size=2)
DISCOUNT = 0.9
NUM = 32
NUM_ENDGAMES = 16
SETTINGS = {"particles": 4, "policy": "uniform", "keep": 0.0, "discount": DISCOUNT, "rules": RULES}
FLAT = monte_carlo(belief="unseen", rollouts=512, **SETTINGS)
TREE, TREE_BY_UCB1 = (
    tree(belief="unseen", simulations=1000, stop=0.0, selection=rule, exploration=1.0, **SETTINGS) for rule in ("puct", "ucb1")
)
TRUTH = monte_carlo(belief="truth", rollouts=512, stop=3.0, **SETTINGS)


@partial(jax.jit, static_argnums=0)
def _think(agent: SearchAgent, keys: jax.Array, states: State, players: jax.Array, passed: jax.Array):
    def one(key: jax.Array, state: State, player: jax.Array) -> tuple[Estimate, jax.Array]:
        key_init, key_think = jax.random.split(key)
        seen = observe(state, player)
        memory = reveal(agent, agent.init(key_init, seen), state, player)._replace(num_steps=passed)
        return agent.think(key_think, memory, seen, game.legal_mask(state))

    return jax.vmap(one)(keys, states, players)


def think(
    agent: SearchAgent, states: list[State] | State, *, keys: jax.Array | None = None, player: int | None = None, passed: int = 0
) -> tuple[Estimate, np.ndarray]:
    """Estimate up to 32 positions for the players to move, or for `player`."""
    states = stacked(states) if isinstance(states, list) else states
    num = len(states.color)
    states = jax.tree.map(lambda leaf: np.resize(leaf, (NUM, *leaf.shape[1:])), states)
    players = states.current_player if player is None else np.full(NUM, player, np.int8)
    keys = jax.random.split(jax.random.key(0), NUM) if keys is None else keys
    found = jax.device_get(_think(agent, keys, states, players, np.int32(passed)))
    return jax.tree.map(lambda leaf: leaf[:num], found)


def stacked(states: list[State]) -> State:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *states)


def position(mine: str, theirs: str, top: str, **others) -> State:
    return make_state(mine, theirs, top, rules=RULES, **others)


def names(actions: np.ndarray) -> list[str]:
    return [format_action(int(a)) for a in actions]


class Endless(Exception):
    """A line of play is too long to search."""


class Brute:
    """Exact values in plain Python: player `me` plays best with its observations, the other one uniformly.

    A belief is a list of weighted positions that look the same to `me`. Returns are discounted for each step after the first.
    """

    def __init__(self, me: int):
        self.me = me

    def value(self, worlds: list[tuple[Game, float]], depth: int = 0) -> float:
        """Return the value of a belief."""
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
        """Return the mean value after `actions`; None: all legal ones."""
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
        """Return the observation of an action by `me`."""
        sets = (frozenset((+cards).items()) for cards in (after.hands[self.me], after.pile))
        public = (action, after.top, after.color, after.player, after.penalty, after.terminated, after.winner)
        return (*sets, after.hands[1 - self.me].total(), *public)


@pytest.fixture(scope="module")
def endgames() -> tuple[State, list[dict[int, float]]]:
    """Return positions with an empty deck, hence a known hand, and the exact value of every legal play."""
    rng = np.random.default_rng(0)
    states, values = [], []
    while len(states) < NUM_ENDGAMES:
        top, *others = rng.permutation(ENDGAME.split()).tolist()
        if top == "W":
            continue
        mine = int(rng.integers(2, 5))
        hands = [Counter(others[:mine]), Counter(others[mine:])]
        start = Game(variant(RULES), hands, Counter(), Counter([top]), top, top[0], 0)
        if len(start.legal_actions()) < 2:
            continue
        try:
            found = {action: Brute(0).after([(start, 1.0)], {action}) for action in start.legal_actions()}
        except Endless:
            continue
        states.append(position(" ".join(others[:mine]), " ".join(others[mine:]), top, deck=""))
        values.append(found)
    return stacked(states), values


@pytest.fixture(scope="module")
def searched(endgames) -> tuple[Estimate, np.ndarray]:
    """Flat Monte Carlo of the endgames."""
    return think(FLAT, endgames[0])


@pytest.mark.parametrize("agent", [TREE, pytest.param(TREE_BY_UCB1, marks=pytest.mark.slow)], ids=["puct", "ucb1"])
def test_tree_search_finds_the_best_reply_by_brute_force(agent: SearchAgent, endgames, searched):
    """Contract: a tree search with selection, expansion, simulation and backup."""
    states, exact = endgames
    estimate, legal = think(agent, states)
    errors, flat_errors = [], []
    for i, values in enumerate(exact):
        assert set(np.flatnonzero(legal[i])) == set(values)
        chosen = int(np.argmax(np.where(legal[i], estimate.value[i], -np.inf)))
        best = max(values.values())
        assert values[chosen] >= best - 0.02, (names(np.array(list(values))), values, estimate.value[i][legal[i]])
        # Plays tried on the way to the best reply lower its mean, and never raise it.
        np.testing.assert_allclose(estimate.value[i, chosen], values[chosen], atol=0.12)
        assert estimate.value[i, chosen] <= values[chosen] + 6 * estimate.value_error[i, chosen] + 1e-3
        errors += [abs(estimate.value[i, a] - v) for a, v in values.items()]
        flat_errors += [abs(searched[0].value[i, a] - v) for a, v in values.items()]
    # Better choices on the way show in all plays; rollouts without a tree are far off for some.
    assert max(errors) < 0.4 and max(flat_errors) > 0.55

    for search in (FLAT, agent):
        # The skip, and the last card before the opponent's turn. In the other order the opponent may play its last card.
        # Four hands are sampled of four cards, two of which can follow: with this key some can.
        keys = jax.random.split(jax.random.key(1), NUM)
        estimate, legal = think(search, [position("RS R0", "Y0", "R2")], keys=keys)
        assert names(np.flatnonzero(legal[0])) == ["R0", "RS"]
        assert estimate.value[0, parse_action("RS")] == pytest.approx(DISCOUNT) and estimate.win[0, parse_action("RS")] == 1
        assert estimate.value[0, parse_action("R0")] < 0.5
        # All cards except the opponent's yellow card are open: on red it cannot follow, and on yellow it wins.
        estimate, legal = think(search, [position("R2 RS Y0", "Y+2", "R0", pile="Y2 W", deck="")])
        assert names(np.flatnonzero(legal[0])) == ["R2", "RS", "Y0"]
        assert estimate.value[0, parse_action("Y0")] == pytest.approx(-DISCOUNT) and estimate.win[0, parse_action("Y0")] == 0
        assert estimate.value[0, parse_action("R2")] > -0.5


def test_win_probabilities_are_not_discounted(endgames, searched):
    """Even with a discount beyond single precision."""
    steep, legal = think(replace(FLAT, rollouts=replace(FLAT.rollouts, discount=1e-9)), endgames[0])
    np.testing.assert_array_equal(steep.win, searched[0].win)
    np.testing.assert_allclose(steep.win_error, searched[0].win_error, atol=1e-6)
    wins = 2 * steep.win - 1
    for estimate in (steep, searched[0]):
        assert (np.abs(estimate.value) <= np.abs(wins).max() + 1e-6).all()
    assert (np.abs(searched[0].value - wins)[legal] > 0.01).any()


def test_a_game_may_end_by_an_impossible_draw():
    # After the +2 there is one card to draw and two are due: the game ends, and fewer cards win.
    estimate, legal = think(FLAT, [position("Y+2 R0", "R2 RS Y2 W", "Y0", deck="")])
    assert names(np.flatnonzero(legal[0])) == ["R0", "Y+2"]
    assert estimate.value[0, parse_action("Y+2")] == pytest.approx(DISCOUNT)
    assert estimate.value_error[0, parse_action("Y+2")] < 1e-6 < estimate.value_error[0, parse_action("R0")]


def test_the_hidden_hand_is_never_read_and_forced_positions_are_not_searched():
    """Contract: no search reads the true hidden hand, except with belief=truth."""
    hidden = [position("R0 R2", theirs, "RS") for theirs in ("Y0 Y2", "W Y0", "Y+2 Y2")]
    one_key = jnp.broadcast_to(jax.random.key(3), (NUM,))
    estimate, legal = think(FLAT, hidden, keys=one_key)
    assert legal.any()
    assert all((leaf == leaf[:1]).all() for leaf in jax.tree.leaves(estimate))
    shown = think(TRUTH, hidden, keys=one_key)[0].value
    assert not np.allclose(shown[0], shown[1])

    agent = monte_carlo(particles=8, rollouts=8, policy="uniform", opponent="uniform", rules=RULES)

    @jax.jit
    @jax.vmap
    def decide(state: State) -> jax.Array:
        key_init, key_act = jax.random.split(jax.random.key(3))
        seen = observe(state, 0)
        return agent.act(key_act, reveal(agent, agent.init(key_init, seen), state, 0), seen, game.legal_mask(state))

    # The last one has no card to play: it draws.
    *chosen, drawn = decide(stacked([*hidden, position("Y0", "R2", "RS")])).tolist()
    assert len(set(chosen)) == 1 and chosen[0] in [parse_action(name) for name in ("R0", "R2")]
    assert drawn == cards.DRAW
    over = after_play(position("R0", "Y2", "R2"), "R0")
    for states, player in (([position("Y0", "Y2", "R2"), over], None), ([position("R0 R2", "Y2", "RS", player=1)], 0)):
        estimate, legal = think(FLAT, states, player=player)
        assert not legal.any() and not estimate.num_samples.any(), "no choice, or another player's turn"


def test_one_decision_is_the_same_alone_and_among_others(endgames, searched):
    state = jax.tree.map(lambda leaf: leaf[3], endgames[0])
    key_init, key_think = jax.random.split(jax.random.split(jax.random.key(0), NUM)[3])
    seen = observe(state, 0)
    alone = jax.jit(FLAT.think)(key_think, FLAT.init(key_init, seen), seen, game.legal_mask(state))
    jax.tree.map(lambda one, others: np.testing.assert_allclose(one, others[3], atol=1e-6), alone, searched)


def test_errors_are_standard_errors_and_gains_paired(endgames):
    one = jax.tree.map(lambda leaf: leaf[:1].repeat(NUM, 0), endgames[0])
    found = [think(FLAT, one, keys=jax.random.split(jax.random.key(seed), NUM)) for seed in (1, 2)]
    estimate, legal = jax.tree.map(lambda *leaves: np.concatenate(leaves), *found)
    plays = np.flatnonzero(legal[0])
    base_value = np.take_along_axis(estimate.value, estimate.base[:, None], axis=1)
    np.testing.assert_allclose(estimate.gain[:, plays], (estimate.value - base_value)[:, plays], atol=1e-5)
    # Gains over the base play that most of the repeats have.
    same = estimate.base == np.bincount(estimate.base).argmax()
    for value, error in ((estimate.value, estimate.value_error), (estimate.gain[same], estimate.gain_error[same])):
        spread, stated = value[:, plays].std(0), error[:, plays].mean(0)
        # 32 repeats or more: the standard deviation is within these bounds except with probability 1e-5.
        assert ((spread < 1.6 * stated + 1e-6) & (spread > 0.5 * stated - 1e-6)).all()
    # Action 0, the red 0, may be the base too.
    estimate, legal = think(FLAT, [position("R0 R2 W", "Y0 Y2", "RS")] * NUM)
    assert parse_action("R0") == 0 and (estimate.base == 0).any() and (estimate.base != 0).any()
    base_value = np.take_along_axis(estimate.value, estimate.base[:, None], axis=1)
    np.testing.assert_allclose(estimate.gain[legal], (estimate.value - base_value)[legal], atol=1e-6)
    assert np.abs(estimate.gain[estimate.base == 0]).max() > 0


def test_early_stop_saves_rollouts_and_keeps_the_contenders(endgames, searched):
    states, exact = endgames
    full, legal = searched
    # With an empty deck the hidden hand is known, so both search the same games.
    stopped, _ = think(TRUTH, states)
    assert (full.num_samples[legal] == 512).all()
    share = stopped.num_samples[legal].mean() / 512
    assert 0.3 < share < 0.9, share
    assert (stopped.num_samples[legal] == 128).any(), "some plays are pruned after the first round"
    # The rounds of a play that stays are parts of the same 512 rollouts, each with random words of its own.
    stays = legal & (stopped.num_samples == 512)
    np.testing.assert_allclose(stopped.value[stays], full.value[stays], atol=1e-6)
    best_full, best_stopped = (np.argmax(np.where(legal, e.value, -np.inf), axis=1) for e in (full, stopped))
    rows = np.arange(len(exact))
    assert (full.value[rows, best_full] - full.value[rows, best_stopped] < 0.1).all(), "another choice only of close values"


def test_searches_honour_max_steps_and_the_step_penalty():
    rules = replace(RULES, max_steps=10, step_penalty=0.25)
    agent = monte_carlo(belief="truth", **SETTINGS | {"rollouts": 8, "discount": 1.0, "rules": rules})
    state = make_state("RS R0", "Y0", "R2", rules=rules)
    skip, zero = parse_action("RS"), parse_action("R0")
    # The skip and the last card win in the second step; after the red 0 the opponent does.
    estimate, _ = think(agent, [state], passed=8)
    assert (estimate.value[0, skip], estimate.value[0, zero]) == (1 - 0.25, -1 - 0.25)
    # One step is left, with its penalty, and nobody has won.
    estimate, _ = think(agent, [state], passed=9)
    assert (estimate.value[0, skip], estimate.value[0, zero]) == (-0.25, -0.25)


def after_play(state: State, action: str) -> State:
    return step(state, np.int32(parse_action(action)), jax.random.key(0))


step = jax.jit(game.step)


def test_a_search_counts_the_steps_of_both_players():
    key, update = jax.random.key(0), jax.jit(FLAT.update)
    state = position("RS R0", "Y0 Y2", "R2")
    seen = observe(state, 0)
    memory = FLAT.init(key, seen)
    # The second action ends the game, after which nothing happens.
    for number, action in enumerate(("RS", "R0", "Y0")):
        state, before = after_play(state, action), seen
        seen = observe(state, 0)
        memory = update(key, memory, before, np.int32(parse_action(action)), seen)
        assert int(memory.num_steps) == min(number + 1, 2)
    assert bool(state.is_over)
    first = observe(position("RS R0", "Y0 Y2", "R2"), 0)
    assert int(update(key, Remembered((), np.int32(5)), first, np.int32(-1), first).num_steps) == 5


def test_the_choice_of_a_play():
    """The base play, 3, is kept unless another is better by `keep` standard errors; a pruned play is never chosen."""
    zeros, jitted = np.zeros(60, np.float32), jax.jit(choose)

    def choice(gains: dict[int, float], error: float, keep: float, pruned: int | None = None) -> int:
        gain, samples = zeros.copy(), np.full(60, 1000, np.int32)
        gain[list(gains)] = list(gains.values())
        if pruned is not None:
            samples[pruned] = 250
        errors = np.full(60, error, np.float32)
        estimate = Estimate(zeros, gain, zeros, errors, samples, np.int32(3), zeros, zeros)
        return int(jitted(estimate, np.isin(np.arange(60), [3, *gains]), keep))

    assert choice({7: 0.2}, 0.1, 1.0) == 7
    assert choice({7: 0.2}, 0.3, 1.0) == 3
    assert choice({7: 0.2}, 0.3, 0.0) == 7
    assert choice({7: -0.2}, 0.0, 0.0) == 3
    assert choice({7: 0.3, 9: 0.2}, 0.01, 1.0, pruned=7) == 9


def test_sampled_hands_and_types_follow_the_weights():
    hands = tuple(np.arange(4, dtype=np.uint32) + np.uint32(c) for c in range(4))
    sample = jax.jit(partial(sample_hands, num=400))
    with np.errstate(divide="ignore"):
        log_weights = np.log(np.array([0.5, 0.0, 0.25, 0.25], np.float32))
        joint = np.array([[0.25, 0.0, 0.125, 0.0], [0.25, 0.0, 0.125, 0.25]], np.float32)
        log_joint = np.log(joint)
    drawn, types = sample(jax.random.key(0), Hands(hands, log_weights))
    first = np.asarray(drawn[0])
    assert types is None and Counter(first.tolist()) == {0: 200, 2: 100, 3: 100}
    np.testing.assert_array_equal(np.asarray(drawn[3]) - first, 3)
    # In random order, so that any part of them is a sample too.
    assert 60 < (first[:200] == 0).sum() < 140
    drawn, types = sample(jax.random.key(0), Hands(hands, log_weights, log_joint))
    first = np.asarray(drawn[0])
    counts = Counter(zip(np.asarray(types).tolist(), first.tolist(), strict=True))
    assert counts == {(k, hand): 400 * joint[k, hand] for k, hand in np.argwhere(joint > 0).tolist()}
    np.testing.assert_array_equal(np.asarray(drawn[3]) - first, 3)


def test_rollouts_follow_the_types_that_the_belief_infers():
    agent = monte_carlo(model="uniform|linear|linear+0.5", particles=8, rollouts=4)
    assert [policy.name for policy in agent.policies] == ["linear", "uniform"]
    # The default tremble only keeps every play possible for the belief.
    assert agent.rollouts.types == ((1, 0.0), (0, 0.0), (0, 0.5))
    assert not monte_carlo(model="uniform|linear", opponent="linear").rollouts.types
    assert not monte_carlo(model="uniform|linear", belief="unseen").rollouts.types
    state = make_state("R1 R2", "R3 R4", "R0")
    seen = observe(state, 0)
    hands = jax.jit(lambda key, seen: agent.hands(key, agent.init(key, seen), seen))(jax.random.key(1), seen)
    # No transition was seen: each type has its prior, with any hand.
    np.testing.assert_allclose(np.exp(hands.log_joint), np.tile(np.exp(hands.log_weights) / 3, (3, 1)), rtol=1e-5)
    decision = jax.random.key(3), seen, hands._replace(log_joint=None), seen.legal_mask[:60]
    refusals({"types": lambda: jax.eval_shape(agent.estimate, *jax.tree.map(lambda x: x[None], decision))})


def test_refusals():
    names = {"policy": "clever", "model": "clever"}
    options = {
        "belief": ("guess",),
        "rollouts": (1, 2**31),
        "weight": (-1.0, np.inf),
        "discount": (0.0,),
        "keep": (-1.0,),
    }
    of_tree = {"simulations": (2**32, 5), "exploration": (np.inf, -1.0), "selection": ("ucb",), "nodes": (0,)}
    calls = {
        f"{name} ({value!r})": lambda make=make, name=name, value=value: make(**{name: value})
        for make, table in ((monte_carlo, options), (tree, of_tree))
        for name, values in table.items()
        for value in values
    }
    calls |= {f"'{value}' ({name})": lambda name=name, value=value: monte_carlo(**{name: value}) for name, value in names.items()}
    many, seen = monte_carlo(rollouts=10**8, belief="unseen"), observe(make_state("R1 R2", "R3 R4", "R0"), 0)
    refusals(
        calls
        | {
            "rollouts (no multiple of 4)": lambda: monte_carlo(rollouts=10, stop=1.0),
            "stop": lambda: monte_carlo(rollouts=32, stop=np.inf),
            "discount (of a leaf)": lambda: monte_carlo(leaf="pretrained", discount=0.9),
            "discount (of rollouts)": lambda: Rollouts((uniform,), Rules(), 2, 1.5),
            "leaf (truncated games)": lambda: monte_carlo(leaf="pretrained", rules=Rules(max_steps=100)),
            "leaf (penalties)": lambda: tree(leaf="pretrained", rules=Rules(step_penalty=0.1)),
            "nodes (many decisions)": lambda: new_store(2048, 131072),
            "rollouts (too many to number)": lambda: jax.eval_shape(
                many.act, jax.random.key(0), Remembered((), np.int32(0)), seen, seen.legal_mask
            ),
        }
    )
