"""A training run of any kind (`training.config.RunConfig`), from the first iteration to the last.

The run's folder holds checkpoints, metrics, and two networks: best.safetensors by the evaluations during the run, and
last.safetensors. A killed and resumed run ends with the same parameters as an uninterrupted one.
"""

from __future__ import annotations

import gc
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from training.checkpoints import Checkpoints, Resumed
from training.config import Launch, RunConfig, parse, to_dict, with_key, with_plain_key
from training.evaluation import Standing, mean_score, prepare_evaluation, table_of
from training.metrics import MetricsLog
from training.updates import make_mesh
from unojax.device.compilation_cache import keep_compiled_programs
from unojax.device.process import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, leave_at_once, noted_interrupts
from unojax.files import write_whole
from unojax.value.network import Network
from unojax.value.pretrained import load_network, save_network

_to_json = partial(json.dumps, allow_nan=False)


def train(config: RunConfig, launch: Launch, console: Console) -> int:
    """Train to the end, or to a Ctrl-C; return the exit status.

    Raises:
        ValueError: If the options conflict with each other, the devices or the run in the folder, or the folder can't hold a run.
        FloatingPointError: If training diverges.
    """
    config.check()
    mesh = make_mesh()
    iterate = config.make_iteration(mesh)
    is_first = jax.process_index() == 0
    checkpoints = Checkpoints(config.run, config.digest_networks())
    state, best, num_devices, damaged = _begin(config, launch, checkpoints)
    _write_options(config, is_first)
    done = int(state.iteration)
    state = on_mesh(state, mesh)
    network = _on_host(config.network_of(state))
    evaluate = prepare_evaluation(network, config) if is_first else None
    if evaluate is not None:
        kept = config.run / "best.safetensors"
        if best < 0 and kept.exists():
            # The evaluation has changed, or no checkpoint contains it yet.
            best = mean_score(evaluate(load_network(kept), config.evaluation.games))
        console.print(
            f"{mesh.size} device{'s' * (mesh.size > 1)} ({jax.devices()[0].device_kind}), {network.num_params:,} parameters, "
            f"iteration {done} of {config.iterations}, run in {config.run}. The first iteration compiles."
        )
        if jax.process_count() > 1:
            console.print("If one of the processes ends too early, JAX ends the others too: start all of them with --resume.")
        for what in damaged:
            console.print(f"Set aside a checkpoint that can't be read, in {config.run / 'damaged'}: {what}", soft_wrap=True)
        if num_devices not in (None, mesh.size):
            told = f"Its newest checkpoint is from {num_devices} device{'s' * (num_devices > 1)}"
            console.print(f"{told}: sums are taken in another order now, which changes their last digits.")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rates]}"))
    progress = Progress(*columns, TimeRemainingColumn(), console=console, disable=launch.quiet or not is_first)
    with (
        noted_interrupts() as stop,
        closing(checkpoints),
        MetricsLog(config.run, done) if is_first else nullcontext() as log,
        progress,
    ):
        bar = progress.add_task("training", total=config.iterations, completed=done, rates="")
        is_last = done == config.iterations
        while not is_last:
            began = time.perf_counter()
            state, metrics = iterate(state)
            metrics = jax.device_get(jax.block_until_ready(metrics))
            values = config.summarize(metrics, time.perf_counter() - began)
            done += 1
            is_done = done == config.iterations
            network = _on_host(config.network_of(state))
            _check_finite(values, network, done)
            if evaluate is not None and not is_done and done % config.evaluation.every == 0:
                scores = evaluate(network, config.evaluation.games)
                values |= {f"win rate/{standing.opponent}": standing.score.value for standing in scores}
                best = _keep_best(config, network, scores, best, done)
            if log is not None:
                log.write(done - 1, values)
            is_last = is_done or _agreed(stop.is_set())
            if is_first and (done % config.checkpoint_every == 0 or is_last):
                checkpoints.save(with_key(_on_host(with_plain_key(state))), config, best)
            rates = f"loss {values['loss/win']:.4f}  {values['games per second']:,.0f} games/s"
            rates += f"  {values['states per second']:,.0f} states/s"
            progress.update(bar, completed=done, rates=rates)
    if done < config.iterations:
        console.print(f"Stopped after iteration {done}; everything is saved. Go on with --resume.")
        return EXIT_INTERRUPTED
    if evaluate is not None:
        _finish(config, network, evaluate, best, console)
    return 0


def _agreed(asked: bool) -> bool:
    """Share among all processes whether any received a stop, so that they leave after the same iteration."""
    if jax.process_count() == 1:
        return asked
    return bool(multihost_utils.process_allgather(np.array(asked)).any())


def _begin(config: RunConfig, launch: Launch, checkpoints: Checkpoints) -> Resumed:
    """Start a run, or load the state of the one in the folder."""
    if launch.resume:
        return checkpoints.load(config)
    if checkpoints.newest() is not None:
        raise ValueError(
            f"there is a run in {config.run} already; go on with it with --resume, or name another folder with --run"
        )
    return Resumed(config.start(), -1.0)


def _write_options(config: RunConfig, is_first: bool) -> None:
    """Create the run's folder and write its initial options."""
    try:
        # Every process runs this, so that all of them stop if the folder can't be created.
        (config.run / "checkpoints").mkdir(parents=True, exist_ok=True)
        if is_first:
            write_whole(config.run / "config.json", _to_json(to_dict(config), indent=2) + "\n")
    except OSError as error:
        raise ValueError(f"can't write the run's folder {config.run}: {error.strerror}; name another with --run") from None


def _check_finite(values: dict[str, float], network: Network, iteration: int) -> None:
    """Check that metrics and parameters are finite. They are equal in all processes, which therefore stop together.

    Raises:
        FloatingPointError: If a metric or a parameter is not finite.
    """
    wrong = [f"{name} is {value}" for name, value in values.items() if not math.isfinite(value)]
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(network.params)):
        wrong.append("parameters are not finite")
    if wrong:
        raise FloatingPointError(
            f"training has diverged in iteration {iteration}: {', '.join(wrong)}. Nothing of it is kept, earlier checkpoints and "
            "networks are; begin another run, with a lower --optimizer.learning-rate for example"
        )


def _keep_best(config: RunConfig, network: Network, scores: list[Standing], best: float, iteration: int) -> float:
    """Write the network if it is the best so far; return the best score."""
    score = mean_score(scores)
    if score <= best:
        return best
    save_network(config.run / "best.safetensors", network, **_about(config, scores, iteration))
    return score


def _finish(
    config: RunConfig, network: Network, evaluate: Callable[[Network, int], list[Standing]], best: float, console: Console
) -> None:
    # Saved at once, because the evaluation takes a while.
    save_network(config.run / "last.safetensors", network, **_about(config, [], config.iterations))
    scores = evaluate(network, config.evaluation.final_games)
    save_network(config.run / "last.safetensors", network, **_about(config, scores, config.iterations))
    _keep_best(config, network, scores, best, config.iterations)
    result = {"scores": [standing.to_dict() for standing in scores], "config": to_dict(config)}
    write_whole(config.run / "result.json", _to_json(result, indent=2) + "\n")
    console.print(table_of(scores, f"{config.run / 'last.safetensors'} after {config.iterations} iterations", config.judged_by))


def _about(config: RunConfig, scores: list[Standing], iteration: int) -> dict[str, str]:
    return {
        "training": _to_json(to_dict(config)),
        "iteration": str(iteration),
        "scores": _to_json([standing.to_dict() for standing in scores]),
    }


def on_mesh(state: Any, mesh: Mesh) -> Any:
    """Put the state on every device of every process, as iterations return it; otherwise the next iteration recompiles."""
    return with_key(jax.device_put(with_plain_key(state), NamedSharding(mesh, P())))


def _on_host(tree: Any) -> Any:
    """Copy arrays that every device has to the host."""
    return jax.tree.map(lambda x: np.asarray(x.addressable_data(0)), tree)


def run_command(args: Sequence[str] | None, default: RunConfig) -> int:
    """Run a training command and return its exit status. Arguments as in `training.config.parse`."""
    console = Console(stderr=True)
    # Tracing makes many objects that live on: collections during it take a tenth of its time.
    gc.set_threshold(100_000)
    try:
        config, launch = parse(args, default)
        keep_compiled_programs()
        jax.config.update("jax_num_cpu_devices", launch.num_cpu_devices(config.share))
        if launch.distributed is not None:
            jax.distributed.initialize(**launch.process())
        return train(config, launch, console)
    except KeyboardInterrupt:
        console.print("Stopped at once. If there is a checkpoint, --resume goes on from the newest one.")
        return EXIT_INTERRUPTED
    except (ValueError, FloatingPointError, OSError) as error:
        told = f"{default.command.rpartition('.')[2]}: {error}"
        if isinstance(error, OSError):
            told += ". What is in the run's folder is whole: once the cause is gone, go on with --resume"
        console.print(told, style="bold red", highlight=False, markup=False, soft_wrap=True)
        return EXIT_USAGE if isinstance(error, ValueError) else EXIT_ERROR


def leave(status: int) -> NoReturn:
    """Exit a training command, at once if it was stopped and no other process waits for this one."""
    if status == EXIT_INTERRUPTED and not jax.distributed.is_initialized():
        leave_at_once(status)
    sys.exit(status)
