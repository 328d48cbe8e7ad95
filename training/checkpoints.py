"""Checkpoints of a run, written atomically by Orbax."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from training.config import RunConfig, RunState, from_dict, to_dict, with_key, with_plain_key
from unojax import __version__
from unojax.rules import RULES_VERSION

_KEPT: Final = 2


class Resumed(NamedTuple):
    """Contents of a checkpoint.

    Attributes:
        state: State on the host.
        best: Best score so far under the current evaluation; -1 if there is none.
        num_devices: Number of devices of the run that wrote it; None: unknown.
        damaged: Later checkpoints that could not be read, with reasons.
    """

    state: Any
    best: float
    num_devices: int | None = None
    damaged: tuple[str, ...] = ()


class _DamagedError(Exception):
    """A checkpoint can't be read."""


class Checkpoints:
    """Checkpoints in a run's folder. In a run of several processes the first one writes, and all read.

    Args:
        run: Folder of the run.
        networks: Digests of the run's opponent networks.
    """

    def __init__(self, run: Path, networks: Mapping[str, str] = MappingProxyType({})):
        self._networks = dict(networks)
        me = jax.process_index()
        alone = ocp.options.MultiprocessingOptions(primary_host=me, active_processes={me}, barrier_sync_key_prefix=f"process{me}")
        options = ocp.CheckpointManagerOptions(
            max_to_keep=_KEPT,
            # Each process creates the folder only after `training.loop` has confirmed that a run begins there.
            create=False,
            multiprocessing_options=alone,
            enable_async_checkpointing=False,
        )
        self._manager = ocp.CheckpointManager((run / "checkpoints").resolve(), options=options)

    def save(self, state: RunState, config: RunConfig, best: float) -> None:
        """Write the state (on the host) under its iteration."""
        about = {
            "config": to_dict(config),
            "networks": self._networks,
            "best": best,
            "rules_version": RULES_VERSION,
            "unojax": __version__,
            "jax": jax.__version__,
            "devices": jax.device_count(),
        }
        # NumPy arrays, because with several processes Orbax treats an array on one device as a part of a larger one.
        plain = jax.tree.map(np.asarray, with_plain_key(state))
        items = ocp.args.Composite(state=ocp.args.StandardSave(plain), about=ocp.args.JsonSave(about))
        self._manager.save(int(state.iteration), args=items)

    def newest(self) -> int | None:
        """Return the iteration of the newest checkpoint."""
        return self._manager.latest_step()

    def load(self, config: RunConfig) -> Resumed:
        """Read the newest checkpoint, or if it is damaged the one before.

        A damaged one is moved to the run's folder "damaged", because its iteration will be written again.

        Raises:
            ValueError: If there is none, or its configuration, opponent networks or rules version differ.
        """
        damaged = []
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                resumed = self._load(step, config)
            except _DamagedError as error:
                damaged.append((step, error))
                continue
            # Of several processes the first one writes.
            if jax.process_index() == 0:
                for number, _ in damaged:
                    self._set_aside(number)
            return resumed._replace(damaged=tuple(f"iteration {number}: {error}" for number, error in damaged))
        if damaged:
            step, error = damaged[0]
            raise ValueError(f"no checkpoint in {self._manager.directory} can be read; that of iteration {step}: {error}")
        raise ValueError(f"there is no checkpoint to resume from in {self._manager.directory}; start without --resume")

    def _load(self, step: int, config: RunConfig) -> Resumed:
        """Read the checkpoint of an iteration. Raises ValueError as `load` does, and _DamagedError if it can't be read."""
        about = self._read(step, about=ocp.args.JsonRestore())
        if about["rules_version"] != RULES_VERSION:
            raise ValueError(
                f"the run was made under version {about['rules_version']} of the rules, this is version {RULES_VERSION}: "
                "it can't be continued exactly. Begin a new one, with --init and its network if you like"
            )
        saved = from_dict(type(config), about["config"], "checkpoint")
        _check_same(config, saved)
        changed = sorted(name for name, digest in about.get("networks", {}).items() if self._networks.get(name) != digest)
        if changed:
            raise ValueError(
                f"a resumed run must have the opponents that it began with, but the network in {', '.join(changed)} is another: "
                "put the first one back, or begin a new run, with --init and its network if you like"
            )
        target = jax.eval_shape(lambda: with_plain_key(config.fresh()))
        target = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), target)
        restored = self._read(step, state=ocp.args.StandardRestore(target))
        # A score against other opponents, or in fewer games, is not comparable with later scores.
        best = about["best"] if _judged(config) == _judged(saved) else -1.0
        return Resumed(with_key(jax.tree.map(jnp.asarray, restored)), best, about.get("devices"))

    def _read(self, step: int, **item: Any) -> Any:
        (name,) = item
        try:
            return self._manager.restore(step, args=ocp.args.Composite(**item))[name]
        # The exception of Orbax depends on which of its files is damaged, and how.
        except Exception as error:
            raise _DamagedError(f"{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error

    def _set_aside(self, step: int) -> None:
        folder = Path(self._manager.directory)
        aside = folder.parent / "damaged" / f"{step}-{time.time_ns()}"
        aside.parent.mkdir(exist_ok=True)
        (folder / str(step)).rename(aside)
        self._manager.reload()

    def close(self) -> None:
        """Wait for pending writes."""
        self._manager.close()


def _judged(config: RunConfig) -> dict[str, Any]:
    """Return the settings of evaluations during a run."""
    return to_dict(config.evaluation) | {"every": 0, "final_games": 0}


def _check_same(config: RunConfig, saved: RunConfig) -> None:
    # The run's location and the frequency of evaluations do not matter.
    free = {"run": "", "evaluation": {}, "checkpoint_every": 0}
    new, old = (to_dict(c) | free for c in (config, saved))
    if new != old:
        names = sorted(name for name in new.keys() | old.keys() if new.get(name) != old.get(name))
        changes = "; ".join(f"{name} was {old.get(name)}, now {new.get(name)}" for name in names)
        raise ValueError(f"a resumed run must have the options that it began with, but {changes}")
