"""Options of a training run, from a file and from the command line."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args, get_origin, get_type_hints

import jax
import tyro
from jax import Array
from jax.sharding import Mesh

from training.checks import check_options, is_positive
from unojax.agents import Agent
from unojax.device.platform import available_cores
from unojax.device.shares import read_distributed
from unojax.files import read_text
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.value.network import Network

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")
_R = TypeVar("_R", bound="RunConfig")


@dataclass(frozen=True)
class Evaluation:
    """Evaluations of the network in the arena, without search.

    Attributes:
        every: Iterations between two evaluations.
        games: Games against each opponent, on the same deals every time.
        final_games: Games against each opponent after the last iteration.
        opponents: Specs of agents. The best network is the one with the highest mean win rate.
    """

    every: int = 16
    games: int = 500
    final_games: int = 1000
    opponents: tuple[str, ...] = ("uniform", "scarcest-color", "linear")

    def __post_init__(self) -> None:
        check_options(self, "evaluation.", "every games final_games", is_positive, "must be at least 1")
        if not self.opponents:
            raise ValueError("evaluation.opponents must name at least one")


class RunState(Protocol):
    """State of a run between iterations, a named tuple; the whole content of a checkpoint."""

    @property
    def key(self) -> Array:
        """Source of all randomness."""
        ...

    @property
    def iteration(self) -> Array:
        """int32[]: iterations done."""
        ...

    def _replace(self, *, key: Array) -> Self:
        """Change a field, as every named tuple can."""
        ...


_S = TypeVar("_S", bound=RunState)


def with_plain_key(state: _S) -> _S:
    """Replace a state's key by its numbers, which can be saved and sent to the devices of other processes."""
    return state._replace(key=jax.random.key_data(state.key))


def with_key(state: _S) -> _S:
    """Undo `with_plain_key`."""
    return state._replace(key=jax.random.wrap_key_data(state.key))


@dataclass(frozen=True)
class RunConfig(ABC):
    """Options of a run of any kind, and its interface for `training.loop`.

    Attributes:
        run: Folder of the run: checkpoints, metrics.jsonl, TensorBoard's files, the networks.
        seed: Seed of all randomness.
        iterations: Number of iterations. Each plays games and learns from them.
        checkpoint_every: Iterations between two checkpoints.
        evaluation: See `Evaluation`.
    """

    command: ClassVar[str]
    """Module that is run."""
    about: ClassVar[str]
    """Description for its help."""

    run: Path = Path("runs/new")
    seed: int = 0
    iterations: int = 64
    checkpoint_every: int = 10
    evaluation: Evaluation = field(default_factory=Evaluation)

    def __post_init__(self) -> None:
        check_options(self, "", "seed", lambda seed: 0 <= seed < 2**32, "must be in [0, 4294967295]")
        check_options(self, "", "iterations checkpoint_every", is_positive, "must be at least 1")

    @property
    @abstractmethod
    def share(self) -> int:
        """Games of one update, or indivisible groups of them, which the devices share."""

    @property
    @abstractmethod
    def game_rules(self) -> Rules:
        """Rules of the training games."""

    def check(self) -> None:
        """Check all options at the start of a run, including that opponents support the rules.

        Opponents may load networks, so the devices must have been chosen.

        Raises:
            ValueError: If an option has no effect, a spec is invalid, or a network can't play these rules.
        """
        for spec in self.evaluation.opponents:
            parse_agent(spec, rules=self.game_rules)

    @property
    @abstractmethod
    def judged_by(self) -> str:
        """Short description of how the network plays in evaluations."""

    @abstractmethod
    def fresh(self) -> Any:
        """Return a state of random parameters, a `RunState`."""

    def start(self) -> Any:
        """Return the state before training, of the shape of `fresh`.

        Raises:
            ValueError: If it can't begin from the given file.
        """
        return self.fresh()

    def digest_networks(self) -> dict[str, str]:
        """Return digests of the opponent networks' files, which must not change, also in a resumed run."""
        return {}

    @abstractmethod
    def make_iteration(self, mesh: Mesh) -> Callable[[Any], tuple[Any, Any]]:
        """Build the device program of one iteration: the next state and metrics, given a state.

        Raises:
            ValueError: If the devices can't share the games equally.
        """

    @abstractmethod
    def network_of(self, state: Any) -> Network:
        """Return the network that is evaluated and saved."""

    @abstractmethod
    def agent_of(self, network: Network) -> Agent:
        """Return the agent that evaluations play."""

    @abstractmethod
    def summarize(self, metrics: Any, seconds: float) -> dict[str, float]:
        """Summarize an iteration's metrics by name, such as "loss/win", "states per second" and "games per second"."""


@dataclass(frozen=True)
class Launch:
    """Options of this process. Results do not depend on them, except for the order of sums, which differs with the number
    of devices.

    Attributes:
        resume: Continue the run in the folder from its newest checkpoint, as if it had never stopped.
        devices: CPU devices that share the games. 0: the largest number with a core each that can share the games of an update
            equally. Ignored with a GPU.
        distributed: Part of a run of several processes: HOST:PORT of the first one, their number, and the number of this one
            from 0, for example "node1:4321,2,0"; or "auto" if JAX detects these (Slurm, Kubernetes, TPU pods).
        quiet: No progress bar.
    """

    resume: bool = False
    devices: int = 0
    distributed: str | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.devices < 0:
            raise ValueError(f"devices must be 0 or a number of devices, got {self.devices}")

    def num_cpu_devices(self, share: int) -> int:
        """Return the given number, or the largest one with enough cores by which all processes divide `share` equally."""
        processes = self.process().get("num_processes", 1)
        return self.devices or next((n for n in range(available_cores(), 1, -1) if share % (n * processes) == 0), 1)

    def process(self) -> dict[str, Any]:
        """Return the arguments of `jax.distributed.initialize`.

        Raises:
            ValueError: If the text has another form.
        """
        return {} if self.distributed is None else read_distributed(self.distributed)


def parse(args: Sequence[str] | None, default: _R) -> tuple[_R, Launch]:
    """Read the options of a command line, or of `sys.argv` if `args` is None. A resumed run keeps its original options.

    Args:
        args: Command line.
        default: Default options, which also determine the kind of run.

    Raises:
        ValueError: If a value is out of range, or the file has unknown keys.
    """
    kind = type(default)
    settings = default
    # The file is read first, because an option may be valid only in combination with it.
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", type=Path)
    finder.add_argument("--run", type=Path, default=settings.run)
    finder.add_argument("--resume", action="store_true")
    found = finder.parse_known_args(args)[0]
    began_with = found.run / "config.json"
    if found.config is not None:
        settings = from_dict(kind, read_file(found.config), found.config.name, settings)
    elif found.resume and began_with.exists():
        settings = dataclasses.replace(from_dict(kind, read_file(began_with), str(began_with)), run=found.run)
    of_file = tyro.conf.arg(metavar="FILE", help="TOML file with any of the options below, in tables like their names.")
    fields = [
        ("settings", Annotated[kind, tyro.conf.arg(name="")]),
        ("launch", Annotated[Launch, tyro.conf.arg(name="")]),
        ("config", Annotated[Path | None, of_file]),
    ]
    options_of = dataclasses.make_dataclass("Options", fields)
    start = options_of(settings, Launch(), None)
    prog = f"python -m {default.command}"
    options = tyro.cli(options_of, args=args, default=start, prog=prog, description=default.about)
    return options.settings, options.launch


def read_file(path: Path) -> dict[str, Any]:
    """Read a TOML file, or a run's `*.json`, as nested dicts.

    Raises:
        ValueError: If it can't be read.
    """
    parse = json.loads if path.suffix == ".json" else tomllib.loads
    try:
        values = parse(read_text(path))
    except (OSError, ValueError) as error:
        raise ValueError(f"can't read the configuration {path}: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"can't read the configuration {path}: it must hold a JSON object")
    return values


def to_dict(config: Any) -> dict[str, Any]:
    """Convert a configuration to nested dicts of JSON values; None is omitted."""
    plain = {}
    for name, value in ((f.name, getattr(config, f.name)) for f in dataclasses.fields(config)):
        if dataclasses.is_dataclass(value):
            plain[name] = to_dict(value)
        elif value is not None:
            plain[name] = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    return plain


def from_dict(cls: type[_T], values: dict[str, Any], where: str, base: _T | None = None) -> _T:
    """Return the configuration in nested dicts; missing values are from `base`, or defaults.

    Raises:
        ValueError: If a key is unknown, or a value has the wrong type.
    """
    base = cls() if base is None else base
    of_class = get_type_hints(cls)
    hints = {option.name: of_class[option.name] for option in dataclasses.fields(base)}
    unknown = set(values) - set(hints)
    if unknown:
        raise ValueError(f"{where}: unknown key {', '.join(sorted(unknown))}; there are {', '.join(hints)}")
    made: dict[str, Any] = {}
    for name, value in values.items():
        kind = hints[name]
        if not dataclasses.is_dataclass(kind):
            made[name] = _read(value, kind, f"{where}: {name}")
        elif isinstance(value, dict):
            made[name] = from_dict(kind, value, f"{where}, {name}", getattr(base, name))  # type: ignore[arg-type]  # a class
        else:
            raise ValueError(f"{where}: {name} must be a table, got {value!r}")
    return dataclasses.replace(base, **made)


def _read(value: Any, kind: Any, where: str) -> Any:
    """Convert a value to the type of its field."""
    options = get_args(kind)
    if get_origin(kind) is tuple:
        if isinstance(value, list):
            return tuple(_read(element, options[0], where) for element in value)
        wanted = "a list"
    elif get_origin(kind) is Literal:
        if value in options:
            return value
        wanted = f"one of {', '.join(options)}"
    elif type(None) in options:
        # TOML has no None: a missing value is None.
        return _read(value, options[0], where)
    elif kind is Path and isinstance(value, str):
        return Path(value)
    elif kind is float and type(value) is int:
        return float(value)
    elif type(value) is kind:
        return value
    else:
        wanted = f"of type {kind.__name__}"
    raise ValueError(f"{where} must be {wanted}, got {value!r}")
