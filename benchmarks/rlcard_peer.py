"""RLCard's UNO (rlcard on PyPI) with random legal actions: one process, one core, a plain loop.

`measure` starts a Python with RLCard, which runs this file as a script, using only the standard library, NumPy and RLCard.

Two levels of RLCard's interface are timed:

    game    `Game.step`, which also lists the hand and the pile for the player to move
    env     `Env.step`, which also encodes a feature plane

Steps are counted as in unojax, in favour of RLCard. A call is one step. The forced draw after a +2 or Wild+4, which RLCard
includes in the play, is another one; an untimed replay counts these draws. A game in which RLCard runs out of cards fails with an
`IndexError`. Its steps until then count, and the failures are reported.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

REQUIREMENT: Final = "rlcard==1.2.0"
LEVELS: Final = ("game", "env")
CACHE: Final = Path(__file__).resolve().parent.parent / ".cache"


def measure(config: Any, cache: Path = CACHE) -> dict[str, Any]:
    """Measure RLCard with `config.peer_python`, else with this Python if it has RLCard, else with one made by pip in `cache`.

    Raises:
        ValueError: If RLCard cannot be installed or run. The message includes the output.
    """
    python = config.peer_python or peer_python(cache)
    return json.loads(_run([python, __file__, "--games", str(config.games), "--repeats", str(config.repeats)]))


def peer_python(cache: Path = CACHE) -> str:
    """Return a Python with RLCard: this one if it can import it, else one in `cache`, made with pip on first use."""
    if _has_rlcard(sys.executable):
        return sys.executable
    folder = cache / f"rlcard-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (python.exists() and _has_rlcard(str(python))):
        venv.create(folder, clear=True, with_pip=True)
        _run([str(python), "-m", "pip", "install", "--quiet", REQUIREMENT])
    return str(python)


def _has_rlcard(python: str) -> bool:
    return subprocess.run([python, "-c", "import rlcard.games.uno"], capture_output=True, check=False).returncode == 0


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(
            f"{' '.join(command)} failed:\n{done.stderr}\nName a Python that has {REQUIREMENT} with --peer-python, or leave "
            "RLCard out with --no-peer."
        )
    return done.stdout


def play(level: str, games: int, seed: int) -> tuple[int, int]:
    """Play games with uniformly random legal actions; return calls (RLCard's steps) and failed games (no cards left)."""
    loop, uniform = {"game": _game, "env": _env}[level](seed), random.Random(seed).random
    calls = failed = 0
    for _ in range(games):
        try:
            for _ in loop(uniform):
                calls += 1
        except IndexError:
            failed += 1
    return calls, failed


_Loop = Callable[[Callable[[], float]], Iterator[None]]
"""Loop that plays one game with random numbers, and yields after each call."""


def _game(seed: int) -> _Loop:
    game = _new_game(seed)

    def loop(uniform: Callable[[], float]) -> Iterator[None]:
        state, _ = game.init_game()
        while not game.is_over():
            actions = state["legal_actions"]
            state, _ = game.step(actions[int(uniform() * len(actions))])
            yield

    return loop


def _env(seed: int) -> _Loop:
    import rlcard  # pyright: ignore[reportMissingImports]  # absent from the benchmark's own environment

    env = rlcard.make("uno", config={"seed": seed})

    def loop(uniform: Callable[[], float]) -> Iterator[None]:
        state, _ = env.reset()
        while not env.is_over():
            actions = state["raw_legal_actions"]
            state, _ = env.step(actions[int(uniform() * len(actions))], raw_action=True)
            yield

    return loop


def _new_game(seed: int) -> Any:
    import numpy as np
    from rlcard.games.uno import Game  # pyright: ignore[reportMissingImports]

    game = Game()
    game.np_random = np.random.RandomState(seed)
    return game


def count_forced_draws(games: int, seed: int) -> int:
    """Return the number of penalty draws in the games of `play("game", games, seed)`, from a replay that counts the dealer's
    calls.
    """
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
        play("game", games, seed)
    finally:
        UnoDealer.deal_cards, UnoGame.init_game = deal_cards, init_game
    return dealt - at_start


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def _measure_here(games: int, repeats: int) -> dict[str, Any]:
    from importlib import metadata

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    # The share of forced draws depends on the rules and the random play; it is the same at every level.
    steps_per_call = 1 + count_forced_draws(games, seed=0) / play("game", games, seed=0)[0]
    levels = {}
    for level in LEVELS:
        rates, games_failed = [], 0
        for seed in range(repeats):
            start = time.perf_counter()
            calls, failed = play(level, games, seed)
            rates.append(calls / (time.perf_counter() - start))
            games_failed += failed
        steps = _spread([rate * steps_per_call for rate in rates])
        levels[level] = {"steps_per_second": steps, "calls_per_second": _spread(rates), "games_failed": games_failed}
    versions = {name: metadata.version(name) for name in ("rlcard", "numpy")}
    return {"versions": versions, "steps_per_call": steps_per_call, "levels": levels}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Measure RLCard's UNO; prints JSON.")
    parser.add_argument("--games", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    json.dump(_measure_here(arguments.games, arguments.repeats), sys.stdout)
