"""`training.value.selfplay`: recorded games obey the rules, and their players are the given ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from tests.helpers import ERROR_PROBABILITY, assert_distributed, long_but
from tests.value.positions import RULES, legal_all, observe_all, outlooks_of, random_network
from training.value import selfplay
from training.value.selfplay import SELF, Episodes, SelfPlay, play_episodes
from unojax import bits, cards, game, table
from unojax.game import GivenCards, State
from unojax.observation import Observation
from unojax.policies import LINEAR, uniform
from unojax.search.monte_carlo import Samples
from unojax.search.rollouts import Rollouts, Style
from unojax.value import NetworkConfig, Outlook, outlook_of_unseen, save_network, value_plays
from unojax.view import view_of

NUM = 32
MAX_STEPS = 90
NETWORK = random_network(3, NetworkConfig(width=8))
PLAY = SelfPlay(opponents=(SELF, "uniform"), belief="unseen", explore=0.3, max_steps=MAX_STEPS, search=0)
KEYS = jax.random.split(jax.random.key(0), NUM)
CHUNK = 13


@pytest.fixture(scope="module", autouse=True)
def chunk() -> Iterator[None]:
    """Play in two full chunks and a partial one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(selfplay._CHUNK, "cpu", CHUNK)
        yield


play_all = jax.jit(play_episodes, static_argnames="play")


def played(play: SelfPlay, keys=KEYS, number=None) -> Episodes:
    return jax.device_get(play_all(keys, np.arange(len(keys)) if number is None else number, NETWORK, play=play))


@pytest.fixture(scope="module")
def games() -> Episodes:
    return played(PLAY)


class Rows:
    """The rows of unfinished games, flat, [R], and the positions in them."""

    def __init__(self, games: Episodes):
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
        # The next row of the same game, if there is one.
        self.goes_on = self.step + 1 < games.num_steps[self.game]
        places = list(zip(self.step.tolist(), self.game.tolist(), strict=True))
        order = {place: row for row, place in enumerate(places)}
        self.following = np.array([order.get((step + 1, game), 0) for step, game in places])


@jax.jit
@jax.vmap
def states_of(tables: table.Table) -> State:
    return game.from_table(tables, RULES)


@jax.jit
def values_of(seen: Observation, legal: jax.Array) -> jax.Array:
    """Return the network's values of the plays, without a belief."""
    view = view_of(seen)
    return value_plays(NETWORK, view, outlook_of_unseen(view), legal)


@pytest.fixture(scope="module")
def rows(games: Episodes) -> Rows:
    return Rows(games)


@jax.jit
@jax.vmap
def step_to(state: State, action: jax.Array, deck: jax.Array) -> State:
    """Take one step each, drawing the cards that leave the given deck."""
    return game.step_with(state, action, GivenCards(bits.pack(deck), state.color))


def test_every_row_follows_from_the_one_before_by_the_rules(games: Episodes, rows: Rows):
    """From a deal to the recorded end or to truncation; outlooks are those of the observations."""
    first = rows.step == 0
    assert first.sum() == NUM and games.is_over.mean() > 0.5
    assert (rows.states.hands[first].sum(-1) == 7).all() and (rows.states.pile[first].sum(-1) == 1).all()
    assert len({bytes(hands) for hands in rows.states.hands[first]}) == NUM, "separate deals"
    assert rows.legal[np.arange(len(rows.action)), rows.action].all(), "every action is legal"
    goes_on, following = rows.goes_on, rows.following
    after = jax.device_get(step_to(rows.states, rows.action.astype(np.int32), rows.states.deck[following]))
    assert not after.error.any() and not after.terminated[goes_on].any()
    for name in ("hands", "deck", "pile", "top_rank", "color", "current_player", "penalty"):
        truth = getattr(rows.states, name)[following][goes_on]
        np.testing.assert_array_equal(getattr(after, name)[goes_on], truth, err_msg=name)
    last = ~goes_on & games.is_over[rows.game]
    assert after.terminated[last].all() and last.sum() == games.is_over.sum()
    outcome = np.select([after.winner == 0, after.winner == 1], [1.0, -1.0], 0.0)
    np.testing.assert_array_equal(outcome[last], games.outcome[rows.game][last])
    cut = ~games.is_over
    assert (games.num_steps[cut] == MAX_STEPS).all() and (games.outcome[cut] == 0).all()
    assert not after.terminated[~goes_on & ~games.is_over[rows.game]].any()
    for player in (0, 1):
        truth = outlooks_of(observe_all(rows.states, np.full(len(rows.action), player)))
        for name, found, wanted in zip(truth._fields, rows.outlook, truth, strict=True):
            assert found.dtype == np.float16
            np.testing.assert_allclose(found[:, player], wanted, rtol=1e-3, atol=1e-4, err_msg=name)


def test_seats_and_opponents_are_balanced(games: Episodes, rows: Rows):
    """Opponents alternate by number, and seats after each round of them."""
    assert games.learns[0::2].all(), "against itself"
    assert games.learns[1::4].tolist() == [[True, False]] * 8 and games.learns[3::4].tolist() == [[False, True]] * 8
    assert set(rows.mover[rows.by_network & ~games.learns[rows.game].all(1)]) == {0, 1}


def test_the_network_chooses_what_it_values_most_except_when_it_explores(rows: Rows):
    """The opponent follows its policy. The error probability of each statistical test is 1e-6."""
    values = np.asarray(values_of(observe_all(rows.states, rows.mover), rows.legal[:, : cards.DRAW]))
    chosen = np.where(rows.action < cards.DRAW, values[np.arange(len(values)), np.minimum(rows.action, 59)], np.nan)
    best, could = values.max(-1), rows.by_network & rows.has_choice
    assert not (rows.is_choice & ~could).any() and rows.is_choice.sum() > 200
    np.testing.assert_allclose(chosen[rows.is_choice], best[rows.is_choice], atol=1e-5)
    explored = could & ~rows.is_choice
    assert (chosen[explored] < best[explored] - 1e-3).any()
    assert scipy.stats.binomtest(int(explored.sum()), int(could.sum()), PLAY.explore).pvalue > ERROR_PROBABILITY
    # Exploration and the uniform policy take the first of two legal actions half of the time.
    assert (~rows.by_network).sum() > 100
    between_two = rows.legal.sum(1) == 2
    for at in (explored & between_two, ~rows.by_network & between_two):
        is_first = rows.action[at] == rows.legal[at].argmax(1)
        assert_distributed([is_first.sum(), (~is_first).sum()], [0.5, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("belief", long_but(["unseen"], ["unseen", "particles"]))
def test_an_opponent_that_is_a_network_chooses_what_it_values_most(belief: Literal["unseen", "particles"], tmp_path: Path):
    """By its own belief and without exploration. It stays fixed, so only one player learns."""
    theirs = random_network(4, NetworkConfig(width=8))
    save_network(tmp_path / "theirs.safetensors", theirs)
    opponents = (str(tmp_path / "theirs.safetensors"),)
    games = played(replace(PLAY, opponents=opponents, belief=belief, particles=16, max_steps=40), KEYS[:8])
    rows = Rows(games)
    assert games.learns.sum(1).tolist() == [1] * 8
    of_mover = jax.tree.map(lambda x: jnp.float32(x[np.arange(len(rows.mover)), rows.mover]), rows.outlook)
    view = view_of(observe_all(rows.states, rows.mover))
    legal = rows.legal[:, : cards.DRAW]
    at = np.flatnonzero(~rows.by_network & rows.has_choice)
    assert len(at) > 30
    for network, is_theirs in ((theirs, True), (NETWORK, False)):
        values = np.asarray(value_plays(network, view, Outlook(*of_mover), jnp.asarray(legal)))[at]
        lost = values.max(-1) - values[np.arange(len(at)), rows.action[at]]
        # Outlooks are stored in half precision.
        assert (lost.max() < 2e-2) == is_theirs


@pytest.mark.slow
def test_the_same_key_plays_the_same_game_among_any_others(games: Episodes):
    """In another batch and another order."""
    rng = np.random.default_rng(0)
    order = rng.permutation(NUM)
    others = rng.permutation(NUM)[: NUM // 2]
    strangers = jax.random.split(jax.random.key(1), len(others))
    some = played(PLAY, KEYS[order].at[others].set(strangers), order)
    kept = np.setdiff1d(np.arange(NUM), others)
    one, other = (
        played.map_games(lambda leaf, axis, chosen=chosen: np.take(leaf, chosen, axis))
        for played, chosen in ((some, kept), (games, order[kept]))
    )
    assert_same_games(one, other)


def assert_same_games(one: Episodes, other: Episodes) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize(("search", "model"), [pytest.param(0, "uniform", marks=pytest.mark.long), (4, "uniform|scarcest-color")])
def test_particle_beliefs_are_updated_and_searched(search: int, model: str):
    """The same games, with a belief of each player and a search at the choices."""
    play = SelfPlay(opponents=(SELF,), particles=16, model=model, explore=0.1, max_steps=40, search=search)
    games = played(play, KEYS[:8])
    rows = Rows(games)
    held = rows.states.hands.sum(-1)[:, ::-1]
    np.testing.assert_allclose(rows.outlook.expected.astype(np.float32).sum(-1), held, rtol=2e-3)
    for player in (0, 1):
        seen = observe_all(rows.states, np.full(len(rows.action), player))
        believed = rows.outlook.expected[:, player].astype(np.float32)
        assert (believed <= np.asarray(seen.unseen) + 2e-3).all(), "only what is not seen"
        assert np.abs(believed - np.asarray(outlooks_of(seen).expected)).max() > 0.1
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
    assert (games.search is not None) == (search > 0)
    if games.search is None:
        return
    estimates = games.search[rows.step, rows.game].astype(np.float32)
    searched = rows.by_network & rows.has_choice
    np.testing.assert_array_equal(~np.isnan(estimates).all(-1), searched)
    np.testing.assert_array_equal(~np.isnan(estimates[searched]), rows.legal[searched][:, : cards.DRAW])
    assert (np.abs(estimates[searched][rows.legal[searched][:, : cards.DRAW]]) <= 1).all()


def test_searches_follow_the_type_of_each_sample(monkeypatch: pytest.MonkeyPatch):
    """Rollouts receive samples with types, and the choice rule of each type."""
    calls: list[tuple] = []

    def search(*decisions):
        calls.append(decisions)
        return SimpleNamespace(value=np.full((4, cards.DRAW), 0.5, np.float32))

    monkeypatch.setattr(selfplay, "flat_monte_carlo", search)
    play = replace(PLAY, belief="particles", model="uniform|linear+0", search=8)
    samples, legal = Samples((), np.arange(32).reshape(4, 8) % 2), np.arange(4 * cards.DRAW).reshape(4, -1) % 3 == 0
    found = selfplay._search(KEYS[:4], None, samples, legal, play, 0.9)
    np.testing.assert_array_equal(found, np.where(legal, 0.5, -np.inf))
    ((keys, _, given, legal_plays, how),) = calls
    assert (keys == KEYS[:4]).all() and given is samples and legal_plays is legal
    types = (Style(1, 0.0), Style(0, 0.0))
    assert how == Rollouts((LINEAR, uniform), RULES, 8, 0.9, types=types)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("weight", [198.0, 0.0])
def test_a_followed_search_is_averaged_with_the_network(weight: float):
    """Without exploration every choice is best by the search's values, of weight 2, and the network's."""
    options = {"belief": "unseen", "explore": 0.0, "max_steps": 12, "search": 2, "follow_search": True}
    games = played(SelfPlay(opponents=(SELF,), search_weight=weight, **options), KEYS[:8])
    assert games.search is not None
    rows = Rows(games)
    legal, at = rows.legal[:, : cards.DRAW], np.flatnonzero(rows.is_choice)
    found = games.search[rows.step, rows.game].astype(np.float32)
    assert len(at) > 20
    # Only the search's values are learned from, of two rollouts to the end.
    assert set(np.unique(found[at][legal[at]])) == {-1.0, 0.0, 1.0}
    values = np.asarray(values_of(observe_all(rows.states, rows.mover), legal))
    mixed = np.where(legal, (2 * found + weight * np.where(legal, values, 0.0)) / (2 + weight), -np.inf)
    np.testing.assert_allclose(mixed[at, rows.action[at]], mixed[at].max(-1), atol=1e-5)
    for alone in (np.where(legal, found, -np.inf), values) if weight else ():
        assert (alone[at, rows.action[at]] < alone[at].max(-1) - 1e-3).any(), "neither decides alone"
