"""Saved games: what is written is read back and replays; anything else is refused with the reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jax
import pytest

from tests.helpers import assert_trees_equal
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


def test_round_trip(played: replay.Replay, saved: GameFile, tmp_path: Path):
    write_game(tmp_path / "game.json", saved)
    again = read_game(tmp_path / "game.json")
    assert again == saved
    assert again.actions == tuple(ACTIONS.split())
    assert_trees_equal(jax.device_get(again.replay().end), jax.device_get(played.end))
    assert list(tmp_path.iterdir()) == [tmp_path / "game.json"]


@pytest.mark.parametrize(
    "rules",
    [
        Rules(deck=RULES.deck, hand_size=2, start_card="any", first_player="random", max_steps=40, step_penalty=0.5),
        *(Rules.official(), Rules.house(), Rules.rlcard(hand_size=5)),
    ],
)
def test_rules_come_back(rules: Rules):
    game = GameFile(("a", "b"), None, rules, "start", (), "*")
    assert parse_game(game.to_json()) == game


def test_a_game_saved_before_there_were_variants(saved: GameFile):
    """Rules that name only the fields of that time are the default in all others."""
    data = json.loads(saved.to_json())
    first = ("skip_forfeits", "start_card", "hand_size", "deck", "first_player", "max_steps", "step_penalty")
    data["rules"] = {name: data["rules"][name] for name in first}
    game = parse_game(json.dumps(data))
    assert game == saved
    assert format_position(game.replay().end) == saved.end


def test_each_field_has_a_line(saved: GameFile):
    lines = saved.to_json().splitlines()
    assert [line.split(":")[0].strip(' "') for line in lines[1:-1]] == list(json.loads(saved.to_json()))


def test_result_of_a_finished_game():
    start = parse_position("R1/R2,Y0/-/* R0 0 0 0 - *", rules=RULES)
    game = replay.replay(start, "R1", jax.random.key(0))
    assert GameFile.of(game, players=("a", "b"), seed=None).result == "0"


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("format", "unojax game 0", "format must be 'unojax game 1', got 'unojax game 0'"),
        ("rules_version", 99, "played under version 99 of the rules"),
        ("rules", {"deck": []}, "rules must be an object with skip_forfeits"),
        ("players", ["one"], "players must be two texts, got ['one']"),
        ("seed", -1, "seed must be null or in [0, 4294967295], got -1"),
        ("seed", True, "seed must be null"),
        ("actions", "R1", "actions must be a list of texts"),
        ("actions", [1], "actions must be a list of texts"),
        ("start", None, "start must be a position as text, got None"),
        ("end", "", "result is '*', but the end '' says ''"),
        ("result", "1", "result is '1', but the end"),
        ("more", 1, "'more' is unknown; a saved game has format,"),
    ],
)
def test_wrong_fields(saved: GameFile, field: str, value: object, says: str):
    data = json.loads(saved.to_json()) | {field: value}
    with pytest.raises(ValueError, match=re.escape(says)):
        parse_game(json.dumps(data))


@pytest.mark.parametrize(
    ("rule", "value", "says"),
    [
        ("hand_size", 99, "rules: hand_size must be"),
        ("deck", 5, "rules: deck must be a list"),
        ("deck", ["x"], "rules: deck must be 54"),
        ("start_card", [], "rules: start_card must be"),
    ],
)
def test_wrong_rules(saved: GameFile, rule: str, value: object, says: str):
    data = json.loads(saved.to_json())
    data["rules"][rule] = value
    with pytest.raises(ValueError, match=says):
        parse_game(json.dumps(data))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("actions", ["W:Y", "R2"], "action 2: 'R2' is not legal for player 1"),
        ("actions", ["challenge"], "action 1: 'challenge' is not legal for player 0"),
        ("actions", ["W:Y", "Y+2", "draw(R3,R3)"], "action 3: 2 x R3 in cards, but there are only 1|deck holds"),
        ("actions", ["W:Y", "Y+2"], "but the file says that the game ended at"),
        ("actions", ["W:Y", "Y+2", "draw(R3,RS)", "Y0", "draw(YS)"], "but the file says that the game ended at"),
        ("start", "R1", "must have seven fields"),
    ],
)
def test_games_that_do_not_replay(saved: GameFile, field: str, value: object, says: str):
    data = json.loads(saved.to_json()) | {field: value}
    with pytest.raises(ValueError, match=says):
        parse_game(json.dumps(data)).replay()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "it is not text"),
        (b"[]", "no object with"),
        (b'{"turns": []}', "no object with"),
        (b'{"format": "unojax game 1"}', "'actions' is missing"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, says: str):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=says) as complaint:
        read_game(tmp_path / "x.json")
    assert str(tmp_path / "x.json") in str(complaint.value)


def test_no_file(tmp_path: Path):
    with pytest.raises(ValueError, match=r"can't read .*: No such file"):
        read_game(tmp_path / "none.json")
    with pytest.raises(ValueError, match=r"can't read .*: Is a directory"):
        read_game(tmp_path)


def test_names_do_not_command_a_terminal(saved: GameFile, tmp_path: Path):
    """In a file that begins with a byte order mark, as some editors write it."""
    text = json.dumps(json.loads(saved.to_json()) | {"players": ["\x1b]0;title\x07\x1b[2J", "näme"]})
    (tmp_path / "x.json").write_text("\ufeff" + text, encoding="utf-8")
    assert read_game(tmp_path / "x.json").players == (r"\x1b]0;title\x07\x1b[2J", "näme")
