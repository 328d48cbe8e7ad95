"""What the programs of the package make a GPU do: counted without one, measured with one.

    python -m benchmarks.gpu --compile-only --json gpu_counted.json         # no GPU needed, but JAX's CUDA wheels
    python -m benchmarks.gpu --compile-only --programs belief_update --places
    python -m benchmarks.gpu --json gpu.json                                # on a machine with a GPU: everything, measured
    python -m benchmarks.gpu --parts simulate beliefs --cached              # some of it, with programs compiled before

`--compile-only` compiles every program at its GPU size for an NVIDIA H100 and counts kernels, copies, loops and bytes, and the
time that they make; `gpu_count` has the formula.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks import gpu_measure, gpu_target, timing
from benchmarks.gpu_count import LAUNCH_SECONDS, LOOK_SECONDS, Count, count
from benchmarks.gpu_programs import DeviceProgram, programs
from unojax.device.compilation_cache import keep_compiled_programs


def measure_compiled(program: DeviceProgram) -> tuple[dict[str, Any], Count]:
    """Compile a program for an H100, and count it."""
    with gpu_target.tuned_for("gpu"):
        jitted, args = program.make()
        compiled, seconds, cpu_seconds = gpu_target.compile_for(jitted, args)
    counted = count(compiled.as_text(), gpu_target.H100, program.trips())
    memory = compiled.memory_analysis()
    transfer = program.host_bytes / gpu_target.H100.link_bandwidth
    return {
        "compile_seconds": seconds,
        "compile_cpu_seconds": cpu_seconds,
        "unit": program.unit,
        "units_per_call": program.units,
        "seconds_by_count": counted.seconds,
        "seconds_to_host": transfer,
        "units_per_second_by_count": program.units / max(counted.seconds, transfer),
        "argument_bytes": memory.argument_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "result_bytes": memory.output_size_in_bytes,
        "per_unit": {name: getattr(counted, name) / program.units for name in ("launches", "looks", "num_bytes", "operations")},
        **counted.as_dict(),
    }, counted


def compile_all(names: Sequence[str], scale: float) -> dict[str, Any]:
    """Compile and count the programs named, or all."""
    listed = programs(scale=scale)
    return {name: measure_compiled(listed[name])[0] for name in names or listed}


def report(results: dict[str, Any], places: bool) -> None:
    """Print the counts as tables."""
    console = timing.console()
    table = Table(title=f"compiled for {gpu_target.H100.name}")
    numbers = ("compile s", "of all cores", "kernels at the top", "loops ?", "launches", "looks", "GB", "Gop", "ms", "per second")
    for column in ("program", *numbers):
        table.add_column(column, justify="right")
    for name, row in results.items():
        table.add_row(
            name,
            f"{row['compile_seconds']:.1f}",
            f"{row['compile_cpu_seconds']:.1f}",
            str(row["places"][0]["kernels"]),
            f"{row['unknown_loops']} ({row['nested_unknown_loops']} nested)",
            f"{row['launches']:.0f}",
            f"{row['looks']:.0f}",
            f"{row['num_bytes'] / 1e9:.2f}",
            f"{row['operations'] / 1e9:.2f}",
            f"{1e3 * row['seconds_by_count']:.2f}",
            f"{timing.si(row['units_per_second_by_count'])} {row['unit']}s",
        )
    console.print(table)
    for name, row in results.items() if places else ():
        for place in row["places"]:
            copies = f", copies of {', '.join(f'{c / 1e6:.0f} MB' for c in place['copies'])}" if place["copies"] else ""
            trips = place["trip_count"] if place["trip_count"] is not None else "?"
            where = "  " * place["depth"] + (name if place["kind"] == "entry" else place["kind"])
            console.print(
                f"{where} x {trips}, {place['times']:.3g} times: "
                f"{place['kernels']} kernels, {1e3 * place['seconds']:.3f} ms{copies}  {place['path'][-60:]}",
                highlight=False,
            )


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the measurements, print them, and return them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compile-only", action="store_true", help="compile for an H100 and count; no device is needed")
    parser.add_argument("--programs", nargs="*", default=[], choices=list(programs()), help="count these alone")
    parser.add_argument("--parts", nargs="*", default=[], choices=list(gpu_measure.PARTS), help="measure these alone")
    parser.add_argument("--cached", action="store_true", help="keep compiled programs; stated compile times mean nothing then")
    parser.add_argument("--places", action="store_true", help="print each loop and branch too")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full batch sizes")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    if not 0 < arguments.scale <= 1 or arguments.repeats < 1:
        parser.error("--scale must be in (0, 1] and --repeats at least 1")
    if arguments.parts and arguments.compile_only:
        parser.error("--parts are what is measured on a GPU; with --compile-only name --programs")
    if arguments.programs and not arguments.compile_only:
        parser.error("--programs are what --compile-only counts; name --parts to measure")
    if arguments.compile_only:
        try:
            gpu_target.mesh()
        except RuntimeError as error:
            parser.error(str(error))
    if arguments.cached:
        keep_compiled_programs()
    else:
        timing.without_compilation_cache()
    environment = timing.environment()
    results: dict[str, Any] = {"benchmark": "gpu", "environment": environment, "scale": arguments.scale}
    if arguments.compile_only:
        compiled = compile_all(arguments.programs, arguments.scale)
        results |= {
            "target": gpu_target.H100.name,
            "formula": {"launch_seconds": LAUNCH_SECONDS, "look_seconds": LOOK_SECONDS},
            "compiled": compiled,
        }
        report(compiled, arguments.places)
        _keep(results, arguments.json)
        return results
    results["measured"] = {}
    for name, measured in gpu_measure.measure(arguments.scale, arguments.repeats, arguments.parts or gpu_measure.PARTS):
        results["measured"][name] = measured
        timing.console().print_json(data={name: measured})
        # What was measured outlasts what breaks later.
        _keep(results, arguments.json)
    return results


def _keep(results: dict[str, Any], path: Path | None) -> None:
    if path is not None:
        timing.write_json(path, results)


if __name__ == "__main__":
    main()
