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
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.value.network import Network

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")
_R = TypeVar("_R", bound="RunConfig")


@dataclass(frozen=True)
class Evaluation:
    """Matches in the arena that judge the network, without search.

    Attributes:
        every: iterations between two evaluations.
        games: against each opponent, on the same deals every time.
        final_games: after the last iteration.
        opponents: specs of agents. The best network is the one with the highest mean win rate.
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
    """State of a run between iterations, a named tuple; all that a checkpoint holds."""

    @property
    def key(self) -> Array:
        """Of everything random."""
        ...

    @property
    def iteration(self) -> Array:
        """int32[] iterations done."""
        ...

    def _replace(self, *, key: Array) -> Self:
        """Change a field, as every named tuple can."""
        ...


_S = TypeVar("_S", bound=RunState)


def with_plain_key(state: _S) -> _S:
    """Replace a state's key by the numbers in it, which can be saved, and put on the devices of other processes."""
    return state._replace(key=jax.random.key_data(state.key))


def with_key(state: _S) -> _S:
    """Undo `with_plain_key`."""
    return state._replace(key=jax.random.wrap_key_data(state.key))


@dataclass(frozen=True)
class RunConfig(ABC):
    """Options of a run of any kind, and what `training.loop` needs of it.

    Attributes:
        run: folder of the run: checkpoints, metrics.jsonl, TensorBoard's files, the networks.
        seed: of everything random.
        iterations: each plays games and learns from them.
        checkpoint_every: iterations between two checkpoints.
        evaluation: see there.
    """

    command: ClassVar[str]
    """The module that is run."""
    about: ClassVar[str]
    """What it does, for its help."""

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
        """Games of one update, or groups of them that stay together, which the devices divide among them."""

    @property
    @abstractmethod
    def game_rules(self) -> Rules:
        """Rules of the games that are learned from."""

    def check(self) -> None:
        """Check what a run must not find out hours later: that all options make sense, and that opponents know the rules.

        Opponents may load networks, so the devices must have been chosen.

        Raises:
            ValueError: an option is for nothing, a spec makes no agent, or a network can't play these rules.
        """
        for spec in self.evaluation.opponents:
            parse_agent(spec, rules=self.game_rules)

    @property
    @abstractmethod
    def judged_by(self) -> str:
        """What the network plays in evaluations, in a few words."""

    @abstractmethod
    def fresh(self) -> Any:
        """Make a state of random parameters, a `RunState`."""

    def start(self) -> Any:
        """Make the state before training, of the shape of `fresh`.

        Raises:
            ValueError: it is to begin from a file that it can't begin from.
        """
        return self.fresh()

    def digest_networks(self) -> dict[str, str]:
        """Digest the networks that are played against, by their files: they stay as they are, in a run that is resumed too."""
        return {}

    @abstractmethod
    def make_iteration(self, mesh: Mesh) -> Callable[[Any], tuple[Any, Any]]:
        """Build the device program of one iteration: state and metrics after a state.

        Raises:
            ValueError: the devices can't share the games equally.
        """

    @abstractmethod
    def network_of(self, state: Any) -> Network:
        """Take the network that is judged and kept."""

    @abstractmethod
    def agent_of(self, network: Network) -> Agent:
        """Make the player that the network is judged by."""

    @abstractmethod
    def summarize(self, metrics: Any, seconds: float) -> dict[str, float]:
        """Sum up an iteration's metrics, by name, "loss/win", "states per second" and "games per second" among them."""


@dataclass(frozen=True)
class Launch:
    """Options of this process. The result is the same but for the order of sums, which differs with the number of devices.

    Attributes:
        resume: go on with the run in the folder, from its newest checkpoint, as if it had never stopped.
        devices: CPU devices to divide the games among; 0: as many as there are cores for and as can share the games of an
            update equally. Ignored where there is a GPU.
        distributed: this is one of several processes: HOST:PORT of the first one, how many there are, and the number of this one
            from 0, for example "node1:4321,2,0"; or "auto" where JAX finds out by itself (Slurm, Kubernetes, TPU pods).
        quiet: no progress bar.
    """

    resume: bool = False
    devices: int = 0
    distributed: str | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.devices < 0:
            raise ValueError(f"devices must be 0 or a number of devices, got {self.devices}")

    def num_cpu_devices(self, share: int) -> int:
        """Choose as told, or the largest number for which there are cores and with which all processes divide `share` equally."""
        processes = self.process().get("num_processes", 1)
        return self.devices or next((n for n in range(available_cores(), 1, -1) if share % (n * processes) == 0), 1)

    def process(self) -> dict[str, Any]:
        """Make the arguments of `jax.distributed.initialize`.

        Raises:
            ValueError: the text is not of the form that is asked for.
        """
        return {} if self.distributed is None else read_distributed(self.distributed)


def parse(args: Sequence[str] | None, default: _R) -> tuple[_R, Launch]:
    """Read the options of a command line; of `sys.argv` if `args` is None. A run that is resumed has those it began with.

    Args:
        args: the command line.
        default: the options where nothing is said, and their kind.

    Raises:
        ValueError: a value is out of range, or the file has unknown keys.
    """
    kind = type(default)
    settings = default
    # The file is read first of all: an option may make sense only together with what it says.
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config", type=Path)
    finder.add_argument("--run", type=Path, default=settings.run)
    finder.add_argument("--resume", action="store_true")
    found = finder.parse_known_args(args)[0]
    began_with = found.run / "config.json"
    if found.config is not None:
        settings = from_dict(kind, read_file(found.config), found.config.name, settings)
    elif found.resume and began_with.exists():
        settings = dataclasses.replace(from_dict(kind, json.loads(began_with.read_text()), str(began_with)), run=found.run)
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
    """Read a TOML file as nested dicts.

    Raises:
        ValueError: it can't be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"can't read the configuration {path}: {error}") from None


def to_dict(config: Any) -> dict[str, Any]:
    """Turn a configuration into nested dicts of what JSON can hold; None is left out."""
    plain = {}
    for name, value in ((f.name, getattr(config, f.name)) for f in dataclasses.fields(config)):
        if dataclasses.is_dataclass(value):
            plain[name] = to_dict(value)
        elif value is not None:
            plain[name] = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    return plain


def from_dict(cls: type[_T], values: dict[str, Any], where: str, base: _T | None = None) -> _T:
    """Make the configuration that nested dicts describe; what is left out is as in `base`, or has its default.

    Raises:
        ValueError: there is an unknown key, or a value of the wrong type.
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
        # A file has no word for None: what is left out is None.
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
