"""`unojax bench`: steps per second on this machine."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from unojax.cli.options import (
    Count,
    Flag,
    JsonTarget,
    RuleOptions,
    Seed,
    TwoPolicies,
    check_policy_names,
    get_policies,
    read_count,
)

if TYPE_CHECKING:
    from unojax.rules import Rules


@contextlib.contextmanager
def _nothing_kept() -> Iterator[None]:
    """Compile what was compiled in an earlier run, so that the times stated are those of compiling."""
    import jax

    config: Any = jax.config
    before = config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)


@dataclass(frozen=True)
class Bench:
    """Measure how many steps of games this machine plays per second."""

    policies: TwoPolicies = ("uniform", "uniform")
    batch_sizes: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="N ...",
            help="Games in progress at a time, each number measured apart. None given: the device's default, a quarter and four "
            "times as many.",
        ),
    ] = ()
    repeats: Annotated[Count, tyro.conf.arg(help="Measurements of each batch size.")] = 5
    seconds: Annotated[float, tyro.conf.arg(metavar="S", help="A measurement takes at least that long.")] = 0.5
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same games.")] = 0
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        check_policy_names(self.policies)
        batch_sizes = [read_count("--batch-sizes", text) for text in self.batch_sizes]
        if not 0 < self.seconds < float("inf"):
            raise ValueError(f"--seconds must be a positive number, got {self.seconds}")
        rules = self.rules.build()
        from unojax.cli import output, targets
        from unojax.device.platform import platform
        from unojax.simulation import MOST_LANES

        targets.check_json_target(self.json)
        about = output.machine()
        rows = []
        size = MOST_LANES[platform()]
        with _nothing_kept():
            for batch_size in batch_sizes or (size // 4, size, size * 4):
                with output.status(f"{batch_size:,} games at a time", quiet=self.quiet):
                    rows.append(self._measure(batch_size, rules))
        if self.json != output.STDOUT:
            self._show(rows, rules, about)
        if self.json is not None:
            request = {
                "command": "bench",
                "policies": self.policies,
                "seed": self.seed,
                "repeats": self.repeats,
                "seconds_each": self.seconds,
                "rules": asdict(rules),
            }
            output.write_json(self.json, request | {"results": rows} | about)
        return 0

    def _measure(self, batch_size: int, rules: Rules) -> dict[str, Any]:
        import jax

        from unojax.simulation import MAX_GAMES, Stream

        pair = get_policies(self.policies)
        # There are always more games than are played, so every lane is always busy. In that state as many steps are begun as
        # are handed out with finished games.
        games = Stream(jax.random.key(self.seed, impl="threefry2x32"), MAX_GAMES, pair, rules=rules, batch_size=batch_size)
        began = time.perf_counter()
        settled = len(next(games).index)
        compile_seconds = time.perf_counter() - began
        # All lanes begin at once; two games later they are well mixed.
        while settled < 2 * batch_size:
            settled += len(next(games).index)
        steps_per_second, games_per_second = [], []
        for _ in range(self.repeats):
            num_games = num_steps = 0
            began = time.perf_counter()
            while (seconds := time.perf_counter() - began) < self.seconds:
                finished = next(games)
                num_games += len(finished.index)
                num_steps += int(finished.games.num_steps.sum(dtype="int64"))
            steps_per_second.append(num_steps / seconds)
            games_per_second.append(num_games / seconds)
        return {
            "batch_size": batch_size,
            "compile_seconds": compile_seconds,
            "steps_per_second": steps_per_second,
            "median_steps_per_second": statistics.median(steps_per_second),
            "median_games_per_second": statistics.median(games_per_second),
        }

    def _show(self, rows: list[dict[str, Any]], rules: Rules, about: dict[str, Any]) -> None:
        from unojax.cli import output

        table = output.grid(title=f"Million steps per second, median of {self.repeats} (lowest-highest)")
        for heading in ("games at a time", "million steps/s", "games/s", "compiled in"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in rows:
            low, median, high = (f(row["steps_per_second"]) / 1e6 for f in (min, statistics.median, max))
            table.add_row(
                f"{row['batch_size']:,}",
                f"{median:.2f} ({low:.2f}-{high:.2f})",
                f"{row['median_games_per_second']:,.0f}",
                f"{row['compile_seconds']:.2f} s",
            )
        request = {"Policies": " against ".join(self.policies), "Rules": output.rules_text(rules)}
        output.show(table, "", output.facts(request | output.machine_facts(about)))
