"""`training.value.learning`: returns, targets, losses and gradients by hand and against a dense loss.

Games of one shape and small chunks let most tests share one program.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.value.positions import legal_all, observe_all, outlooks_of, random_network, random_states, says
from training.value import learning
from training.value.learning import Loss, Sums, lambda_returns, loss_and_gradient, targets_of
from training.value.selfplay import Episodes
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import Observation
from unojax.value import Features, Network, after_plays, features, outlook_of_hand
from unojax.view import view_of

STEPS, GAMES = 4, 4
NUM_STEPS = [4, 3, 4, 2]
IS_OVER = [True, False, True, True]
OUTCOME = [1.0, 0.0, -1.0, 0.0]
LEARNS = [[True, True], [True, True], [True, False], [False, True]]
SHOWN = np.array([[False, True], [False, False], [False, False], [True, False]])
KEY = jax.random.key(5)
CHUNK = 16


@pytest.fixture(scope="module", autouse=True)
def chunk() -> Iterator[None]:
    """Two chunks of states and several of decisions, the last ones partly filled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(learning._CHUNK, "cpu", CHUNK)
        yield


# Rewards, discounts and the values of the states after the transitions. A game that ends with -1:
ENDS = ([0, 0, 0, -1], [1, 1, 1, 0], [0.2, 0.4, -0.6, 0.9])
# A game that continues after the last transition, with a reward of 1 and a discount of 1/2.
CONTINUES = ([0, 1, 0], [0.5, 0.5, 0.5], [0.4, -0.8, 0.6])
BY_HAND = [
    # TD(0): reward + discount * value.
    (ENDS, 0.0, [0.2, 0.4, -0.6, -1.0]),
    (CONTINUES, 0.0, [0.5 * 0.4, 1 + 0.5 * -0.8, 0.5 * 0.6]),
    # Monte Carlo: the outcome; or the rewards, discounted, and the last value of a game that continues.
    (ENDS, 1.0, [-1.0, -1.0, -1.0, -1.0]),
    (CONTINUES, 1.0, [0.5 * 1 + 0.125 * 0.6, 1 + 0.25 * 0.6, 0.5 * 0.6]),
    # From the last one backwards: -1; (-0.6 - 1) / 2; (0.4 - 0.8) / 2; (0.2 - 0.2) / 2.
    (ENDS, 0.5, [0.0, -0.2, -0.8, -1.0]),
    # 0.5 * 0.6; 1 + 0.5 * (-0.8 + 0.3) / 2; 0.5 * (0.4 + 0.875) / 2.
    (CONTINUES, 0.5, [0.31875, 0.875, 0.3]),
    # With a quarter: -1; 0.75 * -0.6 - 0.25 = -0.7; 0.75 * 0.4 - 0.175 = 0.125; 0.75 * 0.2 + 0.03125.
    (ENDS, 0.25, [0.18125, 0.125, -0.7, -1.0]),
]


def test_lambda_returns_by_hand():
    """Contract: TD(lambda) or Monte Carlo returns. A neighbouring game changes nothing."""
    returns_of, rng = jax.jit(lambda_returns), np.random.default_rng(0)
    for transitions, trace, returns in BY_HAND:
        columns = (np.stack([column, rng.random(len(column))], axis=1).astype(np.float32) for column in transitions)
        np.testing.assert_allclose(returns_of(*columns, trace)[:, 0], returns, atol=1e-6, err_msg=str(trace))


@pytest.fixture(scope="module")
def states() -> State:
    return random_states(41, STEPS * GAMES, deciding=True)


@pytest.fixture(scope="module")
def games(states: State) -> Episodes:
    """Return four games of unrelated positions."""
    legal = np.asarray(legal_all(states))
    rng = np.random.default_rng(0)
    action = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
    # The network chooses for the players who learn, and explores now and then.
    is_choice = np.tile(LEARNS, (STEPS, 1))[np.arange(STEPS * GAMES), states.current_player]
    is_choice[[1, 6]] = False
    search = np.where(legal[:, : cards.DRAW], rng.uniform(-1, 1, (STEPS * GAMES, cards.DRAW)), np.nan)
    search[~is_choice] = np.nan
    # At most the number that takes part in the loss.
    for row in search:
        row[np.flatnonzero(~np.isnan(row))[8:]] = np.nan
    outlook = jax.tree.map(lambda leaf: np.asarray(leaf, np.float16), outlooks_of(both_sides(states)))

    def by_step(leaf):
        return np.asarray(leaf).reshape(STEPS, GAMES, *leaf.shape[1:])

    return Episodes(
        table=jax.tree.map(by_step, jax.jit(jax.vmap(game.to_table))(states)),
        outlook=jax.tree.map(lambda leaf: leaf.reshape(STEPS, GAMES, 2, *leaf.shape[1:]), outlook),
        action=by_step(action.astype(np.int8)),
        is_choice=by_step(is_choice),
        search=by_step(search.astype(np.float16)),
        num_steps=np.array(NUM_STEPS),
        outcome=np.array(OUTCOME, np.float32),
        is_over=np.array(IS_OVER),
        learns=np.array(LEARNS),
        number=np.arange(GAMES),
    )


def both_sides(states: State) -> Observation:
    """Observe each position as player 0 and player 1 in turn, [2 N]."""
    twice = jax.tree.map(lambda leaf: np.repeat(leaf, 2, axis=0), states)
    return observe_all(twice, np.arange(2 * len(states.color)) % 2)


class Row:
    """An information state in the loss."""

    def __init__(self, step: int, game: int, player: int):
        self.step, self.game, self.player = step, game, player
        self.index = (step * GAMES + game) * 2 + player


ROWS = [
    Row(step, game, player)
    for game in range(GAMES)
    for player in range(2)
    for step in range(NUM_STEPS[game])
    if LEARNS[game][player]
]


@pytest.fixture(scope="module")
def inputs(games: Episodes, states: State) -> Features:
    """Return the network's input at each of the 32 information states."""
    seen = both_sides(states)
    theirs = np.asarray(states.hands)[:, ::-1].reshape(-1, 108)
    believed = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]).astype(np.float32), games.outlook)
    is_shown = np.tile(SHOWN.reshape(-1), STEPS)

    @jax.jit
    def look(seen, believed, hands):
        known = outlook_of_hand(bits.pack(hands))
        outlook = jax.tree.map(lambda a, b: jnp.where(is_shown.reshape(-1, *[1] * (a.ndim - 1)), a, b), known, believed)
        return features(view_of(seen), outlook)

    return look(seen, believed, theirs)


jitted_targets = jax.jit(targets_of)


def test_targets_by_hand(games: Episodes, inputs: Features):
    network = random_network()
    for discount, traces in ((1.0, (0.0, 0.5, 1.0)), (0.8, (0.5, 1.0))):
        network = replace(network, config=replace(network.config, discount=discount))
        values = np.asarray(says(network, inputs).value)
        for trace in traces:
            made = np.asarray(jitted_targets(games, SHOWN, network, trace))
            assert made.shape == (STEPS, GAMES, 2)
            for row in ROWS:
                last = NUM_STEPS[row.game] - 1
                at_step = [values[(step * GAMES + row.game) * 2 + row.player] for step in range(last + 1)]
                # A truncated game has the value of its last state.
                target = OUTCOME[row.game] * (1, -1)[row.player] if IS_OVER[row.game] else at_step[last]
                for step in range(last - 1, row.step - 1, -1):
                    target = discount * ((1 - trace) * at_step[step + 1] + trace * target)
                assert made[row.step, row.game, row.player] == pytest.approx(target, abs=2e-6), (discount, trace, vars(row))
    # Monte Carlo targets of finished games need no network: a broken one changes none of them.
    broken = jax.tree.map(lambda leaf: np.full_like(leaf, np.nan), network)
    made = np.asarray(jitted_targets(games, SHOWN, broken, 1.0))
    for row in ROWS:
        assert np.isnan(made[row.step, row.game, row.player]) == (not IS_OVER[row.game])


TARGETS = np.random.default_rng(1).uniform(-1, 1, (STEPS, GAMES, 2)).astype(np.float32)
LOSS = Loss(advantage_weight=2.0, policy_weight=0.5, belief_weight=3.0)


@jax.jit
def learn_from(key: jax.Array, network: Network, games: Episodes, shown: jax.Array, targets: jax.Array):
    return loss_and_gradient(key, network, games, shown, targets, LOSS)


def zeros() -> Network:
    return jax.tree.map(np.zeros_like, random_network())


def learn(network: Network, games: Episodes, key: jax.Array = KEY, shown: np.ndarray = SHOWN, targets: np.ndarray = TARGETS):
    # NumPy, because weakly typed numbers would compile another program.
    return jax.device_get(learn_from(key, *jax.tree.map(np.asarray, (network, games, shown, targets))))


def test_losses_by_hand(games: Episodes, states: State):
    """A network of constant outputs: P(win) 3/4, rank 5 twice as likely as others, every slot with 3/4.

    Its values are equal, so the advantage loss is the variance of the estimates.
    """
    network = zeros()
    log3 = np.float32(math.log(3))
    network.params["win"]["bias"][:] = log3
    network.params["policy"]["out"]["bias"][5] = math.log(2)
    network.params["slots"]["bias"][:] = network.params["wild_slots"]["bias"][:] = log3
    sums = learn(network, games)[0]

    rest, quarter = -math.log(3 / 4), -math.log(1 / 4)
    legal = np.asarray(legal_all(states))
    action, is_choice = np.asarray(games.action).reshape(-1), np.asarray(games.is_choice).reshape(-1)
    win = hidden_win = policy = belief = 0.0
    choices = hidden = 0
    for row in ROWS:
        target = float(TARGETS[row.step, row.game, row.player])
        of_state = (1 + target) / 2 * rest + (1 - target) / 2 * quarter
        win += of_state
        if not SHOWN[row.game, row.player]:
            hidden += 1
            hidden_win += of_state
            held = int(states.hands[row.index // 2, 1 - row.player].sum())
            belief += (held * rest + (108 - held) * quarter) / 108
        is_own = is_choice[row.index // 2] and states.current_player[row.index // 2] == row.player
        if is_own and not SHOWN[row.game, row.player]:
            choices += 1
            weights = {a: 2 if a % 15 == 5 else 1 for a in np.flatnonzero(legal[row.index // 2])}
            policy += -math.log(weights[action[row.index // 2]] / sum(weights.values()))
    assert choices > 2 and hidden > 4
    assert (sums.states, sums.choices, sums.hidden) == (len(ROWS), choices, hidden)
    found = [float(x) for x in (sums.win, sums.hidden_win, sums.policy, sums.belief)]
    np.testing.assert_allclose(found, [win, hidden_win, policy, belief], rtol=1e-5)
    compared = decisions(games, states)
    assert sums.decisions == len(compared) >= 3
    assert float(sums.advantage) == pytest.approx(sum(((q - q.mean()) ** 2).sum() for _, _, q in compared), rel=1e-5)


def decisions(games: Episodes, states: State) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Return number, plays and estimates of the searched decisions of a player who learns with a hidden hand."""
    found = []
    search = np.asarray(games.search, np.float32).reshape(-1, cards.DRAW)
    for step, number in np.ndindex(STEPS, GAMES):
        at = step * GAMES + number
        plays = np.flatnonzero(~np.isnan(search[at]))
        if step < NUM_STEPS[number] and len(plays) and not SHOWN[number, states.current_player[at]]:
            found.append((at, plays, search[at, plays]))
    return found


def test_without_a_search_or_its_weight_no_differences_are_learned(games: Episodes, monkeypatch: pytest.MonkeyPatch):
    network = random_network()
    of_states = Sums(*range(len(Sums._fields))), network.params
    monkeypatch.setattr(learning, "_learn_states", lambda *_: of_states)
    monkeypatch.setattr(learning, "_learn_decisions", None)
    for made, loss in ((games, Loss(advantage_weight=0.0)), (games._replace(search=None), LOSS)):
        sums, gradient, of_decisions = loss_and_gradient(KEY, network, made, SHOWN, TARGETS, loss)
        assert (sums, gradient) == of_states
        assert jax.tree.structure(of_decisions) == jax.tree.structure(gradient)
        assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(of_decisions))


@pytest.fixture(scope="module")
def dense(games: Episodes, states: State, inputs: Features):
    """Return sums and gradients of the losses over all states and decisions, by `jax.grad`."""
    index = np.array([row.index for row in ROWS])
    made = jax.tree.map(lambda leaf: leaf[index], inputs)
    target = TARGETS.reshape(-1)[index]
    hidden = ~np.tile(SHOWN.reshape(-1), STEPS)[index]
    at = index // 2
    chooses = np.asarray(games.is_choice).reshape(-1)[at] & (states.current_player[at] == index % 2)
    legal = np.asarray(legal_all(states))[at, : cards.DRAW]
    action = np.where(chooses, np.asarray(games.action).reshape(-1)[at], 0)
    slots = np.asarray(states.hands)[at, 1 - index % 2]

    found = decisions(games, states)
    of_play = np.concatenate([[number] * len(plays) for number, (_, plays, _) in enumerate(found)])
    play, estimate = (np.concatenate([row[part] for row in found]) for part in (1, 2))
    where = np.array([row[0] for row in found])[of_play]
    mover = np.asarray(states.current_player)[where]
    seen = jax.tree.map(lambda leaf: leaf[where * 2 + mover], both_sides(states))
    believed = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:])[where * 2 + mover].astype(np.float32), games.outlook)
    mean = np.eye(len(found))[of_play] / np.bincount(of_play)
    same = np.eye(len(found))[of_play]

    def of_states(network: Network):
        outputs = network(made)
        prob = outputs.win_prob
        win = -((1 + target) / 2 * jnp.log(prob) + (1 - target) / 2 * jnp.log1p(-prob))
        log_policy = jax.nn.log_softmax(jnp.where(legal, outputs.policy_logits, -1e9), -1)
        policy = -jnp.where(chooses & hidden, log_policy[np.arange(len(index)), action], 0)
        logits = outputs.slot_logits
        belief = jnp.where(hidden, -jnp.where(slots, jax.nn.log_sigmoid(logits), jax.nn.log_sigmoid(-logits)).mean(-1), 0)
        sums = win.sum(), policy.sum(), belief.sum()
        return sums[0] + LOSS.policy_weight * sums[1] + LOSS.belief_weight * sums[2], sums

    def of_decisions(network: Network):
        after, is_won = after_plays(view_of(seen), jnp.asarray(play))
        difference = jnp.where(is_won, 1.0, network(features(after, believed)).value) - estimate
        error = difference - same @ (mean.T @ difference)
        return LOSS.advantage_weight * (error**2).sum(), (error**2).sum()

    @jax.jit
    def both(network: Network):
        return jax.value_and_grad(of_states, has_aux=True)(network), jax.value_and_grad(of_decisions, has_aux=True)(network)

    return jax.device_get(both(random_network()))


@pytest.mark.slow
def test_gradients_are_those_of_a_dense_loss(games: Episodes, dense, monkeypatch: pytest.MonkeyPatch):
    """In chunks, the last one partly filled, and in one chunk."""
    assert len(ROWS) > CHUNK
    learned = [learn(random_network(), games)]
    monkeypatch.setitem(learning._CHUNK, "cpu", 1024)
    whole = jax.jit(lambda *args: loss_and_gradient(*args, LOSS))
    learned.append(jax.device_get(whole(KEY, random_network(), games, SHOWN, TARGETS)))
    ((_, truth), gradient), ((_, advantage), gradient_of_decisions) = dense
    for sums, of_states, of_decisions in learned:
        np.testing.assert_allclose([sums.win, sums.policy, sums.belief, sums.advantage], [*truth, advantage], rtol=2e-5)
        for found, wanted in ((of_states, gradient.params), (of_decisions, gradient_of_decisions.params)):
            largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(wanted))
            assert largest > 0.01
            jax.tree.map(lambda a, b, size=largest: np.testing.assert_allclose(a, b, atol=1e-5 * size), found, wanted)


def with_plays(games: Episodes, num_plays: int, num_steps: list[int]) -> Episodes:
    """Let every decision have `num_plays` searched plays; the first returned 1 and the others 0."""
    search = np.full((STEPS, GAMES, cards.DRAW), np.nan, np.float16)
    search[..., :num_plays] = np.arange(num_plays) == 0
    return games._replace(search=search, num_steps=np.array(num_steps))


def test_of_many_plays_eight_take_part(games: Episodes, states: State):
    """Ten plays, one estimate of 1 among zeros: if drawn, (1 - 1/8)^2 + 7 (1/8)^2 = 7/8, else 0."""
    assert states.hands[0].sum(-1).min() > 1, "no play wins at once"
    made = with_plays(games, 10, [1, 0, 0, 0])
    drawn = [learn(zeros(), made, key, np.zeros_like(SHOWN))[0] for key in jax.random.split(jax.random.key(0), 80)]
    advantage = np.array([sums.advantage for sums in drawn])
    is_drawn = np.isclose(advantage, 0.875)
    assert (is_drawn | (advantage == 0)).all() and all(sums.decisions == 1 for sums in drawn)
    # Its probability is 8/10: that it is drawn never or always in 80 draws has a probability of 2e-8.
    assert 0 < is_drawn.sum() < 80


def test_parts_of_the_games_add_up_to_the_whole(games: Episodes):
    """The drawn plays depend on the game and not on its place, so devices can share games."""
    network = random_network()
    whole = learn(network, with_plays(games, 12, NUM_STEPS))
    assert whole[0].decisions > 4
    parts = [learn(network, with_plays(games, 12, num_steps)) for num_steps in ([4, 0, 0, 2], [0, 3, 4, 0])]
    order = np.array([2, 0, 3, 1])
    elsewhere = with_plays(games, 12, NUM_STEPS).map_games(lambda leaf, axis: np.take(np.asarray(leaf), order, axis))
    moved = learn(network, elsewhere, KEY, SHOWN[order], TARGETS[:, order])
    for same in (jax.tree.map(np.add, *parts), moved):
        for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(same), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    other_draw = learn(network, with_plays(games, 12, NUM_STEPS), jax.random.key(6))[0]
    assert abs(other_draw.advantage - whole[0].advantage) > 1e-3
