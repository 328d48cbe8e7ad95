"""Whole games: moves in words, the animated picture, the page."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import deck_of
from tests.viz.games import positions, seen_by, trajectories, with_other_hand
from tests.viz.reading import SVG, Reader, cards_in, check_references, lines, parse, part
from unojax import cards
from unojax.game import State
from unojax.games.replay import replay
from unojax.rules import Rules
from unojax.text import format_cards, make_state, parse_position
from unojax.viz import Page, game_html, game_svg
from unojax.viz.moments import read_game
from unojax.viz.scene import read_scene
from unojax.viz.words import CardWord, ColorWord, action_words, move_phrase, move_words, result_words, start_words


def words(states, view=None):
    return [moment.words for moment in read_game(states, None, view)]


def read(*lines, rules=Rules()):
    """Positions, each as text."""
    return [parse_position(line, rules=rules) for line in lines]


def frames_of(page):
    """The pictures of each position of a page, and all pictures."""
    svgs = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    check_references(*svgs)
    return [svg for svg in svgs if part(svg, "pile") is not None], svgs


def test_moves_in_words():
    rules = Rules(deck=deck_of("R1 R2 RS Y1 Y2 W G+2 B4 B5"), hand_size=3)
    states = read(
        "R1,RS,W,B4/Y1,Y2,G+2/-/* R2 0 0 0 - *",
        "R1,W,B4/Y1,Y2,G+2/R2/* RS 0 0 1 RS *",
        "W,B4/Y1,Y2,G+2/R2,RS/* R1 1 0 2 R1 *",
        "W,B4/Y2,G+2/R1,R2,RS/* Y1 0 0 3 Y1 *",
        "B4/Y2,G+2/R1,R2,RS,Y1/* W:G 1 0 4 W:G *",
        "B4/Y2/R1,R2,RS,Y1,W/* G+2 0 2 5 G+2 *",
        "B4,B5,R2/Y2/-/* G+2 1 0 6 draw *",
        "B4,B5,R2/Y2,W/-/* G+2 0 0 7 draw *",
        rules=rules,
    )
    expected = [
        "Red 2 is on top. Player 0 to move.",
        "Player 0 plays red skip, and moves again.",
        "Player 0 plays red 1.",
        "Player 1 plays yellow 1.",
        "Player 0 plays Wild and declares green, one card left.",
        "Player 1 plays green +2, one card left.",
        "Player 0 draws red 2, blue 5 as the penalty; the pile goes back into the deck first.",
        "Player 1 draws Wild, unable to play.",
    ]
    assert words(states) == expected
    expected[7] = "Player 1 draws a card, unable to play."
    assert words(states, view=0) == expected
    expected[6] = "Player 0 draws 2 cards as the penalty; the pile goes back into the deck first."
    assert words(states, view="public") == expected
    expected[7] = "Player 1 draws Wild, unable to play."
    assert words(states, view=1) == words([seen_by(state)[1] for state in states]) == expected
    drawn = [moment.drawn for moment in read_game(states, None, 1)]
    assert drawn == [(frozenset(), frozenset())] * 7 + [(frozenset(), frozenset([cards.WILD_TYPE]))]


def test_a_player_is_spoken_to():
    rules = Rules(deck=deck_of("R1 R2 RS Y1 Y2 W G+2 B4 B5"), hand_size=3)
    states = read(
        "R1,RS,W,B4/Y1,Y2,G+2/-/* R2 0 0 0 - *",
        "R1,W,B4/Y1,Y2,G+2/R2/* RS 0 0 1 RS *",
        "R1,B4/Y1,Y2,G+2/R2,RS/* W:G 1 0 2 W:G *",
        "R1,B4/Y1,Y2,G+2,B5/R2,RS/* W:G 0 0 3 draw *",
        "R1,B4/Y1,Y2,G+2,B5/R2,RS/* W:G 1 0 4 draw *",
        rules=rules,
    )
    scenes = [read_scene(state, 0) for state in states]
    for names, who in ((("you", "the opponent"), "You play"), (("the opponent", "you"), "The opponent plays")):
        said = [move_words(before, after, names) for before, after in pairwise(scenes)]
        assert said[0] == f"{who} red skip, and move{'' if who.startswith('You') else 's'} again."
        assert said[1] == f"{who} Wild and declare{'' if who.startswith('You') else 's'} green."
        assert said[2] == f"{'The opponent draws' if who.startswith('You') else 'You draw'} a card, unable to play."
        assert said[3] == f"{who.rpartition(' ')[0]} can't draw, too few cards are left."
        assert start_words(scenes[0], names) == f"Red 2 is on top. {who.rpartition(' ')[0]} to move."
    won = [read_scene(state) for state in read("R1/Y1,Y2/-/* R2 0 0 4 - *", "-/Y1,Y2/R2/* R1 0 0 5 R1 0")]
    assert move_words(*won, ("you", "the opponent")) == "You play red 1 and win."
    assert move_words(*won, ("the opponent", "you")) == "The opponent plays red 1 and wins."
    with pytest.raises(ValueError, match="the game goes on"):
        result_words(won[0])


def test_a_phrase_keeps_its_cards_and_colours():
    before, after = map(read_scene, read("W+4,R2/Y1/-/* R2 0 0 4 - *", "R2/Y1/R2/* W+4:B 1 4 5 W+4:B *"))
    phrase = move_phrase(before, after, ("uniform", "you"))
    played = ["plays ", CardWord(cards.WILD_DRAW_FOUR_TYPE), " and declares ", ColorWord(cards.BLUE)]
    assert phrase == ["uniform ", *played, ", one card left"]
    assert move_words(before, after, notation=True) == "Player 0 plays W+4 and declares blue, one card left."


def test_the_end_in_words():
    won = read("R1/Y1,Y2/-/* R2 0 0 4 - *", "-/Y1,Y2/R2/* R1 0 0 5 R1 0")
    assert words(won)[1] == "Player 0 plays red 1 and wins."
    rules = Rules(deck=deck_of("R1 Y2 B3"), hand_size=1)
    drawn = read("Y2/B3/-/* R1 0 0 4 - *", "Y2/B3/-/* R1 0 0 5 draw =", rules=rules)
    assert words(drawn)[1] == "Player 0 can't draw, too few cards are left; the game is drawn."
    cut = read("R1,R3/Y1/-/* R2 0 0 4 - *", "R3/Y1/R2/* R1 1 0 5 R1 T", rules=Rules(max_steps=5))
    assert words(cut)[1] == "Player 0 plays red 1, one card left; the game is cut off."
    house = Rules.house(max_steps=2)
    passed = played("R5,R7/Y1,Y2/-/* B9 0 0 0 - *", "draw(B3) draw", house)
    assert words(passed)[2] == "Player 0 passes; the game is cut off."
    laid = played("R5,R7/Y1,Y2/-/* B9 0 0 0 - *", "draw(B3)", Rules.rlcard(max_steps=1))
    assert words(laid)[1] == "Player 0 draws and lays blue 3; the game is cut off."
    few = Rules(play_drawn="auto", deck=deck_of("R1 R2 G3 B4 Y5"), hand_size=1)
    again = played("G3/Y5,B4/R1/0 R2 0 0 0 - *", "draw(R1)", few)
    assert words(again)[1] == "Player 0 draws and lays red 1; the pile goes back into the deck first."
    assert [action_words(action) for action in (-1, 60, 59, 0)] == ["none yet", "draw", "Wild+4, declares green", "red 0"]


def played(start: str, actions: str, rules: Rules) -> list[State]:
    """The positions of a game from a start on."""
    return replay(parse_position(start, rules=rules), actions, jax.random.key(0)).states


def test_one_position_shows_at_a_time():
    for seconds, game in zip((0.5, 1.0), trajectories(), strict=False):
        states = positions(game)
        root = parse(game_svg(game, seconds=seconds))
        frames = [g for g in root.iter(f"{SVG}g") if g.get("data-step")]
        assert len(frames) == len(states)
        assert [f.get("visibility") for f in frames] == [None] + ["hidden"] * (len(states) - 1)
        duration = (len(states) + 3) * seconds
        shown = []
        for state, frame in zip(states, frames, strict=True):
            for player in (0, 1):
                assert sorted(cards_in(part(frame, f"hand-{player}")).elements()) == sorted(
                    format_cards(state.hands[player]).split()
                )
            (animation,) = frame.findall(f"{SVG}animate")
            assert animation.get("dur") == f"{duration:g}s" and animation.get("calcMode") == "discrete"
            times = [float(t) for t in animation.get("keyTimes").split(";")]
            values = animation.get("values").split(";")
            assert times[0] == 0 and times == sorted(times) and len(times) == len(values)
            shown.append([values[np.searchsorted(times, t, side="right") - 1] for t in np.linspace(0.001, 0.999, 997)])
        visible = np.array(shown) == "visible"
        assert (visible.sum(0) == 1).all()
        # In order, and each for a while.
        assert (np.diff(visible.argmax(0)) >= 0).all() and visible.any(1).all()
        assert np.median(visible.mean(1)) == pytest.approx(seconds / duration, abs=0.002)


def test_a_single_position_does_not_move():
    root = parse(game_svg([make_state("R5", "Y0", "B1")]))
    (frame,) = (g for g in root.iter(f"{SVG}g") if g.get("data-step"))
    assert frame.get("visibility") is None and frame.find(f"{SVG}animate") is None


def test_the_page_holds_each_position_and_move():
    game = trajectories()[0]
    states = positions(game)
    page = game_html(game, theme="dark", title="5 < 7 & </script>")
    reader = Reader(page)
    frames, _ = frames_of(page)
    assert len(frames) == len(states)
    assert ["hidden" in a for a in reader.attributes if "data-step" in a] == [False] + [True] * (len(states) - 1)
    for state, frame in zip(states, frames, strict=True):
        for player in (0, 1):
            assert sorted(cards_in(part(frame, f"hand-{player}")).elements()) == sorted(format_cards(state.hands[player]).split())
    moves = words(states)
    assert [said for said in reader.said if said in moves] == moves
    assert reader.said.count("5 < 7 & </script>") == 2
    (slider,) = (a for a in reader.attributes if a[""] == "input")
    assert (slider["min"], slider["max"]) == ("0", str(len(states) - 1))
    # Nothing is loaded from anywhere.
    assert set(re.findall(r"https?://[^\"]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not {"src", "link"} & {key for a in reader.attributes for key in (*a, a[""])}


def test_positions_of_a_game_have_one_size():
    frames, _ = frames_of(game_html(max(trajectories(), key=lambda game: (game.actions >= 0).sum())))
    assert len({frame.get("viewBox") for frame in frames}) == 1


def test_curves_and_beliefs_on_the_page():
    states = positions(trajectories()[1])
    num = len(states)
    beliefs = np.random.default_rng(0).random((num, 54))
    truths = np.stack([s.hands[1] for s in states])
    page = game_html(states, view=0, win_probability=np.full(num, 0.5), entropy=np.arange(num), beliefs=beliefs, truths=truths)
    Reader(page)
    frames, svgs = frames_of(page)
    maps = [svg for svg in svgs if any(e.get("data-prob") for e in svg.iter())]
    assert len(frames) == len(maps) == num and len(svgs) == 2 * num + 2
    for state, belief, picture in zip(states, beliefs, maps, strict=True):
        found = {e.get("data-card"): e for e in picture.iter() if e.get("data-prob")}
        assert [name for name in cards.TYPE_NAMES if found[name].get("data-held")] == sorted(
            set(format_cards(state.hands[1]).split()), key=cards.TYPE_NAMES.index
        )
        np.testing.assert_allclose([float(found[name].get("data-prob")) for name in cards.TYPE_NAMES], belief, atol=1e-4)
    (plot,) = (svg for svg in svgs if any(e.get("class") == "cursor" for e in svg.iter()))
    assert {"Win probability", "Belief entropy (nats)"} <= set(lines(plot))


def test_the_page_speaks_of_curves_where_there_are_some():
    states = positions(trajectories()[1])
    assert "Click a move to go there." in game_html(states)
    assert "Click a move or the curves to go there." in game_html(states, win_probability=np.full(len(states), 0.5))


def test_a_view_of_a_game_shows_nothing_of_what_it_hides():
    num_other = 0
    for game in trajectories()[:3]:
        states = positions(game)
        for viewer in (0, 1):
            others = [with_other_hand(state, 1 - viewer) for state in states]
            num_other += game_html(states) != game_html(others)
            assert game_html(states, view=viewer) == game_html(others, view=viewer)
            assert game_svg(states, view=viewer) == game_svg(others, view=viewer)
    assert num_other == 6


def test_a_trajectory_is_its_positions():
    game = trajectories()[2]
    states = positions(game)
    taken = game.actions[game.actions >= 0]
    assert game_html(game) == game_html(states) == game_html(states, taken) == game_html(states, jnp.asarray(taken))
    assert game_svg(game, view=1) == game_svg(states, taken, view=1)


def test_files(tmp_path):
    states = positions(trajectories()[0])[:3]
    svg, html = tmp_path / "game.svg", tmp_path / "game.html"
    assert game_svg(states, path=svg) == svg.read_text(encoding="utf-8")
    page = game_html(states, path=html)
    assert page == html.read_text(encoding="utf-8") and isinstance(page, Page)
    (frame,) = Reader(page._repr_html_()).attributes
    assert frame[""] == "iframe" and frame["srcdoc"] == page


def batch_of(game):
    return jax.tree.map(lambda leaf: leaf[None], game)


BAD_CALLS = [
    (lambda t, s: game_svg([]), "at least one position"),
    (lambda t, s: game_svg(s[0]), "game must be a Trajectory or a sequence of states or observations, got State"),
    (lambda t, s: game_svg(t.states), "game must be a Trajectory or a sequence"),
    (lambda t, s: game_svg(batch_of(t)), "the trajectory must be of one game"),
    (lambda t, s: game_svg(t, t.actions), "a trajectory has actions of its own"),
    (lambda t, s: game_html(s[:3], [1]), r"actions must be int\[2\], one between each two positions, got shape \(1,\)"),
    (lambda t, s: game_html(s[:2], [int(s[1].last_action) ^ 1]), r"actions\[0\] is .*, but position 1 says"),
    (lambda t, s: game_html([s[0], "R5"]), "position must be an unojax State or Observation, got str"),
    (lambda t, s: game_svg(s, view=3), "view must be 0 or 1"),
    (lambda t, s: game_svg(s, theme="x"), "theme must be one of"),
    (lambda t, s: game_svg(s, seconds=0), "seconds must be a positive number, got 0"),
    (lambda t, s: game_svg(s, seconds="1"), "seconds must be a positive number, got '1'"),
    (lambda t, s: game_svg(s, width=-1), "width must be a positive number"),
    (lambda t, s: game_html(s[:2], entropy=[1.0]), "curves must have 2 values, one for each position, got 1"),
    (lambda t, s: game_html(s[:2], beliefs=np.zeros((3, 54))), "beliefs must be 2, one for each position"),
    (lambda t, s: game_html(s[:2], beliefs=s[0]), "beliefs must be 2, one for each position"),
    (lambda t, s: game_html(s[:2], beliefs=np.zeros((2, 53))), r"belief must be float\[54\]"),
    (lambda t, s: game_html(s[:1], truths=s[0].hands[:1]), "pass beliefs too"),
    (lambda t, s: game_html(s[:1], beliefs=np.zeros((1, 54)), truths=s[0].hands), r"truths must be bool\[1, 108\]"),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS)
def test_bad_arguments(call, message):
    game = trajectories()[0]
    with pytest.raises(ValueError, match=message):
        call(game, positions(game))


def test_scene_keeps_no_hidden_cards():
    state = positions(trajectories()[0])[4]
    assert [hand.types is None for hand in read_scene(state, 0).hands] == [False, True]
    assert [hand.types is None for hand in read_scene(state, "public").hands] == [True, True]
