"""Games kept step by step: play and write."""

from __future__ import annotations

import time

import jax

from unojax.cli import output
from unojax.cli.options import get_policies
from unojax.cli.record.command import Record
from unojax.device.process import EXIT_INTERRUPTED
from unojax.games.trajectories import stream_trajectories
from unojax.rules import Rules


def run(request: Record, rules: Rules) -> int:
    about = output.machine()
    num_games = num_rows = 0
    stopped = False
    key = jax.random.key(request.seed, impl="threefry2x32")
    pair = get_policies(request.policies)
    began = time.perf_counter()
    with output.writing("--out", request.out) as file, output.progress(quiet=request.quiet) as progress:
        task = progress.add_task("compiling", total=request.games, done="")
        try:
            for rows in stream_trajectories(key, request.games, pair, rules=rules, batch_size=request.batch_size):
                file.add(rows)
                num_games, num_rows = int(rows["game"][-1]) + 1, num_rows + len(rows["game"])
                progress.update(task, description="playing", completed=num_games, done=f"{num_games:,} of {request.games:,}")
        except KeyboardInterrupt:
            if not num_rows:
                raise
            stopped = True
    if stopped:
        output.note("record", "stopped; the file has the games that are complete")
    facts = {
        "File": f"{request.out}: {output.count(num_rows, 'step')} of {output.count(num_games, 'game')}",
        "Policies": f"{request.policies[0]} as player 0, {request.policies[1]} as player 1; seed {request.seed}",
        "Rules": output.rules_text(rules),
        "Time": f"{time.perf_counter() - began:.1f} s, compiling included",
    }
    output.show(output.facts(facts | output.machine_facts(about)))
    return EXIT_INTERRUPTED if stopped else 0
