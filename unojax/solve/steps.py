"""Steps of many games at once: the deal, then all successors of a step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unojax.rules import Rules, as_rules, check_plain
from unojax.solve.expansion import Expander, Lanes, Picks


def game_rules(rules: Rules, max_steps: int | None) -> Rules:
    """Return the rules of the game to be solved.

    Raises:
        ValueError: If the game is infinite or not zero-sum, or the solver does not support a rule.
    """
    rules = as_rules(rules)
    max_steps = rules.max_steps if max_steps is None else max_steps
    if max_steps is None:
        raise ValueError("max_steps must be given, here or in the rules: without it, a game may never end; e.g. max_steps=12")
    if rules.step_penalty:
        raise ValueError(
            f"step_penalty must be 0, got {rules.step_penalty}: both players pay it, and only zero-sum games are solved; "
            "max_steps keeps games short"
        )
    if rules.points:
        raise ValueError(
            "points must be False, got True: the solver's games are worth 1 to who wins them, whatever the loser holds"
        )
    check_plain(rules, "the solver")
    return replace(rules, max_steps=max_steps)


def num_steps_of(rules: Rules) -> int:
    """Return the number of steps after which the game is truncated."""
    assert rules.max_steps is not None, "of `game_rules`"
    return rules.max_steps


def deal_card(expander: Expander, lanes: Lanes) -> Lanes:
    """Deal the next card of a hand in all ways.

    `origin` is the previous lane, `drawn` the card's place, `prob` the card's own probability.
    """
    dealt, picks = expander.expand(lanes._replace(prob=np.ones(lanes.size)), expander.look(lanes)[0])
    return dealt._replace(origin=picks.parent, drawn=picks.place.astype(int))


def turn_up(expander: Expander, lanes: Lanes) -> Lanes:
    """Turn the start card up in all ways, with its coins; as `deal_card`."""
    counts, _ = expander.look(lanes)
    coins = expander.start_coins()
    num_firsts = sum(serves for _, serves, _ in coins)
    starts = []
    for word, serves, weight in coins:
        started, picks = expander.expand(lanes._replace(prob=np.ones(lanes.size)), counts, word)
        prob = started.prob * np.where(picks.is_wild, weight, 1.0 / num_firsts)
        started = started._replace(origin=picks.parent, drawn=picks.place.astype(int), prob=prob)
        starts.append(started.take(np.flatnonzero(picks.is_wild | serves)))
    return Lanes.join(starts)


def begun_draws(lanes: Lanes, picks: Picks) -> np.ndarray:
    """Return the lanes whose children have the first card of a draw, int64[K], ascending."""
    drawing = picks.parent[picks.is_card & (lanes.so_far[picks.parent] == 0)]
    return drawing[np.diff(drawing, prepend=-1) != 0]


def take_step(expander: Expander, lanes: Lanes, counts: np.ndarray) -> tuple[Lanes, int]:
    """Take all steps from lanes, with `counts` of `Expander.look`; also count the draws."""
    done, num_draws = [], 0
    while lanes.size:
        children, picks = expander.expand(lanes, counts)
        num_draws += len(begun_draws(lanes, picks))
        if not picks.goes_on.any():
            done.append(children)
            break
        done.append(children.take(np.flatnonzero(~picks.goes_on)))
        lanes = children.take(np.flatnonzero(picks.goes_on))
        counts, _ = expander.look(lanes)
    return Lanes.join(done), num_draws
