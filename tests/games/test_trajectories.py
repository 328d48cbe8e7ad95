"""Whole games as rows: those of the engine, whatever the batch size; the commands that write them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief.oracle import legal_actions
from tests.helpers import refusals
from unojax import Rules, cards, format_action, parse_action, simulate
from unojax.cli import main
from unojax.decks import parse_deck
from unojax.games.trajectories import stream_trajectories
from unojax.policies import LINEAR, LinearPolicy

PROGRAMS = 110  # Each pair of policies, rule set and batch size is a program.

DECK = "colors=2,ranks=0-3+S++2,copies=1,wilds=1"
RULES = Rules(deck=parse_deck(DECK), hand_size=3)
NUM_GAMES = 20
KEY = jax.random.key(3)

Rows = dict[str, np.ndarray]


def play(num_games: int, policies: Any, **options: Any) -> Rows:
    parts = list(stream_trajectories(KEY, num_games, policies, **options))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def ends_of(rows: Rows) -> np.ndarray:
    """Return the last row of each game, bool[N]."""
    return np.append(rows["game"][1:] != rows["game"][:-1], True)


@pytest.fixture(scope="module")
def rows() -> Rows:
    parts = list(stream_trajectories(jax.random.key(1), NUM_GAMES, ("scarcest-color", "uniform"), rules=RULES, batch_size=8))
    assert [len(np.unique(part["game"])) for part in parts] == [8, 8, 4]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_rows_are_games_in_order_with_all_cards(rows: Rows):
    """Text columns are notation."""
    last = ends_of(rows)
    assert sorted(set(rows["game"].tolist())) == list(range(NUM_GAMES))
    assert (rows["done"] == last).all() and not rows["truncated"].any()
    first = np.append(True, last[:-1])
    assert (rows["step"][first] == 0).all() and (np.diff(rows["step"])[~last[:-1]] == 1).all()
    deck = np.array(RULES.deck) - rows["hand"].astype(int) - rows["pile"] - rows["opponent_hand"]
    assert (deck >= 0).all() and (deck.sum(1) == rows["deck_count"]).all()
    assert (rows["opponent_hand"].sum(1) == rows["opponent_count"]).all()
    for row in range(len(last)):
        hand = tuple(np.flatnonzero(rows["hand"][row]).tolist())
        rank, color, penalty = (int(rows[name][row]) for name in ("top_rank", "color", "penalty"))
        top = 39 + rank if rank >= cards.WILD else 13 * color + rank
        assert np.flatnonzero(rows["legal"][row]).tolist() == sorted(legal_actions(hand, top, color, penalty))
        assert rows["legal"][row, rows["action"][row]]
        assert rows["move"][row] == format_action(rows["action"][row])
        assert parse_action(rows["top"][row]) == 15 * color + rank
    assert (rows["last_action"][first] == -1).all()
    assert (rows["last_action"][~first] == rows["action"][np.flatnonzero(~first) - 1]).all()


def test_outcomes_are_those_of_the_last_cards(rows: Rows):
    """The player of a last card wins; a game has at most one winner."""
    num_won = 0
    for number in range(NUM_GAMES):
        here = np.flatnonzero(rows["game"] == number)
        end = here[-1]
        if rows["action"][end] != cards.DRAW and rows["hand"][end].sum() == 1:
            num_won += 1
            assert rows["outcome"][end] == 1 and rows["reward"][end] == 1
        assert (rows["reward"][here[:-1]] == 0).all()
        of_player_0 = rows["outcome"][here] * np.where(rows["player"][here] == 0, 1, -1)
        assert len(set(of_player_0.tolist())) == 1
    assert num_won > NUM_GAMES / 2


def by_protocol(key: jax.Array, observation: Any, legal_mask: jax.Array) -> jax.Array:
    return legal_mask.argmax()


def test_games_are_those_of_simulate_under_all_kinds_of_rules():
    """Lengths, winners, rewards and ends, with truncation, penalties, points, and both kinds of policies.

    Equal rows have equal legal actions.
    """
    rules = Rules.official(deck=RULES.deck, hand_size=3, max_steps=12, step_penalty=0.125)
    policies = ("linear", by_protocol)
    rows, games = play(40, policies, rules=rules, batch_size=16), simulate(KEY, 40, policies, rules=rules)
    last = np.flatnonzero(ends_of(rows))
    assert (rows["step"][last] + 1 == games.num_steps).all()
    mover, outcome = rows["player"][last], rows["outcome"][last]
    assert (np.select([outcome > 0, outcome < 0], [mover, 1 - mover], -1) == games.winner).all()
    assert (rows["truncated"][last] == games.truncated).all() and rows["done"].sum() == 40
    assert 0 < games.truncated.sum() < 40
    on_the_way = np.where(rows["done"] & ~rows["truncated"], 0, -rules.step_penalty)
    ends = rows["reward"] - on_the_way
    # A loser may hold cards that are worth no points.
    assert (ends[~rows["done"]] == 0).all() and (np.sign(ends[last]) == outcome)[ends[last] != 0].all()

    known = ("hand", "top_rank", "color", "penalty", "has_drawn", "drawn", "contested")
    assert rows["has_drawn"].any() and (rows["drawn"] >= 0).any() and (rows["contested"] >= 0).any()
    legal: dict[tuple, bytes] = {}
    for row in range(len(rows["game"])):
        key = tuple(rows[name][row].tobytes() for name in known)
        assert legal.setdefault(key, rows["legal"][row].tobytes()) == rows["legal"][row].tobytes()
    assert len(legal) < len(rows["game"]) and rows["legal"].shape[1] == rules.num_actions == 62


@pytest.mark.slow
def test_batch_size_and_arrays_in_policies_change_no_row(rows: Rows):
    """Rules may be given by name."""
    (again,) = stream_trajectories(jax.random.key(1), NUM_GAMES, ("scarcest-color", "uniform"), rules=RULES, batch_size=64)
    arrays = LinearPolicy(tuple(map(jnp.float32, LINEAR.weights)))
    of_arrays, of_numbers = (play(2, (policy, "uniform"), rules="rlcard") for policy in (arrays, LINEAR))
    for one, other in ((again, rows), (of_arrays, of_numbers)):
        for name, values in one.items():
            np.testing.assert_array_equal(values, other[name])


def test_games_that_were_not_requested_are_not_played(rows: Rows):
    """An illegal action in an unrequested game of a remaining slot raises no error."""
    first_hand = np.asarray(rows["hand"][0])

    def only_there(key: jax.Array, observation: Any, legal_mask: jax.Array) -> jax.Array:
        is_other = (observation.last_action == -1) & (cards.counts(observation.hand) != first_hand).any()
        return jnp.where(is_other, 61, legal_mask.argmax())

    key = jax.random.key(1)
    alone = list(stream_trajectories(key, 1, (only_there, "uniform"), rules=RULES, batch_size=8))
    assert len(alone) == 1 and set(alone[0]["game"]) == {0}
    with pytest.raises(ValueError, match=r"illegal action at step \d+ of game 1"):
        list(stream_trajectories(key, 2, (only_there, "uniform"), rules=RULES, batch_size=8))


def test_bad_arguments_are_refused():
    def first(num_games: int, *policies: Any) -> partial:
        return partial(next, stream_trajectories(KEY, num_games, policies, rules=RULES, batch_size=8))

    refusals(
        {
            "num_games": lambda: next(stream_trajectories(KEY, 0, ("uniform", "uniform"))),
            "illegal action at step 0 of game 0": first(1, lambda *_: jnp.int32(61), "uniform"),
            "got float32[]": first(1, "uniform", lambda *_: jnp.float32(60)),
        }
    )


@pytest.mark.slow
def test_the_commands_write_files(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    rules = ["--deck", DECK, "--hand-size", "3", "--quiet", "--policies", "scarcest-color", "uniform"]
    out = tmp_path / "steps.npz"
    assert main(["simulate", "--rows", "steps", "--out", str(out), "--games", "20", *rules]) == 0
    assert "of 20 games" in capsys.readouterr().out
    with np.load(out) as found:
        assert len(np.unique(found["game"])) == 20 and found["legal"].shape[1:] == (cards.NUM_ACTIONS,)
    out = tmp_path / "games.npz"
    assert main(["simulate", "--out", str(out), "--games", "101", *rules]) == 0
    said = capsys.readouterr().out
    with np.load(out) as found:
        numbers = zip(found["swapped"].tolist(), found["game"].tolist(), strict=True)
        assert sorted(numbers) == [(False, n) for n in range(51)] + [(True, n) for n in range(50)]
        winners = np.where(found["winner"] == 0, found["player_0"], found["player_1"])
        share = 100 * np.mean((winners == "uniform") & (found["winner"] >= 0))
    assert f"{share:.1f} ± " in said


def test_bad_options_are_refused_in_one_line(capsys: pytest.CaptureFixture[str]):
    for arguments, option in {
        "simulate --out games.csv": "--out",
        "simulate --out /no/folder/games.npz": "--out",
        "simulate --rows steps --out games": "--out",
        "simulate --rows steps --out games.npz/": "--out",
        "simulate --rows steps": "--rows",
        "simulate --rows steps --out x.npz --json x.json": "--rows",
        "simulate --rows steps --out x.npz --policies mc uniform": "'mc'",
    }.items():
        assert main(arguments.split()) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and len(captured.err.splitlines()) == 1 and option in captured.err
