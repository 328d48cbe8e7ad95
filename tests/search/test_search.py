"""Searches against brute force on endgames, against crafted positions, and for what they must not see.

All searches are of batches of 32 positions of one small game, so that few programs are compiled.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of, variant
from tests.oracle.chain import _key, successors
from tests.oracle.game import Game
from unojax import Rules, cards, game, init, make_state, observe, parse_action
from unojax.agents import reveal
from unojax.belief.hands import Hands
from unojax.belief.updaters import UniformFilter
from unojax.game import State
from unojax.observation import Observation
from unojax.search.agents import Remembered, SearchAgent, monte_carlo, tree
from unojax.search.monte_carlo import Estimate, choose, sample_hands
from unojax.search.tree import new_store

ENDGAME = "R0 R2 RS Y0 Y2 Y+2 W"
RULES = Rules(deck=deck_of(ENDGAME), hand_size=2)
DISCOUNT = 0.9
NUM = 32
NUM_ENDGAMES = 16
SETTINGS = {"particles": 4, "policy": "uniform", "keep": 0.0, "discount": DISCOUNT, "rules": RULES}
FLAT = monte_carlo(belief="unseen", rollouts=512, **SETTINGS)
TREE = tree(belief="unseen", simulations=1000, stop=0.0, exploration=1.0, **SETTINGS)
TREE_BY_UCB1 = tree(belief="unseen", simulations=1000, stop=0.0, selection="ucb1", exploration=1.0, **SETTINGS)
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
    """The agent's estimates of up to 32 positions, for the players to move or another, who know nothing but what they see."""
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


@pytest.mark.parametrize("agent", [TREE, TREE_BY_UCB1], ids=["puct", "ucb1"])
def test_tree_search_finds_the_best_reply_by_brute_force(agent: SearchAgent, endgames, searched):
    states, exact = endgames
    estimate, legal = think(agent, states)
    errors, flat_errors = [], []
    for i, values in enumerate(exact):
        assert set(np.flatnonzero(legal[i])) == set(values)
        chosen = int(np.argmax(np.where(legal[i], estimate.value[i], -np.inf)))
        best = max(values.values())
        assert values[chosen] >= best - 0.02, (names(np.array(list(values))), values, estimate.value[i][legal[i]])
        # Plays tried on the way to the best reply pull its mean down, never up.
        np.testing.assert_allclose(estimate.value[i, chosen], values[chosen], atol=0.12)
        assert estimate.value[i, chosen] <= values[chosen] + 6 * estimate.value_error[i, chosen] + 1e-3
        errors += [abs(estimate.value[i, a] - v) for a, v in values.items()]
        flat_errors += [abs(searched[0].value[i, a] - v) for a, v in values.items()]
    # Better choices on the way show in all plays, the worse ones too: rollouts without a tree are far off somewhere.
    assert max(errors) < 0.4 and max(flat_errors) > 0.55


def test_win_probabilities_are_not_discounted(endgames, searched):
    """The same games, whatever they are worth: also with a discount that single precision can't hold."""
    plain, steep = (replace(FLAT, search=replace(FLAT.search, discount=discount)) for discount in (1.0, 1e-9))
    whole, legal = think(plain, endgames[0])
    np.testing.assert_allclose(whole.win[legal], (1 + whole.value[legal]) / 2, atol=1e-6)
    np.testing.assert_allclose(whole.win_error, whole.value_error / 2, atol=1e-6)
    for estimate in (searched[0], think(steep, endgames[0])[0]):
        np.testing.assert_array_equal(estimate.win, whole.win)
        np.testing.assert_allclose(estimate.win_error, whole.win_error, atol=1e-6)
        assert (np.abs(estimate.value) <= np.abs(2 * whole.win - 1).max() + 1e-6).all()
    assert (np.abs(searched[0].value - whole.value)[legal] > 0.01).any()


@pytest.mark.parametrize("agent", [FLAT, TREE], ids=["flat", "tree"])
def test_a_win_is_found(agent: SearchAgent):
    # The skip, and the last card before the opponent's turn. The other way round the opponent may play its last card.
    # Four hands are sampled of four cards, two of which can follow: with this key some can.
    keys = jax.random.split(jax.random.key(1), NUM)
    estimate, legal = think(agent, [position("RS R0", "Y0", "R2")], keys=keys)
    assert names(np.flatnonzero(legal[0])) == ["R0", "RS"]
    assert estimate.value[0, parse_action("RS")] == pytest.approx(DISCOUNT)
    assert estimate.value[0, parse_action("R0")] < 0.5


def test_a_game_may_end_by_a_draw_that_is_impossible():
    # After the +2 there is one card to draw, where two are due: the game ends, and fewer cards win.
    estimate, legal = think(FLAT, [position("Y+2 R0", "R2 RS Y2 W", "Y0", deck="")])
    assert names(np.flatnonzero(legal[0])) == ["R0", "Y+2"]
    assert estimate.value[0, parse_action("Y+2")] == pytest.approx(DISCOUNT)
    assert estimate.value_error[0, parse_action("Y+2")] < 1e-6 < estimate.value_error[0, parse_action("R0")]


@pytest.mark.parametrize("agent", [FLAT, TREE], ids=["flat", "tree"])
def test_never_the_colour_of_the_known_last_card(agent: SearchAgent):
    # Everything but the opponent's yellow card lies open: on red it cannot follow, and on yellow it wins.
    estimate, legal = think(agent, [position("R2 RS Y0", "Y+2", "R0", pile="Y2 W", deck="")])
    assert names(np.flatnonzero(legal[0])) == ["R2", "RS", "Y0"]
    assert estimate.value[0, parse_action("Y0")] == pytest.approx(-DISCOUNT)
    assert estimate.value[0, parse_action("R2")] > -0.5


HIDDEN = [position("R0 R2", theirs, "RS") for theirs in ("Y0 Y2", "W Y0", "Y+2 Y2")]
ONE_KEY = jnp.broadcast_to(jax.random.key(3), (NUM,))


def test_the_hidden_hand_is_never_read():
    estimate, legal = think(FLAT, HIDDEN, keys=ONE_KEY)
    assert legal.any()
    for leaf in jax.tree.leaves(estimate):
        assert (leaf == leaf[:1]).all()
    shown = think(TRUTH, HIDDEN, keys=ONE_KEY)[0].value
    assert not np.allclose(shown[0], shown[1])


def test_a_particle_filter_never_reads_the_hidden_hand_and_forced_positions_are_not_searched():
    agent = monte_carlo(particles=8, rollouts=8, policy="uniform", rules=RULES)
    # The last one has no card to play: it draws.
    states = stacked([*HIDDEN, position("Y0", "R2", "RS")])

    @jax.jit
    @jax.vmap
    def decide(state: State) -> jax.Array:
        key_init, key_act = jax.random.split(jax.random.key(3))
        seen = observe(state, 0)
        return agent.act(key_act, reveal(agent, agent.init(key_init, seen), state, 0), seen, game.legal_mask(state))

    *chosen, drawn = decide(states).tolist()
    assert len(set(chosen)) == 1 and chosen[0] in [parse_action(name) for name in ("R0", "R2")]
    assert drawn == cards.DRAW


def test_one_decision_is_the_same_alone_and_among_others(endgames, searched):
    state = jax.tree.map(lambda leaf: leaf[3], endgames[0])
    key_init, key_think = jax.random.split(jax.random.split(jax.random.key(0), NUM)[3])
    seen = observe(state, 0)
    alone = jax.jit(FLAT.think)(key_think, FLAT.init(key_init, seen), seen, game.legal_mask(state))
    for one, others in zip(jax.tree.leaves(alone), jax.tree.leaves(searched), strict=True):
        np.testing.assert_allclose(one, others[3], atol=1e-6)


def test_nothing_is_searched_without_a_choice_or_out_of_turn():
    over = game.step(position("R0", "Y2", "R2"), parse_action("R0"), jax.random.key(0))
    estimate, legal = think(FLAT, [position("Y0", "Y2", "R2"), over])
    assert not legal.any() and not estimate.num_samples.any()
    # Player 1 is to move.
    estimate, legal = think(FLAT, [position("R0 R2", "Y2", "RS", player=1)], player=0)
    assert not legal.any() and not estimate.num_samples.any()


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


def test_early_stop_saves_rollouts_and_keeps_the_contenders(endgames, searched):
    states, exact = endgames
    full, legal = searched
    # With an empty deck the hidden hand is known, so that both search the same games.
    stopped, _ = think(TRUTH, states)
    assert (full.num_samples[legal] == 512).all()
    share = stopped.num_samples[legal].mean() / 512
    assert 0.3 < share < 0.9, share
    best_full, best_stopped = (np.argmax(np.where(legal, e.value, -np.inf), axis=1) for e in (full, stopped))
    rows = np.arange(len(exact))
    # Another choice only where the values are close.
    gap = full.value[rows, best_full] - full.value[rows, best_stopped]
    assert (gap < 0.1).all()
    # Given up after the first round.
    assert (stopped.num_samples[legal] == 128).any()


def test_gains_are_measured_against_a_base_play_of_any_number():
    # The red 0 is action 0, and the base play wherever the uniform policy happens to choose it.
    estimate, legal = think(FLAT, [position("R0 R2 W", "Y0 Y2", "RS")] * NUM)
    assert parse_action("R0") == 0 and (estimate.base == 0).any() and (estimate.base != 0).any()
    base_value = np.take_along_axis(estimate.value, estimate.base[:, None], axis=1)
    np.testing.assert_allclose(estimate.gain[legal], (estimate.value - base_value)[legal], atol=1e-6)
    assert np.abs(estimate.gain[estimate.base == 0]).max() > 0


@pytest.mark.parametrize(
    ("passed", "skip", "zero"),
    [
        # The skip and the last card win in the second step; after the red 0 the opponent does.
        (8, 1 - 0.25, -1 - 0.25),
        # One step is left, with its penalty, and nobody has won.
        (9, -0.25, -0.25),
    ],
)
def test_searches_honour_max_steps_and_the_step_penalty(passed: int, skip: float, zero: float):
    rules = replace(RULES, max_steps=10, step_penalty=0.25)
    agent = monte_carlo(belief="truth", **SETTINGS | {"rollouts": 8, "discount": 1.0, "rules": rules})
    state = make_state("RS R0", "Y0", "R2", rules=rules)
    estimate, _ = think(agent, [state], passed=passed)
    assert estimate.value[0, parse_action("RS")] == skip
    assert estimate.value[0, parse_action("R0")] == zero


def test_a_search_counts_the_steps_of_both_players():
    agent, key = replace(FLAT, name="counts"), jax.random.key(0)
    state = position("RS R0", "Y0 Y2", "R2")
    seen: list[Observation] = [observe(state, 0)]
    memory = agent.init(key, seen[0])
    # The second action ends the game, and then nothing happens any more.
    for number, action in enumerate(("RS", "R0", "Y0")):
        state = game.step(state, parse_action(action), key)
        seen.append(observe(state, 0))
        memory = agent.update(key, memory, seen[-2], jnp.int32(parse_action(action)), seen[-1])
        assert int(memory.num_steps) == min(number + 1, 2)
    assert bool(state.is_over)
    unchanged = agent.update(key, Remembered((), jnp.int32(5)), seen[0], jnp.int32(-1), seen[0])
    assert int(unchanged.num_steps) == 5


jitted_choose = jax.jit(choose)


def test_plays_given_up_are_not_chosen():
    estimate = Estimate(
        value=jnp.zeros(60),
        gain=jnp.zeros(60).at[7].set(0.3).at[9].set(0.2),
        value_error=jnp.zeros(60),
        gain_error=jnp.full(60, 0.01),
        num_samples=jnp.zeros(60, jnp.int32).at[jnp.array([3, 9])].set(1000).at[7].set(250),
        base=jnp.int32(3),
        win=jnp.zeros(60),
        win_error=jnp.zeros(60),
    )
    assert int(jitted_choose(estimate, jnp.zeros(60, bool).at[jnp.array([3, 7, 9])].set(True), 1.0)) == 9


def test_the_base_play_is_kept_unless_another_is_clearly_better():
    def choice(gain: float, error: float, keep: float) -> int:
        zeros = jnp.zeros(60)
        number, base = jnp.full(60, 10).astype(jnp.int32), jnp.int32(3)
        estimate = Estimate(zeros, zeros.at[7].set(gain), zeros, zeros.at[7].set(error), number, base, zeros, zeros)
        return int(jitted_choose(estimate, jnp.zeros(60, bool).at[jnp.array([3, 7])].set(True), keep))

    assert choice(0.2, 0.1, 1.0) == 7
    assert choice(0.2, 0.3, 1.0) == 3
    assert choice(0.2, 0.3, 0.0) == 7
    assert choice(-0.2, 0.0, 0.0) == 3


def test_sampled_hands_follow_the_weights():
    hands = tuple(jnp.arange(4, dtype=jnp.uint32) + c for c in range(4))
    weights = jnp.log(jnp.array([0.5, 0.0, 0.25, 0.25]))
    drawn, types = jax.jit(partial(sample_hands, num=400))(jax.random.key(0), Hands(hands, weights))
    assert types is None
    assert Counter(np.asarray(drawn[0]).tolist()) == {0: 200, 2: 100, 3: 100}
    np.testing.assert_array_equal(drawn[3] - drawn[0], 3)
    # In random order, so that any part of them is a sample too.
    assert 60 < (np.asarray(drawn[0][:200]) == 0).sum() < 140


def test_hands_and_types_are_sampled_together():
    hands = tuple(jnp.arange(4, dtype=jnp.uint32) + c for c in range(4))
    joint = np.array([[0.25, 0.0, 0.125, 0.0], [0.25, 0.0, 0.125, 0.25]])
    believed = Hands(hands, jnp.log(joint.sum(0)), jnp.log(joint))
    drawn, types = jax.jit(partial(sample_hands, num=400))(jax.random.key(0), believed)
    counts = Counter(zip(np.asarray(types).tolist(), np.asarray(drawn[0]).tolist(), strict=True))
    assert counts == {(k, hand): 400 * joint[k, hand] for k, hand in np.argwhere(joint > 0).tolist()}
    np.testing.assert_array_equal(drawn[3] - drawn[0], 3)


def test_rollouts_follow_the_types_that_the_belief_tells_apart():
    agent = monte_carlo(model="uniform|linear|linear+0.5", particles=8, rollouts=4)
    assert [policy.name for policy in agent.policies] == ["linear", "uniform"]
    assert agent.search.types == ((1, 0.0), (0, 0.05), (0, 0.5))
    assert not monte_carlo(model="uniform|linear", opponent="linear").search.types
    assert not monte_carlo(model="uniform|linear", belief="unseen").search.types
    state = init(jax.random.key(0))
    seen = observe(state, state.current_player)
    memory = agent.init(jax.random.key(1), seen)
    hands = agent.hands(jax.random.key(2), memory, seen)
    # Nothing was seen yet: each type has its prior, whatever the hand.
    np.testing.assert_allclose(jnp.exp(hands.log_joint), np.tile(np.exp(hands.log_weights) / 3, (3, 1)), rtol=1e-5)
    decision = jax.random.key(3), seen, hands._replace(log_joint=None), seen.legal_mask[:60]
    with pytest.raises(ValueError, match="the rollouts follow types of opponents, and these hands come without"):
        agent.estimate(*jax.tree.map(lambda x: jnp.asarray(x)[None], decision))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            partial(monte_carlo, belief="guess"),
            "belief must be one of particles, bootstrap, closed, ages, unseen, truth, got 'guess'",
        ),
        (partial(monte_carlo, rollouts=1), "rollouts must be at least 2, got 1"),
        (partial(monte_carlo, rollouts=2**31), r"rollouts must be below 2\^31, got 2147483648"),
        (partial(tree, simulations=2**32), r"simulations must be below 2\^31, got 4294967296"),
        (partial(monte_carlo, rollouts=10, stop=1.0), "multiple of 4"),
        (partial(monte_carlo, policy="clever"), "no policy is called 'clever'"),
        (partial(monte_carlo, model="clever"), "no policy is called 'clever'"),
        (partial(monte_carlo, leaf="pretrained", discount=0.9), "discount must be that of network pretrained, .* got 0.9"),
        (partial(monte_carlo, leaf="pretrained", rules=Rules(max_steps=100)), "a leaf needs max_steps=None and step_penalty=0"),
        (partial(tree, leaf="pretrained", rules=Rules(step_penalty=0.1)), "a leaf needs max_steps=None"),
        (partial(monte_carlo, weight=-1.0), "weight must be a number of rollouts, at least 0"),
        (partial(monte_carlo, weight=np.inf), "weight must be a number of rollouts, at least 0, got inf"),
        (partial(monte_carlo, rollouts=32, stop=np.inf), "stop must be a number of standard errors, or 0 for never, got inf"),
        (partial(tree, exploration=np.inf), "exploration must be a finite number, at least 0, got inf"),
        (partial(tree, selection="ucb"), "selection must be puct or ucb1, got 'ucb'"),
        (partial(monte_carlo, discount=0.0), "discount must be in"),
        (partial(monte_carlo, keep=-1.0), "keep must be"),
        (partial(tree, simulations=5), "multiple of 4"),
        (partial(tree, nodes=0), "nodes must be at least 1"),
        (partial(tree, exploration=-1.0), "exploration must be a finite number, at least 0"),
    ],
)
def test_impossible_settings_are_refused(make, message: str):
    with pytest.raises(ValueError, match=message):
        make()


def test_more_nodes_than_can_be_numbered_are_refused():
    with pytest.raises(ValueError, match="nodes=131072 are too many for 2048 decisions at a time"):
        new_store(2048, 131072)


def test_another_budget_leaves_what_is_counted_and_known():
    agent = monte_carlo(rollouts=16, belief="unseen", rules=replace(RULES, points=True)).counting_wins()
    agent = replace(agent, updater=UniformFilter(7))
    other = agent.with_budget(32)
    assert (other.budget, other.search.counts_points, other.updater) == (32, False, UniformFilter(7))
    assert other.name == "mc:belief=unseen,rollouts=32"
    with pytest.raises(ValueError, match="rollouts must be at least 2, got 1"):
        agent.with_budget(1)
    with pytest.raises(ValueError, match="simulations must be a multiple of 4"):
        tree(rules=RULES).with_budget(9)


def test_another_budget_keeps_what_was_replaced():
    """An agent of another name than its spec, and a part that its name says nothing of."""
    agent = monte_carlo(rollouts=16, belief="unseen", rules=RULES)
    changed = replace(agent, name="mine", search=replace(agent.search, discount=0.5))
    other = changed.with_budget(32)
    assert (other.name, other.budget, other.search.discount) == ("mine", 32, 0.5)


def test_more_rollouts_than_can_be_numbered_are_refused():
    agent, seen = monte_carlo(rollouts=10**8, belief="unseen"), observe(make_state("R1 R2", "R3 R4", "R0"), 0)
    with pytest.raises(ValueError, match="lower the rollouts"):
        jax.eval_shape(agent.act, jax.random.key(0), Remembered((), jnp.int32(0)), seen, seen.legal_mask)
