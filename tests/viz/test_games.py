"""Whole games: the moves in words, the animated picture, the page."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from tests.helpers import deck_of, refusals
from tests.viz.games import games, jitted_observe, trajectory, with_other_hand
from tests.viz.reading import SVG, Reader, cards_in, check_references, lines, parse, part
from unojax import cards
from unojax.rules import Rules
from unojax.text import format_cards, make_state, parse_position
from unojax.viz import Page, game_html, game_svg
from unojax.viz.moments import read_game
from unojax.viz.scene import read_scene
from unojax.viz.words import CardWord, ColorWord, action_words, move_phrase, move_words, result_words, start_words

FEW = Rules(deck=deck_of("R1 R2 RS Y1 Y2 W G+2 B4 B5"), hand_size=3)


def words(states, view=None):
    return [moment.words for moment in read_game(states, None, view)]


def read(*lines, rules=Rules()):
    """Read positions from text."""
    return [parse_position(line, rules=rules) for line in lines]


MOVES = [
    ("R1,RS,W,B4/Y1,Y2,G+2/-/* R2 0 0 0 - *", "Red 2 is on top. Player 0 to move."),
    ("R1,W,B4/Y1,Y2,G+2/R2/* RS 0 0 1 RS *", "Player 0 plays red skip, and moves again."),
    ("W,B4/Y1,Y2,G+2/R2,RS/* R1 1 0 2 R1 *", "Player 0 plays red 1."),
    ("W,B4/Y2,G+2/R1,R2,RS/* Y1 0 0 3 Y1 *", "Player 1 plays yellow 1."),
    ("B4/Y2,G+2/R1,R2,RS,Y1/* W:G 1 0 4 W:G *", "Player 0 plays Wild and declares green, one card left."),
    ("B4/Y2/R1,R2,RS,Y1,W/* G+2 0 2 5 G+2 *", "Player 1 plays green +2, one card left."),
    (
        "B4,B5,R2/Y2/-/* G+2 1 0 6 draw *",
        "Player 0 draws red 2, blue 5 as the penalty; the pile goes back into the deck first.",
    ),
    ("B4,B5,R2/Y2,W/-/* G+2 0 0 7 draw *", "Player 1 draws Wild, unable to play."),
]


def test_moves_in_words_name_the_cards_that_the_viewer_sees():
    states, expected = read(*(line for line, _ in MOVES), rules=FEW), [said for _, said in MOVES]
    assert words(states) == expected
    expected[7] = "Player 1 draws a card, unable to play."
    assert words(states, view=0) == expected
    # A player may be addressed.
    to_you = {"Player 1": "The opponent", "Player 0": "You", "You plays": "You play", "You draws": "You draw"}
    to_you |= {"declares": "declare", "and moves": "and move"}
    scenes, names = [read_scene(state, 0) for state in states], ("you", "the opponent")
    for number, said in enumerate([start_words(scenes[0], names), *(move_words(*pair, names) for pair in pairwise(scenes))]):
        for words_of_player, words_to_player in to_you.items():
            expected[number] = expected[number].replace(words_of_player, words_to_player)
        assert said == expected[number]
    expected = [said for _, said in MOVES]
    expected[6] = "Player 0 draws 2 cards as the penalty; the pile goes back into the deck first."
    assert words(states, view=1) == words([jitted_observe(state, np.int8(1)) for state in states]) == expected
    expected[7] = "Player 1 draws a card, unable to play."
    assert words(states, view="public") == expected
    drawn = [moment.drawn for moment in read_game(states, None, 1)]
    assert drawn == [(frozenset(), frozenset())] * 7 + [(frozenset(), frozenset([cards.WILD_TYPE]))]


def test_a_phrase_keeps_its_cards_and_colours():
    before, after = map(read_scene, read("W+4,R2/Y1/-/* R2 0 0 4 - *", "R2/Y1/R2/* W+4:B 1 4 5 W+4:B *"))
    phrase = move_phrase(before, after, ("uniform", "you"))
    played = ["plays ", CardWord(cards.WILD_DRAW_FOUR_TYPE), " and declares ", ColorWord(cards.BLUE)]
    assert phrase == ["uniform ", *played, ", one card left"]
    assert move_words(before, after, notation=True) == "Player 0 plays W+4 and declares blue, one card left."
    assert [action_words(action) for action in (-1, 60, 59, 0)] == ["none yet", "draw", "Wild+4, declares green", "red 0"]


def test_the_end_and_draws_in_words():
    three, five = (Rules(deck=deck_of(deck), hand_size=1) for deck in ("R1 Y2 B3", "R1 R2 G3 B4 Y5"))
    laid, house = replace(five, play_drawn="auto"), Rules.house(max_steps=2)
    won = [read_scene(state) for state in read("R1/Y1,Y2/-/* R2 0 0 4 - *", "-/Y1,Y2/R2/* R1 0 0 5 R1 0")]
    assert move_words(*won, ("you", "the opponent")) == "You play red 1 and win."
    assert move_words(*won, ("the opponent", "you")) == "The opponent plays red 1 and wins."
    refusals({"the game is not over": lambda: result_words(won[0])})
    for rules, before, after, said in [
        (Rules(), "R1/Y1,Y2/-/* R2 0 0 4 - *", "-/Y1,Y2/R2/* R1 0 0 5 R1 0", "plays red 1 and wins"),
        (three, "Y2/B3/-/* R1 0 0 4 - *", "Y2/B3/-/* R1 0 0 5 draw =", "can't draw, too few cards are left; the game is drawn"),
        (
            Rules(max_steps=5),
            "R1,R3/Y1/-/* R2 0 0 4 - *",
            "R3/Y1/R2/* R1 1 0 5 R1 T",
            "plays red 1, one card left; the game is cut off",
        ),
        (house, "R5,B3/Y1,Y2/-/* B9 0+B3 0 1 draw *", "R5,B3/Y1,Y2/-/* B9 1 0 2 draw T", "passes; the game is cut off"),
        (
            Rules.rlcard(max_steps=1),
            "R5,R7/Y1,Y2/-/* B9 0 0 0 - *",
            "R5,R7/Y1,Y2/B9/* B3 1 0 1 draw T",
            "draws and lays blue 3; the game is cut off",
        ),
        (
            laid,
            "G3/Y5,B4/R1/0 R2 0 0 0 - *",
            "G3/Y5,B4/R2/0 R1 1 0 1 draw *",
            "draws and lays red 1; the pile goes back into the deck first",
        ),
    ]:
        assert words(read(before, after, rules=rules))[1] == f"Player 0 {said}."


def held(frame):
    """Return the names of the cards in both hands of a picture, sorted."""
    return [sorted(cards_in(part(frame, f"hand-{player}")).elements()) for player in (0, 1)]


def hands_of(state):
    return [sorted(format_cards(hand).split()) for hand in state.hands]


def test_one_position_shows_at_a_time():
    for seconds, states in zip((0.5, 1.0), games(), strict=False):
        root, shown = parse(game_svg(states, seconds=seconds)), []
        frames = [g for g in root.iter(f"{SVG}g") if g.get("data-step")]
        assert [held(frame) for frame in frames] == [hands_of(state) for state in states]
        assert [f.get("visibility") for f in frames] == [None] + ["hidden"] * (len(states) - 1)
        duration = (len(states) + 3) * seconds
        for frame in frames:
            (animation,) = frame.findall(f"{SVG}animate")
            assert animation.get("dur") == f"{duration:g}s" and animation.get("calcMode") == "discrete"
            times = [float(t) for t in animation.get("keyTimes").split(";")]
            values = animation.get("values").split(";")
            assert times[0] == 0 and times == sorted(times) and len(times) == len(values)
            shown.append([values[np.searchsorted(times, t, side="right") - 1] for t in np.linspace(0.001, 0.999, 997)])
        visible = np.array(shown) == "visible"
        # In order, and each for a while.
        assert (visible.sum(0) == 1).all() and (np.diff(visible.argmax(0)) >= 0).all() and visible.any(1).all()
        assert np.median(visible.mean(1)) == pytest.approx(seconds / duration, abs=0.002)
    (frame,) = (g for g in parse(game_svg([make_state("R5", "Y0", "B1")])).iter(f"{SVG}g") if g.get("data-step"))
    assert frame.get("visibility") is None and frame.find(f"{SVG}animate") is None


def frames_of(page):
    """Return the pictures of the positions of a page, and all its pictures."""
    svgs = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    check_references(*svgs)
    return [svg for svg in svgs if part(svg, "pile") is not None], svgs


def test_the_page_holds_each_position_and_move_and_loads_nothing():
    states = games()[3]
    page = game_html(states, theme="dark", title="5 < 7 & </script>")
    reader, (frames, _) = Reader(page), frames_of(page)
    assert [held(frame) for frame in frames] == [hands_of(state) for state in states]
    assert ["hidden" in a for a in reader.attributes if "data-step" in a] == [False] + [True] * (len(states) - 1)
    moves = words(states)
    assert [said for said in reader.said if said in moves] == moves
    assert reader.said.count("5 < 7 & </script>") == 2 and "Click a move to go there." in page
    (slider,) = (a for a in reader.attributes if a[""] == "input")
    assert (slider["min"], slider["max"]) == ("0", str(len(states) - 1))
    assert set(re.findall(r"https?://[^\"]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not {"src", "link"} & {key for a in reader.attributes for key in (*a, a[""])}
    # All pictures have one size, also where a hand grows to two rows.
    longest = max(games(), key=lambda states: max(state.hands.sum(-1).max() for state in states))
    assert len({frame.get("viewBox") for frame in frames_of(game_html(longest))[0]}) == 1


def test_curves_and_beliefs_on_the_page():
    states = games()[1]
    num = len(states)
    beliefs, truths = np.random.default_rng(0).random((num, 54)), np.stack([s.hands[1] for s in states])
    page = game_html(states, view=0, win_probability=np.full(num, 0.5), entropy=np.arange(num), beliefs=beliefs, truths=truths)
    Reader(page)
    frames, svgs = frames_of(page)
    maps = [svg for svg in svgs if any(e.get("data-prob") for e in svg.iter())]
    assert len(frames) == len(maps) == num and len(svgs) == 2 * num + 2 and "Click a move or the curves to go there." in page
    for state, belief, picture in zip(states, beliefs, maps, strict=True):
        found = {e.get("data-card"): e for e in picture.iter() if e.get("data-prob")}
        assert {name for name in cards.TYPE_NAMES if found[name].get("data-held")} == set(format_cards(state.hands[1]).split())
        np.testing.assert_allclose([float(found[name].get("data-prob")) for name in cards.TYPE_NAMES], belief, atol=1e-4)
    (plot,) = (svg for svg in svgs if any(e.get("class") == "cursor" for e in svg.iter()))
    assert {"Win probability", "Belief entropy (nats)"} <= set(lines(plot))


def test_a_view_of_a_game_shows_nothing_of_what_it_hides():
    for states in games()[1:4]:
        for viewer in (0, 1):
            others = [with_other_hand(state, 1 - viewer) for state in states]
            assert game_html(states) != game_html(others)
            assert game_html(states, view=viewer) == game_html(others, view=viewer)
            assert game_svg(states, view=viewer) == game_svg(others, view=viewer)
    for view, hidden in ((0, [False, True]), ("public", [True, True])):
        assert [hand.types is None for hand in read_scene(games()[0][4], view).hands] == hidden


def test_a_trajectory_is_its_positions():
    states = games()[2]
    game, taken = trajectory(states), [int(state.last_action) for state in states[1:]]
    assert game_html(jax.device_put(game)) == game_html(states) == game_html(states, np.array(taken))
    assert game_svg(game, view=1) == game_svg(states, taken, view=1)


def test_files_and_frames_in_a_notebook(tmp_path):
    states, svg, html = games()[0][:3], tmp_path / "game.svg", tmp_path / "game.html"
    assert game_svg(states, path=svg) == svg.read_text(encoding="utf-8")
    page = game_html(states, path=html)
    assert page == html.read_text(encoding="utf-8") and isinstance(page, Page)
    (frame,) = Reader(page._repr_html_()).attributes
    assert frame[""] == "iframe" and frame["srcdoc"] == page


def test_refusals():
    s = games()[0]
    t = trajectory(s)
    batch = jax.tree.map(lambda leaf: leaf[None], t)
    refusals(
        {
            "at least one position": lambda: game_svg([]),
            "game must be a Trajectory (a state)": lambda: game_svg(s[0]),
            "game must be a Trajectory (a batch of states)": lambda: game_svg(t.states),
            "the trajectory must be of one game": lambda: game_svg(batch),
            "leave actions out": lambda: game_svg(t, t.actions),
            "actions must be int[2]": lambda: game_html(s[:3], [1]),
            "actions[0]": lambda: game_html(s[:2], [int(s[1].last_action) ^ 1]),
            "position": lambda: game_html([s[0], "R5"]),
            "view": lambda: game_svg(s, view=3),
            "theme": lambda: game_svg(s, theme="x"),
            "seconds": lambda: game_svg(s, seconds=0),
            "seconds (text)": lambda: game_svg(s, seconds="1"),
            "width": lambda: game_svg(s, width=-1),
            "curves": lambda: game_html(s[:2], entropy=[1.0]),
            "notes": lambda: game_html(s[:2], notes=[""]),
            "beliefs (three)": lambda: game_html(s[:2], beliefs=np.zeros((3, 54))),
            "beliefs (a state)": lambda: game_html(s[:2], beliefs=s[0]),
            "belief must be float[54]": lambda: game_html(s[:2], beliefs=np.zeros((2, 53))),
            "pass beliefs too": lambda: game_html(s[:1], truths=s[0].hands[:1]),
            "truths must be bool[1, 108]": lambda: game_html(s[:1], beliefs=np.zeros((1, 54)), truths=s[0].hands),
            "types": lambda: game_html(s[:1], beliefs=np.zeros((1, 54)), types=[{}, {}]),
        }
    )
