"""RLCard's UNO (rlcard on PyPI) with random legal actions: one process, one core, a plain loop.

The file has two halves. `measure` runs in the benchmark's process and starts a Python that has RLCard; that Python runs this file
as a script (with the standard library, NumPy and RLCard alone) and prints its measurements as JSON.

Three levels of RLCard's interface are timed, from the fastest to the one that users see:

    round   legal actions and moves only, no view of the game is built (`game.round`)
    game    `Game.step`, which also lists the hand and the pile for the player to move
    env     `Env.step`, which also encodes a feature plane

Steps are counted as unojax does, in favour of RLCard: a call is one step, and the forced draw after a +2 or Wild+4, which RLCard
makes part of the play, is one more. These draws are counted in an untimed replay. A game in which RLCard runs out of cards to
draw fails with an `IndexError`; its steps up to there count, and such games are reported.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any, Final

REQUIREMENT: Final = "rlcard==1.2.0"
LEVELS: Final = ("round", "game", "env")


def measure(*, python: str | None, games: int, repeats: int, cache: Path) -> dict[str, Any]:
    """Measure RLCard with the given Python, or one that has it.

    Args:
        python: an interpreter that can import rlcard. None: this one if it can, else a virtual environment in `cache`, made
            with pip at the first use.
        games: games per repeat and level.
        repeats: timed repeats.
        cache: folder for the virtual environment.

    Raises:
        RuntimeError: RLCard cannot be installed or run; the message has the output.
    """
    python = python or peer_python(cache)
    output = _run([python, __file__, "--games", str(games), "--repeats", str(repeats)])
    return json.loads(output)


def peer_python(cache: Path) -> str:
    """Find a Python that has RLCard: this one if it can import it, else one in `cache`, made with pip at the first use."""
    return sys.executable if _has_rlcard(sys.executable) else _environment(cache)


def _has_rlcard(python: str) -> bool:
    return subprocess.run([python, "-c", "import rlcard.games.uno"], capture_output=True, check=False).returncode == 0


def _environment(cache: Path) -> str:
    folder = cache / f"rlcard-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (python.exists() and _has_rlcard(str(python))):
        venv.create(folder, clear=True, with_pip=True)
        _run([str(python), "-m", "pip", "install", "--quiet", REQUIREMENT])
    return str(python)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} failed:\n{done.stderr}\nGive a Python that has {REQUIREMENT} with --peer-python, or skip "
            "RLCard with --no-peer."
        )
    return done.stdout


def play(level: str, games: int, seed: int) -> tuple[int, int, int]:
    """Play so many games with uniformly random legal actions.

    Returns:
        calls (RLCard's own steps), games that were played to their end, games that failed for want of cards.
    """
    loop = {"round": _play_round, "game": _play_game, "env": _play_env}[level]
    return loop(games, seed)


def _play_round(games: int, seed: int) -> tuple[int, int, int]:
    game, uniform = _new_game(seed), random.Random(seed).random
    calls = failed = 0
    for _ in range(games):
        game.init_game()
        players, current = game.players, game.round
        try:
            while not current.is_over:
                actions = current.get_legal_actions(players, current.current_player)
                current.proceed_round(players, actions[int(uniform() * len(actions))])
                calls += 1
        except IndexError:
            failed += 1
    return calls, games - failed, failed


def _play_game(games: int, seed: int) -> tuple[int, int, int]:
    game, uniform = _new_game(seed), random.Random(seed).random
    calls = failed = 0
    for _ in range(games):
        state, _ = game.init_game()
        try:
            while not game.is_over():
                actions = state["legal_actions"]
                state, _ = game.step(actions[int(uniform() * len(actions))])
                calls += 1
        except IndexError:
            failed += 1
    return calls, games - failed, failed


def _play_env(games: int, seed: int) -> tuple[int, int, int]:
    import rlcard  # pyright: ignore[reportMissingImports]  # absent from the benchmark's own environment

    env, uniform = rlcard.make("uno", config={"seed": seed}), random.Random(seed).random
    calls = failed = 0
    for _ in range(games):
        state, _ = env.reset()
        try:
            while not env.is_over():
                actions = state["raw_legal_actions"]
                state, _ = env.step(actions[int(uniform() * len(actions))], raw_action=True)
                calls += 1
        except IndexError:
            failed += 1
    return calls, games - failed, failed


def _new_game(seed: int) -> Any:
    import numpy as np
    from rlcard.games.uno import Game  # pyright: ignore[reportMissingImports]

    game = Game()
    game.np_random = np.random.RandomState(seed)
    return game


def count_forced_draws(games: int, seed: int) -> int:
    """Count penalty draws in the games of `play("round", games, seed)`, by a replay that counts the dealer's calls."""
    from rlcard.games.uno.dealer import UnoDealer  # pyright: ignore[reportMissingImports]
    from rlcard.games.uno.game import UnoGame  # pyright: ignore[reportMissingImports]

    deal_cards, init_game = UnoDealer.deal_cards, UnoGame.init_game
    dealt = at_start = 0

    def counting_deal(self: Any, player: Any, num: int) -> None:
        nonlocal dealt
        dealt += 1
        deal_cards(self, player, num)

    def counting_init(self: Any) -> Any:
        nonlocal at_start
        before = dealt
        result = init_game(self)
        at_start += dealt - before
        return result

    UnoDealer.deal_cards, UnoGame.init_game = counting_deal, counting_init
    try:
        play("round", games, seed)
    finally:
        UnoDealer.deal_cards, UnoGame.init_game = deal_cards, init_game
    return dealt - at_start


def _measure_here(games: int, repeats: int) -> dict[str, Any]:
    import platform
    from importlib import metadata

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # The share of forced draws is that of the rules and the random play, the same at every level.
    calls, _, _ = play("round", games, seed=0)
    steps_per_call = 1 + count_forced_draws(games, seed=0) / calls
    levels = {}
    for level in LEVELS:
        rates, calls_per_second, finished, failed, total = [], [], 0, 0, 0
        for seed in range(repeats):
            start = time.perf_counter()
            calls, ended, broken = play(level, games, seed)
            elapsed = time.perf_counter() - start
            calls_per_second.append(calls / elapsed)
            rates.append(calls * steps_per_call / elapsed)
            finished, failed, total = finished + ended, failed + broken, total + calls
        levels[level] = {
            "steps_per_second": {"median": statistics.median(rates), "min": min(rates), "max": max(rates)},
            "calls_per_second": {
                "median": statistics.median(calls_per_second),
                "min": min(calls_per_second),
                "max": max(calls_per_second),
            },
            "calls": total,
            "games_finished": finished,
            "games_failed": failed,
        }
    return {
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in ("rlcard", "numpy")},
        "cores": 1,
        "repeats": repeats,
        "games_per_repeat": games,
        "steps_per_call": steps_per_call,
        "levels": levels,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure RLCard's UNO; prints JSON.")
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    json.dump(_measure_here(arguments.games, arguments.repeats), sys.stdout)
