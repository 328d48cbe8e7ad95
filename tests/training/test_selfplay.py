"""`training.selfplay`: the games recorded are games, by the rules and by those who are to play them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, assert_distributed
from tests.value.positions import RULES, legal_all, observe_all, random_network
from training import selfplay
from training.selfplay import SELF, Games, Play, play_games
from unojax import bits, cards, game, table
from unojax.game import GivenCards, State
from unojax.policies import POLICIES
from unojax.value import NetworkConfig, outlook_of_unseen, position_of, value_plays

NUM = 32
MAX_STEPS = 120
NETWORK = random_network(3, NetworkConfig(width=8))
PLAY = Play(opponents=(SELF, POLICIES["uniform"]), belief="unseen", explore=0.3, max_steps=MAX_STEPS)
KEYS = jax.random.split(jax.random.key(0), NUM)


def played(play: Play, keys=KEYS, number=None) -> Games:
    number = jnp.arange(len(keys)) if number is None else number
    return jax.device_get(jax.jit(partial(play_games, play=play))(keys, number, NETWORK))


@pytest.fixture(scope="module")
def games() -> Games:
    return played(PLAY)


class Rows:
    """The rows that count, flat: [R], and the positions in them."""

    def __init__(self, games: Games):
        self.step, self.game = np.nonzero(np.arange(len(games.action))[:, None] < games.num_steps)
        self.table, self.outlook, self.action, self.is_choice = (
            jax.tree.map(lambda leaf: leaf[self.step, self.game], part)
            for part in (games.table, games.outlook, games.action, games.is_choice)
        )
        self.states = jax.device_get(states_of(self.table))
        self.legal = np.asarray(legal_all(self.states))
        self.mover = self.states.current_player.astype(int)
        self.by_network = games.learns[self.game, self.mover]
        self.has_choice = self.legal.sum(1) > 1
        """Whether the row is followed by another one of its game, which is then the next of the same game."""
        self.goes_on = self.step + 1 < games.num_steps[self.game]
        order = {at: row for row, at in enumerate(zip(self.step.tolist(), self.game.tolist(), strict=True))}
        self.following = np.array([order.get((t + 1, g), 0) for t, g in zip(self.step.tolist(), self.game.tolist(), strict=True)])


@jax.jit
@jax.vmap
def states_of(tables: table.Table) -> State:
    nothing = jnp.int32(0)
    rewards, error = jnp.zeros(2), jnp.uint8(0)
    return game.from_table(
        tables,
        rewards=rewards,
        truncated=jnp.bool_(False),
        step_count=nothing,
        error=error,
        last_action=jnp.int8(-1),
        rules=RULES,
    )


@pytest.fixture(scope="module")
def rows(games: Games) -> Rows:
    return Rows(games)


@jax.jit
def step_to(states: State, actions: jax.Array, decks: jax.Array) -> State:
    """One step each, in which the cards are drawn that leave the given deck."""
    return jax.vmap(lambda state, action, deck: game._step(state, action, GivenCards(bits.pack(deck)), RULES))(
        states, actions, decks
    )


def test_every_row_follows_from_the_one_before_by_the_rules(games: Games, rows: Rows):
    assert rows.legal[np.arange(len(rows.action)), rows.action].all(), "every action is legal"
    followed = rows.states.deck[rows.following]
    after = jax.device_get(step_to(rows.states, rows.action.astype(np.int32), followed))
    goes_on, following = rows.goes_on, rows.following
    assert not after.error.any() and not after.terminated[goes_on].any()
    for name in ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty"):
        truth = getattr(rows.states, name)[following][goes_on]
        np.testing.assert_array_equal(getattr(after, name)[goes_on], truth, err_msg=name)
    # The last step ends the game, and so as is noted.
    last = ~goes_on & games.is_over[rows.game]
    assert after.terminated[last].all() and last.sum() == games.is_over.sum()
    outcome = np.select([after.winner == 0, after.winner == 1], [1.0, -1.0], 0.0)
    np.testing.assert_array_equal(outcome[last], games.outcome[rows.game][last])
    cut = ~games.is_over
    assert (games.num_steps[cut] == MAX_STEPS).all() and (games.outcome[cut] == 0).all()
    assert not after.terminated[~goes_on & ~games.is_over[rows.game]].any()


def test_games_begin_with_a_deal(games: Games, rows: Rows):
    first = rows.step == 0
    assert first.sum() == NUM
    assert (rows.states.hands[first].sum(-1) == 7).all() and (rows.states.pile[first].sum(-1) == 1).all()
    assert len({bytes(hands) for hands in rows.states.hands[first]}) == NUM, "of their own"
    assert games.is_over.mean() > 0.5


def test_outlooks_are_those_of_what_the_players_see(rows: Rows):
    for player in (0, 1):
        seen = observe_all(rows.states, jnp.full(len(rows.action), player))
        truth = jax.jit(lambda seen: outlook_of_unseen(position_of(seen)))(seen)
        for name, found, wanted in zip(truth._fields, rows.outlook, truth, strict=True):
            assert found.dtype == np.float16
            np.testing.assert_allclose(found[:, player], wanted, rtol=1e-3, atol=1e-4, err_msg=name)


def test_seats_and_opponents_are_balanced(games: Games, rows: Rows):
    """By number: the opponents in turn; after a round of them the other seat."""
    assert games.learns[0::2].all(), "against itself"
    assert games.learns[1::4].tolist() == [[True, False]] * 8 and games.learns[3::4].tolist() == [[False, True]] * 8
    assert set(rows.mover[rows.by_network & ~games.learns[rows.game].all(1)]) == {0, 1}


def test_the_network_chooses_what_it_values_most_but_when_it_explores(rows: Rows):
    seen = observe_all(rows.states, jnp.asarray(rows.mover))

    @jax.jit
    def values_of(seen, legal: jax.Array) -> jax.Array:
        position = position_of(seen)
        return value_plays(NETWORK, position, outlook_of_unseen(position), legal, rules=RULES)

    values = np.asarray(values_of(seen, rows.legal[:, : cards.DRAW]))
    chosen = np.where(rows.action < cards.DRAW, values[np.arange(len(values)), np.minimum(rows.action, 59)], np.nan)
    best = values.max(-1)
    assert rows.is_choice.sum() > 200
    np.testing.assert_allclose(chosen[rows.is_choice], best[rows.is_choice], atol=1e-5)
    explored = rows.by_network & rows.has_choice & ~rows.is_choice
    assert (chosen[explored] < best[explored] - 1e-3).any()


def test_choices_are_the_networks_own(rows: Rows):
    assert not (rows.is_choice & ~(rows.by_network & rows.has_choice)).any()
    others = ~rows.by_network
    assert others.sum() > 100 and rows.by_network.sum() > 300


def test_how_often_and_how_it_explores(rows: Rows):
    """Error probability of either test: 1e-6."""
    could = rows.by_network & rows.has_choice
    explored = int((could & ~rows.is_choice).sum())
    assert scipy.stats.binomtest(explored, int(could.sum()), PLAY.explore).pvalue > ERROR_PROBABILITY
    # Uniformly: the rank of the action among the legal ones, of decisions between exactly two.
    between_two = could & ~rows.is_choice & (rows.legal.sum(1) == 2)
    is_first = rows.action[between_two] == rows.legal[between_two].argmax(1)
    assert_distributed([is_first.sum(), (~is_first).sum()], [0.5, 0.5])


def test_the_opponent_follows_its_policy(rows: Rows):
    """The uniform policy takes the first of two legal plays half of the time; error probability 1e-6."""
    between_two = ~rows.by_network & (rows.legal.sum(1) == 2)
    is_first = rows.action[between_two] == rows.legal[between_two].argmax(1)
    assert_distributed([is_first.sum(), (~is_first).sum()], [0.5, 0.5])


def test_the_same_key_plays_the_same_game_in_any_company(games: Games, monkeypatch: pytest.MonkeyPatch):
    """Other chunks, other games beside it, another order."""
    monkeypatch.setitem(selfplay._CHUNK, "cpu", 5)
    order = np.random.default_rng(0).permutation(NUM)[:12]
    some = played(PLAY, KEYS[order], jnp.asarray(order))
    assert_same_games(some, take(games, order))


def take(games: Games, chosen: np.ndarray) -> Games:
    by_step = ("table", "outlook", "action", "is_choice")
    return Games(
        **{
            name: jax.tree.map(lambda leaf, first=name in by_step: leaf[:, chosen] if first else leaf[chosen], part)
            for name, part in games._asdict().items()
        }
    )


def assert_same_games(one: Games, other: Games) -> None:
    np.testing.assert_array_equal(one.num_steps, other.num_steps)
    count = np.arange(len(one.action))[:, None] < one.num_steps
    for name in ("action", "is_choice"):
        np.testing.assert_array_equal(getattr(one, name)[count], getattr(other, name)[count])
    for a, b in zip(jax.tree.leaves(one.table), jax.tree.leaves(other.table), strict=True):
        np.testing.assert_array_equal(a[count], b[count])
    for a, b in zip(one.outlook, other.outlook, strict=True):
        np.testing.assert_allclose(a[count], b[count], atol=1e-3)
    for name in ("outcome", "is_over", "learns"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_with_particles_beliefs_are_carried_along_and_searched():
    """The same games, with a belief of each player and a search at the choices."""
    play = Play(opponents=(SELF,), particles=16, explore=0.1, max_steps=40, search=4, search_depth=1)
    games = played(play, KEYS[:8])
    rows = Rows(games)
    held = rows.states.hands.sum(-1)[:, ::-1]
    np.testing.assert_allclose(rows.outlook.expected.astype(np.float32).sum(-1), held, rtol=2e-3)
    for player in (0, 1):
        seen = observe_all(rows.states, jnp.full(len(rows.action), player))
        believed = rows.outlook.expected[:, player].astype(np.float32)
        assert (believed <= np.asarray(seen.unseen) + 2e-3).all(), "only what is not seen"
        assert np.abs(believed - np.asarray(jax.jit(lambda s: outlook_of_unseen(position_of(s)))(seen).expected)).max() > 0.1
    # Both players of the same game learn of each other's draws for want of a playable card.
    could_not = (rows.action == cards.DRAW) & (rows.states.penalty == 0) & rows.goes_on
    assert could_not.any()
    for row in np.flatnonzero(could_not):
        state = jax.tree.map(lambda leaf, row=row: leaf[row], rows.states)
        observer = 1 - int(state.current_player)
        believed = rows.outlook.expected[rows.following[row], observer].astype(np.float32)
        playable = [t for t in range(52) if t // 13 == state.color or t % 13 == state.top_rank] + [52, 53]
        # At most the one card that was drawn.
        assert believed[playable].sum() <= 1 + 1e-2
    estimates = games.search[rows.step, rows.game].astype(np.float32)
    searched = rows.by_network & rows.has_choice
    np.testing.assert_array_equal(~np.isnan(estimates).all(-1), searched)
    np.testing.assert_array_equal(~np.isnan(estimates[searched]), rows.legal[searched][:, : cards.DRAW])
    assert (np.abs(estimates[searched][rows.legal[searched][:, : cards.DRAW]]) <= 1).all()


def test_following_the_search():
    """Without exploration every choice is the search's best."""
    play = Play(opponents=(SELF,), belief="unseen", max_steps=12, search=2, search_depth=1, follow_search=True)
    games = played(play, KEYS[:8])
    rows = Rows(games)
    estimates = np.where(rows.legal[:, : cards.DRAW], games.search[rows.step, rows.game].astype(np.float32), -np.inf)[
        rows.is_choice
    ]
    assert len(estimates) > 20
    np.testing.assert_array_equal(estimates[np.arange(len(estimates)), rows.action[rows.is_choice]], estimates.max(-1))


def test_a_search_of_little_weight_is_overruled_by_the_network():
    play = Play(opponents=(SELF,), belief="unseen", max_steps=12, search=2, follow_search=True, search_weight=1e6)
    followed, alone = played(play, KEYS[:8]), played(replace(play, search=0, follow_search=False, search_weight=0.0), KEYS[:8])
    np.testing.assert_array_equal(followed.action, alone.action)
    # What is learned from is the search's own word.
    estimates = followed.search.astype(np.float32)
    assert set(np.unique(estimates[~np.isnan(estimates)])) == {-1.0, 0.0, 1.0}
