"""Quality of the value network's win probabilities, on games outside its training data.

The network plays against itself, greedily and with its belief. At its decisions, before the play, four predictions of a win of
the player to move are compared. They are the network's; the network's with a belief uniform over unseen cards; a logistic
regression on the two hand sizes, fitted on other games; and flat Monte Carlo over the same belief, the mean result of rollouts of
the chosen play. A drawn game is half a win.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks import harness
from benchmarks.harness import Config, Task
from training.value.learning import states_of
from training.value.selfplay import SELF, Episodes, SelfPlay, play_episodes
from unojax import bits, cards
from unojax.analysis.estimates import Measure, estimate_ratio
from unojax.analysis.forecasts import fit_logistic, log_loss, sigmoid
from unojax.value.features import features, outlook_of_unseen
from unojax.value.network import Network
from unojax.value.pretrained import PRETRAINED, load_network

_BATCH: Final = 512


@harness.benchmark("value_quality", network=PRETRAINED, games=1024, rollouts=200, particles=(256,), seed=1)
def value_quality(config: Config) -> Iterator[Task]:
    """Log loss and calibration of the value network's win probabilities, on games that it was not trained on."""
    if config.games < 2:
        raise ValueError("--games must be at least 2, from which standard errors come")
    yield Task(config.settings("network", "games", "rollouts", "particles", "seed"), partial(compare_forecasts, config))


def compare_forecasts(config: Config) -> dict[str, Any]:
    """Compare the four predictions."""
    network = load_network(config.network)
    fitted = fit_sizes(play(config, network, network, 2 * config.seed, 0))
    test = play(config, network, network, 2 * config.seed + 1, config.rollouts)
    smoothed = (test.rollouts * config.rollouts + 1) / (config.rollouts + 2)
    predictions = {
        "network": np.clip(test.network.astype(np.float64), 1e-6, 1 - 1e-6),
        "network without a belief": np.clip(test.unaware.astype(np.float64), 1e-6, 1 - 1e-6),
        "hand sizes, logistic regression": sigmoid(_size_terms(test.sizes) @ fitted),
        f"flat Monte Carlo, {config.rollouts} rollouts": np.where(test.counted, smoothed, 0.5),
    }
    losses = {name: log_loss(predicted, test.result) for name, predicted in predictions.items()}
    found: dict[str, Any] = {"decisions": int(test.counted.sum())}
    for name, predicted in predictions.items():
        found[name] = {
            "log_loss": harness.estimate(mean_loss(losses[name], test)),
            "more_than_network": harness.estimate(mean_loss(losses[name] - losses["network"], test)),
            **harness.calibration(predicted, test.result, test.counted),
        }
    return found


class Forecasts(NamedTuple):
    """Forecasts at the decisions of G games: float[G, S] each.

    Attributes:
        counted: bool, True for decisions.
        sizes: [G, S, 2] cards of the player to move and of the other player.
        result: 1 for a win of the player to move, 0 for a loss.
        network, unaware, rollouts: Predictions of the result.
    """

    counted: np.ndarray
    sizes: np.ndarray
    result: np.ndarray
    network: np.ndarray
    unaware: np.ndarray
    rollouts: np.ndarray


def play(config: Config, network: Network, unaware: Network, seed: int, rollouts: int) -> Forecasts:
    """Play games, and predict their results at each decision."""
    how = SelfPlay(opponents=(SELF,), particles=config.particles[0], explore=0.0, search=rollouts)
    program = jax.jit(lambda keys, number, network: _look(play_episodes(keys, number, network, how), network, unaware))
    parts = []
    for first in range(0, config.games, _BATCH):
        number = np.arange(first, first + _BATCH, dtype=np.int32)
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.key(seed), i))(jnp.asarray(number))
        parts.append(jax.device_get(program(keys, number, network)))
    return Forecasts(*(np.concatenate(field)[: config.games] for field in zip(*parts, strict=True)))


def _look(games: Episodes, network: Network, unaware: Network) -> tuple[Array, ...]:
    """Return the fields of `Forecasts`."""
    num_steps, num_games = games.action.shape
    meta = games.table.unpack_meta()
    mover = meta.player.astype(jnp.int32)
    number = (jnp.arange(num_steps)[:, None] * num_games + jnp.arange(num_games)) * 2 + mover
    hidden = jnp.zeros((num_games, 2), bool)

    def one_step(index: Array) -> tuple[Array, Array, Array]:
        states = states_of(games, index, hidden)
        without = unaware(features(states.view, outlook_of_unseen(states.view)))
        sizes = jnp.stack([bits.count(states.view.hand), states.view.opponent_count], -1)
        return network(states.features).win_prob, without.win_prob, sizes

    with_belief, without, sizes = jax.lax.map(one_step, number)
    rollouts = jnp.zeros_like(with_belief)
    if games.search is not None:
        taken = jnp.maximum(games.action.astype(jnp.int32), 0)[..., None]
        rollouts = (1 + jnp.take_along_axis(games.search, jnp.minimum(taken, cards.DRAW - 1), -1)[..., 0].astype(jnp.float32)) / 2
    outcome = jnp.where(mover == 0, games.outcome, -games.outcome)
    of_games = (games.is_choice & games.is_row() & games.is_over, sizes, (1 + outcome) / 2, with_belief, without, rollouts)
    return tuple(jnp.swapaxes(x, 0, 1) for x in of_games)


def fit_sizes(decisions: Forecasts) -> np.ndarray:
    """Return the weights of the logistic regression on the hand sizes."""
    return fit_logistic(_size_terms(decisions.sizes)[decisions.counted], decisions.result[decisions.counted])


def _size_terms(sizes: np.ndarray) -> np.ndarray:
    own, other = sizes[..., 0].astype(np.float64), sizes[..., 1].astype(np.float64)
    return np.stack([np.ones_like(own), own, other, 1 / np.maximum(own, 1), 1 / np.maximum(other, 1)], -1)


def mean_loss(losses: np.ndarray, decisions: Forecasts) -> Measure:
    """Average over decisions, with games as independent units."""
    return estimate_ratio(np.where(decisions.counted, losses, 0.0).sum(-1), decisions.counted.sum(-1))
