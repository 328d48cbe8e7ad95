"""The belief benchmarks: their statistics on made-up data, the NumPy port against the filter it is a port of, and short runs."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import belief, belief_methods, belief_speed, timing
from benchmarks.belief_methods import NUM_BINS, Followed, Games, Health
from benchmarks.numpy_filter import from_belief, numpy_update
from unojax import cards
from unojax.belief import belief_init, belief_update, infer_action
from unojax.observation import Observation, observe
from unojax.policies import uniform
from unojax.games.record import play_game
from unojax.rules import Rules, small_deck

pytestmark = pytest.mark.slow  # compiles a dozen programs to run for a second

RULES = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12), wilds=1), hand_size=4)
NUM_PARTICLES = 256


def followed(scores: list[list[float]]) -> Followed:
    log_score = np.array(scores)
    zeros = np.zeros_like(log_score)
    return Followed(log_score, Health(zeros, zeros, zeros > 0, zeros > 0), np.zeros((len(scores), NUM_BINS, 3)))


def test_clustered_mean() -> None:
    # Clusters of one member each: the mean and its usual standard error.
    values = np.array([1.0, 4.0, 2.0, 7.0])
    got = belief.clustered_mean(values, np.ones(4))
    assert got["mean"] == pytest.approx(3.5)
    assert got["standard_error"] == pytest.approx(values.std(ddof=1) / 2)
    # Members of a cluster that are all alike count once: four copies of each leave the error as it was.
    assert belief.clustered_mean(4 * values, np.full(4, 4)) == pytest.approx(got)
    # A cluster of another size counts by its size.
    assert belief.clustered_mean(np.array([3.0, 10.0]), np.array([3, 1]))["mean"] == pytest.approx(13 / 4)
    with pytest.raises(ValueError, match="nothing to average"):
        belief.clustered_mean(np.zeros(2), np.zeros(2))


def test_margin_is_paired_by_game() -> None:
    """Games differ widely, the beliefs by exactly one nat per update: the error of the margin is zero."""
    games = Games(None, np.array([2, 1, 2]))  # type: ignore[arg-type] states are not looked at
    ours, other = followed([[-1.0, -1.0], [-50.0, 0.0], [-7.0, -9.0]]), followed([[-2.0, -2.0], [-51.0, 0.0]])
    assert belief.margin(ours, other, games) == pytest.approx({"mean": 1.0, "standard_error": 0.0})


def test_calibration() -> None:
    """Bin 3 of two games: predictions 0.35 for 8 cards of which 2 were held; bin 9: all held as predicted."""
    bins = np.zeros((2, NUM_BINS, 3))
    bins[0, 3], bins[1, 3] = (4, 1.4, 1), (4, 1.4, 1)
    bins[0, 9] = 2, 2.0, 2
    got = belief.calibration(bins)
    third, ninth = got["bins"]
    assert (third["bin"], third["n"], ninth["bin"], ninth["n"]) == (3, 8, 9, 2)
    assert third["predicted"] == pytest.approx(0.35)
    assert third["observed"] == pytest.approx(0.25)
    assert third["error"] == pytest.approx(0.1)
    assert ninth["error"] == 0
    assert got["mean_absolute_error"] == pytest.approx(0.8 * 0.1)


def test_bins_count_what_they_should() -> None:
    predicted = jnp.array([0.0, 0.05, 0.1, 0.95, 1.0, 0.5])
    happened = jnp.array([False, True, True, True, True, True])
    counted = jnp.array([True, True, True, True, True, False])
    bins = np.asarray(belief_methods._bin(predicted, happened, counted))
    np.testing.assert_allclose(bins[0], [2, 0.05, 1], atol=1e-6)
    np.testing.assert_allclose(bins[1], [1, 0.1, 1], atol=1e-6)
    np.testing.assert_allclose(bins[9], [2, 1.95, 2], atol=1e-6)
    assert bins.sum(0)[0] == 5


def test_log_score() -> None:
    probs = np.full((54, 5), 0.2)
    probs[3] = [0.0, 0.5, 0.5, 0.0, 0.0]
    truth = np.zeros(54, np.int8)
    truth[3] = 1
    assert belief_methods._log_score(jnp.asarray(probs), jnp.asarray(truth)) == pytest.approx(
        53 * np.log(0.2) + np.log(0.5), rel=1e-5
    )


@pytest.fixture(autouse=True)
def compilation_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmarks turn the cache off to time compiling; here it may stay."""
    monkeypatch.setattr(timing, "without_compilation_cache", lambda: None)


@pytest.fixture(scope="module")
def step():
    """For a batch of games of a small deck: the views of player 0, and the beliefs after each of the first steps."""
    num_games, num_steps = 60, 24
    states = jax.jit(jax.vmap(lambda key: play_game(key, num_steps=num_steps, rules=RULES).states))(
        jax.random.split(jax.random.key(1), num_games)
    )
    views = jax.jit(jax.vmap(jax.vmap(lambda state: observe(state, 0, rules=RULES))))(states)

    def follow(game):
        views, key = game

        def one(belief, step):
            before, after, key = step
            after_belief, _ = belief_update(belief, before, infer_action(before, after), after, key, rules=RULES)
            return after_belief, belief

        befores, afters = jax.tree.map(lambda x: x[:-1], views), jax.tree.map(lambda x: x[1:], views)
        start = belief_init(jax.tree.map(lambda x: x[0], views), key, num_particles=NUM_PARTICLES, rules=RULES, prior="deal")
        return jax.lax.scan(one, start, (befores, afters, jax.random.split(key, num_steps)))[1]

    beliefs = jax.jit(lambda games: jax.lax.map(follow, games))((views, jax.random.split(jax.random.key(2), num_games)))
    return jax.device_get(views), beliefs


def test_numpy_port_agrees(step) -> None:
    """From the same belief both filters take many independent steps: same mean evidence, hands and ESS.

    For each kind of micro-step two positions late in a game, 200 repetitions each; means differ by less than 6 standard errors of
    the difference (error probability below 1e-5 over all comparisons), or by rounding.
    """
    views, beliefs = step
    befores = jax.tree.map(lambda x: x[:, :-1], views)
    actions = np.asarray(jax.jit(jax.vmap(jax.vmap(infer_action)))(befores, jax.tree.map(lambda x: x[:, 1:], views)))
    mine = befores.current_player == 0
    draws, plays = actions == cards.DRAW, (actions >= 0) & (actions < cards.DRAW)
    shuffled = views.pile[:, 1:].sum(-1) < views.pile[:, :-1].sum(-1)
    has_past = np.arange(actions.shape[1]) >= 5
    kinds = {
        "opponent plays": plays & ~mine,
        "could not play": draws & ~mine & (befores.penalty == 0) & ~shuffled,
        "penalty": draws & ~mine & (befores.penalty > 0) & ~shuffled,
        "opponent draws after a reshuffle": draws & ~mine & shuffled,
        "own draw": draws & mine & ~shuffled,
        "own draw after a reshuffle": draws & mine & shuffled,
        "own play": plays & mine,
        "opponent plays after a reshuffle": plays & ~mine & (np.cumsum(shuffled, 1) > 0),
    }
    repetitions = 200
    update = jax.jit(
        jax.vmap(lambda b, before, a, after, key: belief_update(b, before, a, after, key, rules=RULES), (None,) * 4 + (0,))
    )
    mean_hand = jax.jit(jax.vmap(lambda belief: (jnp.exp(belief.log_weights)[:, None] * cards.counts(belief.particles)).sum(0)))
    rng = np.random.default_rng(0)
    for name, occurs in kinds.items():
        found = np.argwhere(occurs & has_past)
        assert len(found), f"no {name} in the games"
        for game, t in found[[0, -1]]:
            before, after = (jax.tree.map(lambda x, s=s, g=game: x[g, s], views) for s in (t, t + 1))
            belief = jax.tree.map(lambda x, g=game, t=t: x[g, t], beliefs)
            action = int(actions[game, t])
            updated, info = update(belief, before, action, after, jax.random.split(jax.random.key(3), repetitions))
            assert not np.asarray(info.depleted).any()
            ours = np.column_stack([mean_hand(updated), np.exp(info.log_evidence), info.ess / NUM_PARTICLES, info.resampled])
            theirs = []
            port = from_belief(belief)
            for _ in range(repetitions):
                copy, seen = numpy_update(port, before, action, after, rng, rules=RULES)
                hands = onehots(copy.hand)
                assert (hands.sum(-1) == after.opponent_count).all()
                weights = np.exp(copy.log_weights)
                mean = np.bincount(cards.TYPE_OF_SLOT, weights @ hands, minlength=54)
                theirs.append([*mean, np.exp(seen.log_evidence), seen.ess / NUM_PARTICLES, seen.resampled])
            theirs = np.array(theirs)
            error = np.sqrt((ours.var(0) + theirs.var(0)) / repetitions)
            assert (np.abs(ours.mean(0) - theirs.mean(0)) <= 6 * error + 2e-4).all(), (name, game, t)


def onehots(words: np.ndarray) -> np.ndarray:
    """uint32[4, N] labelled cards as bool[N, 108] slots."""
    return ((words.T[:, :, None] >> np.arange(27, dtype=np.uint32)) & 1).reshape(words.shape[1], 108).astype(bool)


def test_port_keeps_all_cards(step) -> None:
    """Over whole games the port stays among possible hands: right counts, cards of hand and deck unseen, labels in step."""
    views, beliefs = step
    rng = np.random.default_rng(1)
    follow_view = lambda g, t: jax.tree.map(lambda x: x[g, t], views)  # noqa: E731 one line, used beside its like
    infer = jax.jit(infer_action)
    updates = 0
    for game in range(4):
        port = from_belief(jax.tree.map(lambda x, g=game: x[g, 0], beliefs))
        for t in range(24):
            before, after = follow_view(game, t), follow_view(game, t + 1)
            action = int(infer(before, after))
            if action < 0:
                break
            port, info = numpy_update(port, before, action, after, rng, rules=RULES)
            assert_consistent(port, after)
            assert 0 < info.ess <= NUM_PARTICLES * 1.001
            updates += 1
    assert updates > 40


def assert_consistent(port, after: Observation) -> None:
    hands, decks = onehots(port.hand), onehots(port.deck)
    assert not (hands & decks).any()
    types = np.eye(54, dtype=int)[cards.TYPE_OF_SLOT]
    unseen = np.asarray(RULES.deck) - after.hand @ types - after.pile @ types
    assert ((hands | decks) @ types == unseen).all()
    assert (hands.sum(-1) == after.opponent_count).all()
    live = port.labels < 0x80
    assert (live.sum(0) == after.opponent_count).all()


def test_comparison_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "belief.json"
    # A program for each belief takes most of the time, so one opponent on one deck is enough.
    arguments = "--games 4 --small-games 6 --decks small --opponents uniform --particles 64 --other-sizes --max-steps 30"
    belief.main([*arguments.split(), "--json", str(path)])
    results = json.loads(path.read_text())
    (comparison,) = results["comparisons"]
    methods = comparison["methods"]
    assert set(methods) == {
        "particles 64",
        "particles 64, consistency only",
        "bootstrap 64",
        "closed form",
        "uniform",
        "exact",
    }
    assert comparison["games"] == 6
    for name, method in methods.items():
        assert method["updates"] == comparison["updates"] > 20
        assert method["log_score"]["mean"] < 0
        assert method["microseconds_per_update"] > 0
        assert sum(row["n"] for row in method["calibration"]["bins"]) > 100
        assert name.startswith("bootstrap") or method["depleted_games"]["mean"] == 0
    # Exact beliefs beat the uniform one by far, and the particle filter is close to them.
    gain = comparison["margins"]
    ours_over_uniform = gain["particles 64 over uniform"]["mean"]
    assert ours_over_uniform > 0
    assert abs(gain["particles 64 over exact"]["mean"]) < ours_over_uniform
    assert "log score" in capsys.readouterr().out


def test_speed_runs(tmp_path: Path) -> None:
    path = tmp_path / "speed.json"
    arguments = "--games 4 --particles 32 --single-games 2 --numpy-games 3 --repeats 1 --max-steps 30"
    belief_speed.main([*arguments.split(), "--json", str(path)])
    results = json.loads(path.read_text())
    batch = results["batch"]
    assert batch["particle_updates_per_second"]["median"] == pytest.approx(32 * batch["updates_per_second"]["median"])
    assert batch["depleted"] == 0
    assert batch["program_bytes"] > 0
    assert results["ratios"]["batch"]["median"] == pytest.approx(
        batch["updates_per_second"]["median"] / results["numpy"]["updates_per_second"]["median"]
    )
    shares = [value for name, value in results["positions"].items() if name.startswith("share")]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--decks", "huge"], ["--seat", "2"]])
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        belief.main(arguments)


def test_games_hold_only_updates_to_unfinished_positions() -> None:
    games = belief_methods.record_games(0, (uniform, uniform), num_games=8, max_steps=30, rules=RULES)
    for g, number in enumerate(games.num_updates):
        over = games.states.terminated[g]
        assert not over[: number + 1].any()
        assert number == 30 or number + 1 == len(over) or over[number + 1]
    assert 0 < games.num_updates.min() < games.num_updates.max()
