"""Advice in a position that a person tells of: `advise`. Host only."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import cards
from unojax.belief.digest import Digest
from unojax.belief.tracking import shapes_of, track
from unojax.games.adviser import sum_up
from unojax.games.seen import ImpossibleActionError, SeenGame, choices, read_seen
from unojax.rules import Rules, as_rules, is_int
from unojax.search import ADVISE_ROUNDS, DEFAULT_SEARCH, check_rounds
from unojax.search.agents import Remembered, SearchAgent
from unojax.search.pooling import Pooled, search_in_rounds, search_round
from unojax.specs import parse_agent
from unojax.text import format_action, parse_action, parse_cards

COMPILING: Final = "compiling"
"""What is being done, as `on_status` is told."""
_PENALTY: Final = re.compile(r"(?P<due>\d+)(\?(?P<before>[A-Za-z]+))?", re.ASCII)


@dataclass(frozen=True)
class Advised:
    """What to play in a position, and why.

    Attributes:
        game: up to the position, as the player saw it.
        told: figures of the belief over the other hand, NumPy.
        pooled: estimates of the plays, the best first; None where there is only a draw.
        agent: the search.
        types: P(type) of the opponent by name, the likeliest first, where the search takes it for one of several types.
        seconds: that it took.
        stopped: Ctrl-C ended it early.
    """

    game: SeenGame
    told: Digest
    pooled: Pooled | None
    agent: SearchAgent
    seconds: float
    stopped: bool
    types: Mapping[str, float]

    @property
    def play(self) -> str:
        """The advised action as text: `R5`, `W:B`, `draw`."""
        return format_action(cards.DRAW if self.pooled is None else self.pooled.recommended)

    @property
    def wins(self) -> dict[str, tuple[float, float]]:
        """Win probability and standard error of each play, the best first."""
        return {format_action(p.action): (p.win, p.win_error) for p in (() if self.pooled is None else self.pooled.plays)}

    def __repr__(self) -> str:
        plays = ", ".join(f"{name} {100 * win:.1f} ± {100 * error:.1f} %" for name, (win, error) in self.wins.items())
        return f"play {self.play}" + (f"; wins: {plays}" if plays else "")


def advise(
    position: str | None = None,
    *,
    hand: str | None = None,
    top: str | None = None,
    opponent: int | None = None,
    pile: str = "",
    penalty: int | str = 0,
    history: str = "",
    player: int | None = None,
    agent: str = DEFAULT_SEARCH,
    rounds: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    rules: Rules | str = Rules(),
    on_status: Callable[[str], None] = lambda words: None,
) -> Advised:
    """Say what to play in a position, and how likely each play is to win, from what the player to move can know.

        unojax.advise(hand="R1 RS W", top="R0", opponent=7)

    Args:
        position: what the player sees, as `unojax.parse_observation` reads it, or a whole position, of which one view is used.
        hand, top, opponent, pile, penalty: in its place, see `position_of`.
        history: what was played since then, separated by blanks: `R5 W:B draw(R5,W) draw`; the player's draws name the cards.
            Only for rules with `Rules.has_plain_steps`: not official, house or rlcard.
        player: whose view of a whole position is used; None: of the player to move in the end.
        agent: the spec of a search, `mc` or `tree`.
        rounds: searches with fresh samples, pooled; None: 32, or as many as `seconds` allow.
        seconds: search for so long instead, compiling not counted. Ctrl-C ends it, with the rounds done so far.
        seed: the same one gives the same advice on the same device.
        rules: of the game, or the name of a preset.
        on_status: told what is being done.

    Raises:
        ValueError: an argument can't be read, or there is nothing to advise: the game is over, or the other player is to move.
        ImpossibleActionError: an action of the history can't be.
    """
    words = (hand, top, opponent)
    if position is not None and (any(word is not None for word in words) or pile or penalty not in (0, "0", "")):
        raise ValueError("give a position, or hand, top, opponent and what belongs to them, not both")
    rules = as_rules(rules)
    said = position is None
    if position is None:
        position = position_of(hand, top, opponent, pile=pile, penalty=penalty, rules=rules)
    if rounds is not None and seconds is not None:
        raise ValueError("give rounds or seconds, not both")
    if rounds is not None:
        check_rounds(rounds)
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"seconds must be a positive number, got {seconds}")
    if not (is_int(seed) and 0 <= seed < 2**32):
        raise ValueError(f"seed must be a whole number in [0, {2**32 - 1}], got {seed!r}")
    search = read_search(agent, rules)
    keys = _three_keys(np.uint32(seed))
    on_status(COMPILING)
    try:
        game = _read(position, history, player, rules)
    except ImpossibleActionError:
        raise
    except ValueError as error:
        # Who says it in words has written no line.
        raise ValueError(str(error).removeprefix(f"observation {position!r}: " if said else "")) from None
    legal, compiling = choices(game.end), ThreadPoolExecutor(1, "compiling")

    def compile_search(memory: Remembered) -> None:
        if legal.any():
            compiling.submit(search_round.compile, keys[2], memory, game.end, legal, agent=search)

    # While the search is compiled, the belief is followed.
    memory = _believe(game, search, keys[0], on_status, compile_search)
    told = jax.device_get(sum_up(keys[1], memory, game.end, search=search))
    types = search.updater.types(memory.belief)
    if not legal.any():
        return Advised(game, told, None, search, 0.0, False, types)
    num_rounds = None if seconds is not None else rounds or ADVISE_ROUNDS
    on_status(COMPILING)
    goal = "" if num_rounds is None else f" of {num_rounds}"
    found = search_in_rounds(
        *(search, memory, game.end, legal, keys[2]),
        num_rounds=num_rounds,
        seconds=seconds or 0.0,
        on_round=lambda number: on_status(f"search: round {number + 1}{goal}"),
    )
    return Advised(game, told, found.pooled, search, found.seconds, found.stopped, types)


def position_of(
    hand: str | None,
    top: str | None,
    opponent: int | None,
    *,
    pile: str = "",
    penalty: int | str = 0,
    rules: Rules = Rules(),
) -> str:
    """Write a position on one line from what a player at a table would say.

    Args:
        hand: the player's cards: `R1 RS W`.
        top: the top card, `R0`; of a wild one with the colour that was declared, `W:B`.
        opponent: number of cards that the other player holds.
        pile: the other cards on the pile, as far as they are known; all others count as unseen.
        penalty: cards that the player must draw now: 2 or 4, or more where penalties add up, the other +2 or Wild+4 being in
            `pile`; of a Wild+4 that may be challenged with the colour that was active before it, `4?R`. 0 or nothing: none.
        rules: of the game.

    Raises:
        ValueError: one is missing, is no card, or is a penalty that leaves open whether it may be challenged.
    """
    given = {"hand": hand, "top": top, "opponent": opponent}
    if missing := [name for name, value in given.items() if value is None or value == ""]:
        raise ValueError(f"give a position, or hand, top and opponent: {' and '.join(missing)} missing")
    top_name, held, under = _one_top(str(top)), _listed("hand", str(hand)), _listed("pile", pile)
    return f"{held}/{opponent}/{under}/* {top_name} 0 {_pending(penalty, top_name, rules)} 0 - *"


def _one_top(top: str) -> str:
    """Write the top card as a position has it. Raises ValueError if it is none, or a wild one without its colour."""
    name = top.strip().upper()
    if name in ("W", "W+4"):
        raise ValueError(f"top must say which colour was declared, as in {name}:B, got {top!r}")
    try:
        is_card = parse_action(name) < cards.DRAW
    except ValueError as error:
        raise ValueError(f"top: {error}") from None
    if not is_card:
        raise ValueError(f"top must be a card, got {top!r}")
    return name


def _listed(what: str, text: str) -> str:
    """Write cards as a position has them. Raises ValueError, which calls them `what`, if one is none."""
    names = [word.upper() for word in re.split(r"[\s,]+", text.strip()) if word]
    try:
        parse_cards(" ".join(names))
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return ",".join(names) or "-"


def _pending(penalty: int | str, top: str, rules: Rules) -> str:
    """Write a penalty as a position has it. Raises ValueError if it is none, or leaves open whether it may be challenged."""
    text = str(penalty).strip() or "0"
    if (found := _PENALTY.fullmatch(text)) is None:
        raise ValueError(
            "penalty must be a number of cards, of a Wild+4 that may be challenged with the colour before it, as in 4?R, "
            f"got {penalty!r}"
        )
    due, can_be_challenged = int(found["due"]), rules.wild_draw_four == "challenge" and top.startswith("W+4")
    # After a challenge that failed, two more are due than the cards say.
    is_of_cards = due > 0 and due % cards.DRAW_OF_RANK[cards.WILD_DRAW_FOUR] == 0
    if can_be_challenged and is_of_cards and found["before"] is None:
        raise ValueError(
            f"penalty must say which colour was active before the Wild+4, as in {due}?R, since it may be challenged, got "
            f"{penalty!r}; if it can't be any more, give a position"
        )
    return text


def read_search(spec: str, rules: Rules) -> SearchAgent:
    """Read a search. Raises ValueError for an agent that does not say how likely a play is to win from what a player sees."""
    agent = parse_agent(spec, rules=rules)
    if not isinstance(agent, SearchAgent):
        raise ValueError(f"agent {spec!r} has no estimates; choose a search, mc or tree")
    return agent.judging_wins()


def _read(position: str, history: str, player: int | None, rules: Rules) -> SeenGame:
    """Read the game up to a position in which the player is to move."""
    game = read_seen(position, history, player, rules)
    if game.end.terminated:
        raise ValueError("history: the game is over at its end; there is nothing to advise")
    if not game.end.is_my_turn:
        when = " at the end of the history" if game.actions else ""
        raise ValueError(
            f"player {int(game.end.current_player)} is to move{when}, but the view is that of player {int(game.end.player)}; "
            "advice is for the player to move"
        )
    return game


def _believe(
    game: SeenGame, agent: SearchAgent, key: Array, on_status: Callable[[str], None], on_start: Callable[[Remembered], None]
) -> Remembered:
    """Give what the agent remembers at the end of a game; `on_start` is told of what shapes that will be."""
    start = game.observations[0]
    steps = jnp.int32(game.steps_before + len(game.actions))
    memory = Remembered((), steps)
    updater = agent.updater
    if not updater.on_host:
        on_start(Remembered(shapes_of(updater, key, start), steps))
    for number, (belief, info) in enumerate(track(updater, key, game.observations)):
        if number < len(game.actions):
            on_status(f"belief: action {number + 1} of {len(game.actions)}")
        if info is not None and info.depleted:
            raise ImpossibleActionError(
                number,
                f"no hand of player {1 - int(start.player)} explains this after what came before; check the history, or take "
                f"more particles than {updater.num_particles}",
            )
        memory = Remembered(belief, steps)
    return memory


@jax.jit
def _three_keys(seed: ArrayLike) -> tuple[Array, Array, Array]:
    first, second, third = jax.random.split(jax.random.key(seed, impl="threefry2x32"), 3)
    return first, second, third
