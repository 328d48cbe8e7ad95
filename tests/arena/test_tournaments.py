"""`arena.tournament`: kept, resumed, interrupted; `arena.win_rates` against `unojax.simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

from unojax import Rules, parse_agent, simulate
from unojax.arena import Pairs, Tournament, play_match, tournament, win_rates
from unojax.policies import get_policy

RULES = Rules(deck="colors=2 ranks=0-3+S++2 copies=1 wilds=1", hand_size=3)
NAMES = ("uniform", "scarcest-color", "keep-wilds")
SIZES = {"batch_size": 8, "workers": 1}


def same(one: Pairs, other: Pairs) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("index", "winner", "num_steps", "num_choices")
    )


def test_matches_are_those_of_play_match():
    played = tournament(NAMES, 16, rules=RULES, seed=3, **SIZES)
    agents = [parse_agent(name) for name in NAMES]
    key = jax.random.key(3, impl="threefry2x32")
    assert played.complete and list(played.matches) == [(0, 1), (0, 2), (1, 2)]
    for (i, j), pairs in played.matches.items():
        assert same(pairs, play_match(key, (agents[i], agents[j]), 8, rules=RULES, **SIZES))
    assert {row.name for row in played.standings.agents} == set(NAMES)


def test_an_interrupt_keeps_complete_batches_and_the_rest_is_played_later(tmp_path: Path):
    results = str(tmp_path / "results.jsonl")
    latest: list[Tournament] = []

    def stop(played: Tournament) -> None:
        latest.append(played)
        if played.num_finished >= 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tournament(NAMES, 16, rules=RULES, seed=3, results=results, on_progress=stop, **SIZES)
    assert not latest[-1].complete and latest[-1].num_asked == 48
    again = tournament(NAMES, 16, rules=RULES, seed=3, results=results, **SIZES)
    assert again.complete and 0 < again.num_found < 48 and again.num_asked == 48 - again.num_found
    whole = tournament(NAMES, 16, rules=RULES, seed=3, **SIZES)
    assert all(same(again.matches[match], whole.matches[match]) for match in whole.matches)
    assert tournament(NAMES, 16, rules=RULES, seed=3, results=results, **SIZES).num_asked == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tournament(["uniform"]), "give two or more agents, got uniform"),
        (lambda: tournament("uniform"), "give two or more agents, got uniform"),
        (lambda: tournament(["uniform", "uniform"]), "agent uniform is given twice"),
        (lambda: tournament(NAMES, 3), "games must be an even number"),
        (lambda: tournament(NAMES, 6, series=2), "games must be a multiple of 4"),
        (lambda: tournament(NAMES, 4, batch_size=3), "batch_size must be an even number"),
        (lambda: tournament(NAMES, 4, adjust=8, results="x.jsonl"), "adjust is about single games"),
        (lambda: tournament([parse_agent("uniform"), "linear"], 4, results="x.jsonl"), "results names agents by their specs"),
        (lambda: tournament(NAMES, 4, results="/no/such/folder/x.jsonl"), "results: can't write"),
    ],
)
def test_bad_arguments(call: Callable[[], object], says: str):
    with pytest.raises(ValueError, match=says):
        call()


def test_win_rates_count_the_games_of_simulate():
    found = win_rates(("scarcest-color", get_policy("uniform")), 101, rules=RULES, seed=5, batch_size=16)
    key = jax.random.key(5, impl="threefry2x32")
    a, b = get_policy("scarcest-color"), get_policy("uniform")
    first = simulate(key, 51, (a, b), rules=RULES, batch_size=16)
    second = simulate(jax.random.fold_in(key, 1), 50, (b, a), rules=RULES, batch_size=16)
    wins = int((first.winner == 0).sum()), int((second.winner == 1).sum())
    as_first, as_second, both = found.rates(0)
    assert as_first is not None and as_second is not None
    assert (as_first.wins, as_second.wins, both.wins, both.games) == (*wins, sum(wins), 101)
    assert found.complete and found.policies == ("scarcest-color", "uniform")
    advantage = (found.rates(0)[2].wins - found.rates(1)[2].wins) / 101
    assert found.mean_returns == pytest.approx((advantage, -advantage))


def test_an_interrupt_ends_win_rates_of_a_library_call():
    """A notebook's cell can be stopped; only who asks for it gets what was begun."""

    def stop(finished: int, asked: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        win_rates(games=64, rules=RULES, batch_size=16, on_progress=stop)
