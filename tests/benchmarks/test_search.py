"""The benchmarks of the searches: the NumPy peer plays the same game, and the tables mean what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import numpy_linear, numpy_search, search, search_speed, search_strength
from benchmarks.search_speed import Decisions
from unojax import bits, cards, game
from unojax.agents import parse_agent
from unojax.arena import Pairs
from unojax.policies import LINEAR, View
from unojax.rules import Rules
from unojax.search.agents import Hands, MonteCarloAgent, SearchAgent, TreeAgent
from unojax.search.monte_carlo import Estimate

_ROLLOUTS = 1000


def random_positions(num: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Hands and piles uint32[4, N] of random labelled cards, the opponent's numbers of cards, colours and top ranks."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.tile(np.arange(cards.NUM_CARDS), (num, 1)), axis=1)
    held, played = rng.integers(2, 14, (num, 1)), rng.integers(1, 60, (num, 1))
    hands, piles = order < held, (order >= held) & (order < held + played)
    words = [np.array([bits.static_words(row) for row in rows], np.uint32).T for rows in (hands, piles)]
    return words[0], words[1], rng.integers(1, 11, num), rng.integers(0, 4, num), rng.integers(0, 15, num)


def test_numpy_plays_like_the_linear_policy() -> None:
    hands, piles, count, color, rank = random_positions(2000, seed=0)
    everything = bits.all_cards(Rules().deck)

    @jax.jit
    def original(hand: Any, pile: Any, count: jax.Array, color: jax.Array, rank: jax.Array) -> Any:
        view = View(hand, count, pile, color, everything)
        legal = bits.playable(hand, color, rank)
        return legal, LINEAR.narrow(view, legal), LINEAR.score_plays(view)

    as_words = (
        *(tuple(map(jnp.asarray, words)) for words in (hands, piles)),
        *(jnp.asarray(a, jnp.uint32) for a in (count, color, rank)),
    )
    legal, favoured, scores = jax.device_get(original(*as_words))
    legal, favoured = np.stack(legal), np.stack(favoured)
    at = np.flatnonzero((legal != 0).any(0))
    num_unseen = cards.NUM_CARDS - np.bitwise_count(hands | piles).sum(0)
    ours = numpy_linear.linear_narrow(hands[:, at], piles[:, at], color[at], count[at], num_unseen[at], legal[:, at])

    is_same = (ours == favoured[:, at]).all(0)
    assert len(at) > 1500
    # Points that are equal but for rounding may be ordered either way.
    assert is_same.mean() > 0.999
    masks = jax.jit(jax.vmap(game.options_to_mask))
    mine, allowed = (np.asarray(masks(tuple(map(jnp.asarray, words)))) for words in (ours, legal[:, at]))
    best = np.where(allowed, scores[at], -np.inf).max(1)
    assert mine.any(1).all() and (mine <= allowed).all()
    assert (np.where(mine, scores[at], np.inf).min(1) > best - 1e-5).all()


@pytest.fixture(scope="module")
def decisions() -> Decisions:
    return search_speed.record_decisions(num_decisions=12, num_particles=64, max_steps=120, seed=3)


@pytest.fixture(scope="module")
def think_all() -> Callable[[Decisions], Estimate]:
    agent = MonteCarloAgent(rollouts=_ROLLOUTS)
    program = jax.jit(jax.vmap(lambda key, decision: search_speed.think(agent, key, decision)))
    return lambda decisions: jax.device_get(program(jax.random.split(jax.random.key(1), 12), decisions))


@pytest.fixture(scope="module")
def estimate(think_all: Callable[[Decisions], Estimate], decisions: Decisions) -> Estimate:
    return think_all(decisions)


def check_agreement(decisions: Decisions, estimate: Estimate) -> list[numpy_search.Estimates]:
    """Wrong by chance with probability below 1e-4: P(|z| > 5) times at most 120 plays, and P(|z| > 4.5)."""
    host = search_speed.numpy_decisions(decisions)
    peers, num_steps = numpy_search.flat_monte_carlo(host, _ROLLOUTS, np.random.default_rng(0))
    for d, peer in enumerate(peers):
        np.testing.assert_array_equal(peer.actions, np.flatnonzero(decisions.legal[d]))
    assert num_steps > _ROLLOUTS * sum(len(peer.actions) for peer in peers)
    agreed = search_speed.agreement(estimate, peers)
    assert agreed["plays"] == int(decisions.legal.sum()) <= 120
    assert agreed["largest"] < 5
    assert abs(agreed["all_decisions"]) < 4.5
    return peers


def test_numpy_estimates_agree(decisions: Decisions, estimate: Estimate) -> None:
    check_agreement(decisions, estimate)


def rare(decisions: Decisions) -> Decisions:
    """The decisions with two cards left in the deck and the others in the pile; in the last one, with hardly any card played."""
    rng = np.random.default_rng(1)
    host = jax.device_get(decisions)
    composition = np.asarray(Rules().deck)
    top_types = np.asarray(decisions.observations.top_type)
    made = []
    for d in range(len(host.legal)):
        seen = jax.tree.map(lambda x, d=d: x[d], host.observations)
        hand, pile = (np.bincount(cards.TYPE_OF_SLOT[held], minlength=54) for held in (seen.hand, seen.pile))
        top, deck_count, opponent_count = int(top_types[d]), 2, int(seen.opponent_count)
        if d == len(host.legal) - 1:
            # 53 cards in each hand, a Wild+4 among them, one in the deck, and the top card, the only red 0.
            pile, top, deck_count, opponent_count = np.zeros_like(pile), 0, 1, 53
            pile[top] = 1
            others = rng.permutation(np.repeat(np.arange(cards.NUM_TYPES), composition - pile - (np.arange(54) == 53)))
            hand = np.bincount(others[:52], minlength=54) + (np.arange(54) == 53)
        unseen = rng.permutation(np.repeat(np.arange(cards.NUM_TYPES), composition - hand - pile))
        pile = pile + np.bincount(unseen[opponent_count + deck_count :], minlength=54)
        unseen = unseen[: opponent_count + deck_count]
        theirs = [np.bincount(rng.permutation(unseen)[:opponent_count], minlength=54) for _ in range(64)]
        seen = seen.replace(
            hand=onehot(hand),
            pile=onehot(pile),
            opponent_count=np.int8(opponent_count),
            deck_count=np.int8(deck_count),
            top_rank=cards.RANK_OF_TYPE[top],
            color=seen.color if top >= cards.WILD_TYPE else cards.COLOR_OF_TYPE[top],
        )
        words = np.array([bits.static_words(onehot(counts)) for counts in theirs]).T
        made.append((tuple(words), seen))
    words, seen = jax.tree.map(lambda *leaves: jnp.stack(leaves), *made)
    legal = jax.jit(jax.vmap(lambda observation: observation.legal_mask))(seen)
    return Decisions(Hands(words, jnp.zeros((len(made), 64))), seen, legal)


def onehot(counts: np.ndarray) -> np.ndarray:
    return counts[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT


def test_numpy_estimates_agree_when_the_deck_runs_out(decisions: Decisions, think_all: Callable[[Decisions], Estimate]) -> None:
    crafted = rare(decisions)
    estimate = think_all(crafted)
    peers = check_agreement(crafted, estimate)
    # Four cards are due, the deck has one and the pile gives one: the game ends, and the player who played has fewer.
    wild_draw_fours = np.arange(cards.NUM_COLORS) * cards.NUM_RANKS + 14
    assert (estimate.value[-1, wild_draw_fours] == 1).all()
    assert (peers[-1].value[np.isin(peers[-1].actions, wild_draw_fours)] == 1).all()


def test_agreement_is_in_standard_errors(estimate: Estimate) -> None:
    plays = [np.flatnonzero(row) for row in estimate.num_samples]
    values = [np.asarray(estimate.value[d, plays[d]], np.float64) for d in range(len(plays))]
    same = [numpy_search.Estimates(a, v, np.zeros(len(a))) for a, v in zip(plays, values, strict=True)]
    assert search_speed.agreement(estimate, same)["largest"] == 0
    # A game that is even has returns of variance 1, so the difference of two means has variance 2 / R.
    even = estimate._replace(value=jnp.zeros_like(estimate.value))
    away = [numpy_search.Estimates(a, np.full(len(a), 2 / np.sqrt(_ROLLOUTS)), np.zeros(len(a))) for a in plays]
    agreed = search_speed.agreement(even, away)
    assert agreed["largest"] == pytest.approx(2 / np.sqrt(2), rel=0.01)
    assert agreed["all_decisions"] == pytest.approx(2 / np.sqrt(2) * np.sqrt(len(plays)), rel=0.01)


def test_numpy_keeps_the_linear_play_unless_another_is_better(decisions: Decisions, estimate: Estimate) -> None:
    rng = np.random.default_rng(0)
    host = search_speed.numpy_decisions(decisions)
    probs = np.asarray(jax.jit(jax.vmap(LINEAR.action_probs))(decisions.observations, decisions.legal))
    for d, decision in enumerate(host):
        actions = np.flatnonzero(decisions.legal[d])
        even = numpy_search.Estimates(actions, np.zeros(len(actions)), np.full(len(actions), 0.1))
        kept = numpy_search.choose(even, decision.observation, 1.0, rng)
        assert probs[d, kept] > 0
        other = int(actions[actions != kept][0])
        better = even._replace(value=np.where(actions == other, 0.2, 0.0))
        assert numpy_search.choose(better, decision.observation, 1.0, rng) == other
        assert numpy_search.choose(better, decision.observation, 2.0, rng) in actions[actions != other]


def run_strength(path: Path, *arguments: str) -> dict[str, Any]:
    return search.main(["strength", "--games", "4", "--agents", "mc", "mc:model=OPPONENT", *arguments, "--json", str(path)])


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The matches that are asked for; A wins all games but one."""
    matches: list[tuple[str, str]] = []

    def play_match(key: jax.Array, agents: Any, num_pairs: int, **options: Any) -> Pairs:
        matches.append((agents[0].name, agents[1].name))
        if agents[1].name == "keep-wilds":
            raise KeyboardInterrupt
        return Pairs(
            index=np.arange(num_pairs),
            winner=np.array([[0, 0], [0, 1]], np.int8),
            num_steps=np.full((2, 2), 10, np.int32),
            num_choices=np.array([[[3, 1], [3, 1]], [[2, 1], [2, 1]]], np.int32),
            seconds=np.array([5.0, 1.0]),
        )

    monkeypatch.setattr(search_strength, "play_match", play_match)
    return matches


def test_strength_keeps_finished_rows_and_goes_on(tmp_path: Path, played: list[tuple[str, str]]) -> None:
    path = tmp_path / "strength.json"
    stopped = run_strength(path, "--opponents", "linear", "keep-wilds", "guard")
    assert played == [("mc", "linear"), ("mc:model=linear", "linear"), ("mc", "keep-wilds")]
    assert json.loads(path.read_text())["rows"] == stopped["rows"]
    assert [(row["agent"], row["opponent"]) for row in stopped["rows"]] == played[:2]

    played.clear()
    results = run_strength(path, "--opponents", "linear", "uniform")
    assert played == [("mc", "uniform"), ("mc:model=uniform", "uniform")]
    assert len(json.loads(path.read_text())["rows"]) == 4
    row = results["rows"][-1]
    assert (row["score"], row["decisions"], row["seconds_per_decision"], row["drawn"]) == (0.75, 10, 0.5, 0)
    assert row["interval_95"][0] < 0.75 < row["interval_95"][1]

    with pytest.raises(SystemExit):
        run_strength(path, "--seed", "1")


def test_times_of_other_searches_are_not_taken(tmp_path: Path, played: list[tuple[str, str]]) -> None:
    path = tmp_path / "strength.json"
    run_strength(path, "--opponents", "linear")
    results = json.loads(path.read_text())
    results["equal_time"] = {"first": "mc", "seconds_per_decision": 0.1, "batch": 64, "others": {}}
    path.write_text(json.dumps(results))
    with pytest.raises(SystemExit):
        run_strength(path, "--opponents", "linear", "--equal-time")
    assert len(played) == 2


def test_equal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def measure(agent: SearchAgent, *args: Any, **options: Any) -> dict[str, Any]:
        # A tree search takes 10 ms, and 20 us for each simulation; any other 80 us for each rollout.
        seconds = 0.01 + 2e-5 * agent.budget if isinstance(agent, TreeAgent) else 8e-5 * agent.budget
        asked.append(agent.name)
        return {"decisions_per_second": {"median": 1 / seconds}}

    monkeypatch.setattr(search_strength, "measure_batch", measure)
    monkeypatch.setattr(search_strength, "record_decisions", lambda **options: None)
    specs = ("mc:rollouts=500", "tree:simulations=4000", "linear", "mc:rollouts=100,particles=64", "tree:simulations=4000")
    agents = [parse_agent(spec) for spec in specs]
    measured = search_strength.equal_time(agents, seed=0, repeats=1)
    assert measured["first"] == asked[0] == "mc:rollouts=500"
    tree, flat = (search_strength.in_time(agents[at], measured) for at in (1, 3))
    assert isinstance(tree, TreeAgent) and isinstance(flat, MonteCarloAgent)
    assert tree.simulations == pytest.approx(1500, rel=0.05)
    assert (flat.rollouts, flat.particles) == (500, 64)
    for at in (0, 2):
        assert search_strength.in_time(agents[at], measured) == agents[at]
    assert len(asked) == 1 + 2 * 3
    for few in (agents[:1], agents[2:]):
        with pytest.raises(ValueError, match="needs a search as the first agent, and another"):
            search_strength.equal_time(few, seed=0, repeats=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["strength", "--games", "3"],
        ["strength", "--repeats", "0"],
        ["strength", "--agents", "nobody"],
        ["strength", "--equal-time", "--agents", "mc"],
        ["speed", "--rollouts", "6"],
        ["speed", "--single", "0"],
        ["speed", "--batch-sizes", "x"],
        [],
    ],
)
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        search.main(arguments)


@pytest.mark.slow  # compiles a dozen programs to run for a second
def test_speed(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    sizes = ["--batch-sizes", "3", "--single", "2", "--numpy-decisions", "3", "--numpy-batch", "2"]
    results = search.main(["speed", "--rollouts", "40", "--particles", "32", "--repeats", "2", *sizes, "--json", str(path)])
    assert json.loads(path.read_text()) == json.loads(json.dumps(results))
    assert results["ratios"]["batch"] > 0 and results["ratios"]["single"] > 0
    flat, whole, tree = results["agents"].values()
    assert [batch["decisions"] for batch in flat["batches"]] == [3]
    for row in (flat, whole):
        # Every play of every decision gets its 40 rollouts.
        assert row["batches"][0]["rollouts_per_decision"] == pytest.approx(results["numpy"]["rollouts_per_decision"])
    assert tree["batches"][0]["rollouts_per_decision"] <= whole["batches"][0]["rollouts_per_decision"]
    # A step is one node or more.
    steps = results["numpy"]["steps_per_second"]["median"] / results["numpy"]["rollouts_per_second"]["median"]
    assert steps < flat["nodes_per_rollout"] < 4 * steps
    # 5.3 standard errors: 1e-7 for a play.
    assert results["agreement_in_standard_errors"]["largest"] < 5.3
