"""Saved games: a file round-trips and replays; other content is rejected with the reason."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import pytest

from tests.helpers import assert_trees_equal, refusals
from unojax import Rules, parse_position
from unojax.decks import parse_deck
from unojax.games import replay
from unojax.games.gamefile import GameFile, parse_game, read_game, write_game
from unojax.text import format_position

RULES = Rules(deck=parse_deck("colors=2,ranks=0-3+S++2,copies=1,wilds=1"), hand_size=3)
START = "R1,W/R2,Y+2,Y0/-/* R0 0 0 0 - *"
ACTIONS = "W:Y Y+2 draw(R3,RS) Y0 draw(W+4)"


@pytest.fixture(scope="module")
def played() -> replay.Replay:
    return replay.replay(parse_position(START, rules=RULES), ACTIONS, jax.random.key(0))


@pytest.fixture(scope="module")
def saved(played: replay.Replay) -> GameFile:
    return GameFile.of(played, players=("person", "mc:rollouts=10"), seed=7)


def changed(saved: GameFile, **changes: Any) -> str:
    """Return the file with other values of fields."""
    return json.dumps(json.loads(saved.to_json()) | changes)


def test_round_trip(played: replay.Replay, saved: GameFile, tmp_path: Path):
    """Each field has a line."""
    write_game(tmp_path / "game.json", saved)
    again = read_game(tmp_path / "game.json")
    assert again == saved
    assert again.actions == tuple(ACTIONS.split())
    assert_trees_equal(jax.device_get(again.replay().end), jax.device_get(played.end))
    assert list(tmp_path.iterdir()) == [tmp_path / "game.json"]
    lines = saved.to_json().splitlines()
    assert [line.split(":")[0].strip(' "') for line in lines[1:-1]] == list(json.loads(saved.to_json()))


def test_rules_come_back(saved: GameFile):
    """An old file names fewer fields; the others have their defaults."""
    limited = Rules(deck=RULES.deck, hand_size=2, start_card="any", first_player="random", max_steps=40, step_penalty=0.5)
    for rules in (limited, Rules.official(), Rules.house(), Rules.rlcard(hand_size=5)):
        game = GameFile(("a", "b"), None, rules, "start", (), "*")
        assert parse_game(game.to_json()) == game
    first = ("skip_forfeits", "start_card", "hand_size", "deck", "first_player", "max_steps", "step_penalty")
    of_saved = json.loads(saved.to_json())["rules"]
    game = parse_game(changed(saved, rules={name: of_saved[name] for name in first}))
    assert game == saved
    assert format_position(game.replay().end) == saved.end


def test_result_of_a_finished_game():
    start = parse_position("R1/R2,Y0/-/* R0 0 0 0 - *", rules=RULES)
    game = replay.replay(start, "R1", jax.random.key(0))
    assert GameFile.of(game, players=("a", "b"), seed=None).result == "0"


def test_wrong_fields_are_refused(saved: GameFile):
    of_saved = json.loads(saved.to_json())["rules"]
    fields: dict[str, Any] = {
        "format": "unojax game 0",
        "players": ["one"],
        "seed": -1,
        "seed (bool)": True,
        "actions": "R1",
        "actions (numbers)": [1],
        "start": None,
        "end": "",
        "result": "1",
        "more": 1,
        "rules": {"deck": []},
    }
    refusals({name: partial(parse_game, changed(saved, **{name.partition(" ")[0]: v})) for name, v in fields.items()})
    refusals({"version 99": lambda: parse_game(changed(saved, rules_version=99))})
    rules: dict[str, Any] = {"hand_size": 99, "deck": 5, "deck (texts)": ["x"], "start_card": []}
    refusals(
        {
            f"rules: {name}": partial(parse_game, changed(saved, rules=of_saved | {name.partition(" ")[0]: value}))
            for name, value in rules.items()
        }
    )


def test_games_that_do_not_replay_are_refused(saved: GameFile):
    games: dict[str, list[str]] = {
        "action 2: 'R2' is not legal for player 1": ["W:Y", "R2"],
        "action 1: 'challenge' is not legal for player 0": ["challenge"],
        "action 3": ["W:Y", "Y+2", "draw(R3,R3)"],
        "the game ended at": ["W:Y", "Y+2"],
        "the game ended at (another card)": ["W:Y", "Y+2", "draw(R3,RS)", "Y0", "draw(YS)"],
    }
    refusals({says: parse_game(changed(saved, actions=actions)).replay for says, actions in games.items()})
    refusals({"seven fields": parse_game(changed(saved, start="R1")).replay})


def test_files_that_are_no_game_are_refused_by_name(tmp_path: Path):
    path = tmp_path / "x.json"
    for content, says in {
        b"": "not JSON",
        b"\xff\xff": "not text",
        b"[]": "no object",
        b'{"turns": []}': "no object",
        b'{"format": "unojax game 1"}': "'actions' is missing",
        b"[" * 100_000: "not JSON",
    }.items():
        path.write_bytes(content)
        refusals({says: partial(read_game, path), str(path): partial(read_game, path)})
    refusals({"No such file": lambda: read_game(tmp_path / "none.json"), "Is a directory": lambda: read_game(tmp_path)})


def test_names_do_not_command_a_terminal(saved: GameFile, tmp_path: Path):
    """The file begins with a byte order mark."""
    text = changed(saved, players=["\x1b]0;title\x07\x1b[2J", "näme"])
    (tmp_path / "x.json").write_text("\ufeff" + text, encoding="utf-8")
    assert read_game(tmp_path / "x.json").players == (r"\x1b]0;title\x07\x1b[2J", "näme")
