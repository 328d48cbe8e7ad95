"""Pictures of a position: only the viewer's cards, each readable."""

from __future__ import annotations

import itertools
from collections import Counter
from xml.etree import ElementTree

import jax
import numpy as np

from tests.helpers import deck_of, jitted_mask, refusals
from tests.viz.games import jitted_observe, some_positions, with_other_hand
from tests.viz.reading import SVG, backs_in, cards_in, centre, lines, parse, part
from unojax import cards
from unojax.rules import Rules
from unojax.text import format_action, format_cards, make_state, parse_action, parse_position
from unojax.viz import Picture, position_svg
from unojax.viz.belief import contrast
from unojax.viz.card import BACK, CORNER_HEIGHT, CORNER_WIDTH, HEIGHT, WIDTH, definitions
from unojax.viz.theme import DARK, LIGHT, get_theme


def test_the_right_cards_lie_in_the_right_places():
    num_over = 0
    for state in some_positions():
        num_over += bool(state.terminated)
        for view, theme in ((None, "light"), (0, "dark"), (1, "light"), ("public", "dark")):
            root = parse(position_svg(state, view=view, theme=theme))
            for player in (0, 1):
                hand, names = part(root, f"hand-{player}"), Counter(format_cards(state.hands[player]).split())
                is_open = view in (None, player)
                assert cards_in(hand) == (names if is_open else Counter())
                assert backs_in(hand) == (0 if is_open else names.total())
            top = format_action(int(state.color) * 15 + int(state.top_rank)).partition(":")[0]
            assert cards_in(part(root, "pile")) == Counter([top])
            assert part(root, "pile").get("data-count") == str(state.pile.sum())
            assert part(root, "deck").get("data-count") == str(state.deck.sum())
    assert num_over > 2


def test_no_picture_depends_on_what_it_hides_and_an_observation_looks_like_its_players_view():
    num_other = 0
    for state in some_positions():
        for viewer in (0, 1):
            other, picture = with_other_hand(state, 1 - viewer), position_svg(state, view=viewer)
            is_other = bool((other.hands != state.hands).any())
            num_other += is_other
            assert picture == position_svg(other, view=viewer)
            assert (position_svg(state) != position_svg(other)) == is_other
            seen, same = parse(position_svg(jitted_observe(state, np.int8(viewer)))), parse(picture)
            for place in ("hand-0", "hand-1", "pile", "deck"):
                one, two = part(seen, place), part(same, place)
                assert (one is None) == (two is None) and (one is None or ElementTree.tostring(one) == ElementTree.tostring(two))
            assert lines(seen) == [line for line in lines(same) if line != f"step {state.step_count}"]
        both = with_other_hand(with_other_hand(state, 0), 1)
        assert position_svg(state, view="public") == position_svg(both, view="public")
    assert num_other > 50


def test_cards_of_a_hand_can_be_told_apart():
    """Sorted, within the picture, with visible corners."""
    names = [cards.TYPE_NAMES[t] for t in np.repeat(np.arange(cards.NUM_TYPES), cards.COPIES)]
    names.remove("G5")
    for player, num in itertools.product((0, 1), (1, 2, 7, 15, 25, 27, 28, 40, 90)):
        hands = [" ".join(names[::-1][:num]), names[0]]
        root = parse(position_svg(make_state(*hands[:: 1 - 2 * player], "G5")))
        height = float(root.get("viewBox").split()[3])
        placed = [e for e in part(root, f"hand-{player}") if e.get("data-card")]
        spots = [centre(card) for card in placed]
        assert len(placed) == num
        for x, y in spots:
            assert WIDTH / 2 + 10 < x < 700 - WIDTH / 2 - 10 and HEIGHT / 2 + 5 < y < height - HEIGHT / 2 - 5, (player, num)
        for (x, y), (next_x, next_y) in itertools.pairwise(spots):
            assert next_x - x >= CORNER_WIDTH or (next_y - y >= CORNER_HEIGHT - 1e-6 and next_x < x), (player, num)
        types = [cards.TYPE_NAMES.index(card.get("data-card")) for card in placed]
        assert types == sorted(types)


def test_every_face_differs_and_bears_its_sign_and_colour():
    faces = set()
    for card_type in [*range(cards.NUM_TYPES), BACK]:
        face = ElementTree.fromstring(definitions([card_type]))[0]
        written = [e.text for e in face.iter("text")]
        faces.add(ElementTree.tostring(face).split(b">", 1)[1])
        if card_type == BACK:
            assert written == []
            continue
        color, rank = int(cards.COLOR_OF_TYPE[card_type]), int(cards.RANK_OF_TYPE[card_type])
        if color >= 0:
            assert written.count(cards.COLOR_LETTERS[color]) == 2
        if rank < 10 or rank >= cards.DRAW_TWO:
            assert written.count(cards.RANK_NAMES[rank].removeprefix("W") or "W") >= 2
    assert len(faces) == cards.NUM_TYPES + 1


def test_what_a_picture_says():
    """The player to move, the penalty, the last move and the result."""
    few = Rules(deck=deck_of("R1 B2 G3"), hand_size=1)
    for state, said in [
        (
            make_state("R5", "Y0", "W", color="green", pile="R7", player=1),
            {"Player 1 to move", "to move", "1 card", "green declared", "last move: none yet", "deck 104", "pile 2"},
        ),
        (
            parse_position("B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 8 R+2 *"),
            {"Player 1 must draw 2", "must draw 2", "last move: red +2", "red", "step 8"},
        ),
        (
            parse_position("B7,W/Y0,G4/R5,Y5/* W+4:B 0 4 9 W+4:B *"),
            {"last move: Wild+4, declares blue", "blue declared", "must draw 4"},
        ),
        (parse_position("-/Y0,G4,W+4/R5,Y5/* G2 0 0 9 G2 0"), {"Player 0 wins", "wins", "0 cards", "3 cards"}),
        (parse_position("B7/Y0/-/* R1 1 0 3 R1 T", rules=Rules(max_steps=3)), {"The game is cut off"}),
        (parse_position("B2/G3/-/* R1 0 0 0 - =", rules=few), {"The game is drawn", "deck 0"}),
    ]:
        picture = position_svg(state, theme="dark")
        assert said <= set(lines(picture)), said - set(lines(picture))
        assert ("to move" in lines(picture)) == ("to move" in said) and ("wins" in lines(picture)) == ("wins" in said)
        assert (backs_in(parse(picture)) > 0) == (state.deck.sum() > 0)
        if state.winner == 0:
            assert "Player 0 wins" in lines(position_svg(jitted_observe(state, np.int8(1))))


def test_a_penalty_must_be_drawn_unless_a_card_or_a_challenge_may_answer_it():
    stacking = Rules.official(stacking=True)
    for rules, top, penalty, contested, must in (
        (Rules.house(), "R+2", 4, -1, False),
        (Rules.official(), "R+2", 2, -1, True),
        (Rules.official(), "W+4:R", 4, 1, False),
        (Rules.official(), "W+4:R", 6, -1, True),
        (stacking, "R+2", 2, -1, False),
        (stacking, "W+4:R", 4, 1, False),
        (stacking, "W+4:R", 6, -1, True),
    ):
        color, rank = divmod(parse_action(top), cards.NUM_RANKS)
        changes = {"penalty": penalty, "contested": contested, "top_rank": rank, "color": color}
        state = make_state("R5", "Y0", "R1", rules=rules).replace(**{name: np.int8(value) for name, value in changes.items()})
        due = f"must draw {penalty}" if must else f"{penalty} to draw"
        said = {due, f"Player 0 {due}" if must else f"Player 0 to move, {due}"}
        assert said <= set(lines(position_svg(state))), (rules.name, top, penalty)


def test_legal_cards_stand_out():
    state, heights = make_state("R5 Y7 B2 W", "R1 R2", "R+2", pile="G9"), {}
    for legal in (None, np.asarray(jitted_mask(state))):
        placed = part(parse(position_svg(state, legal=legal)), "hand-0")
        heights[legal is None] = {card.get("data-card"): centre(card)[1] for card in placed if card.get("data-card")}
    lifts = {name: heights[True][name] - heights[False][name] for name in heights[True]}
    assert {name for name, lift in lifts.items() if lift > 5} == {"R5", "W"} and lifts["Y7"] == lifts["B2"] == 0
    official = make_state("R5 Y7", "R1", "R+2", rules=Rules.official())
    assert position_svg(official, legal=np.arange(62) < 20) != position_svg(official)


def test_the_frame_has_the_active_colour():
    fills = set()
    for color in cards.COLOR_NAMES:
        root = parse(position_svg(make_state("R5", "Y0", "W+4", color=color)))
        (frame,) = (e for e in root.iter(f"{SVG}rect") if e.get("data-color"))
        assert frame.get("data-color") == color
        fills.add(frame.get("fill"))
    assert len(fills) == 4


def test_size_file_and_title(tmp_path):
    path = tmp_path / "position.svg"
    picture = position_svg(make_state("R5", "Y0", "B1"), width=350, path=path)
    assert path.read_text(encoding="utf-8") == picture and isinstance(picture, Picture) and picture._repr_svg_() == picture
    root = parse(picture)
    assert root.get("width") == "350" and float(root.get("viewBox").split()[2]) == 700
    assert root.find(f"{SVG}title").text == "UNO: B1 on top, player 0 to move, player 0 holds 1 card, player 1 holds 1 card"


def test_refusals():
    state, official = make_state("R5", "Y0", "B1"), make_state("R5 Y7", "R1", "R+2", rules=Rules.official())
    seen, batch = jitted_observe(state, np.int8(0)), jax.tree.map(lambda x: np.stack([x, x]), state)
    refusals(
        {
            f"{name} ({value})": lambda name=name, value=value: position_svg(state, **{name: value})
            for name, value in [
                *(("view", view) for view in (2, True, "both")),
                *(("width", width) for width in (0, float("inf"), float("nan"))),
                ("theme", "blue"),
                ("legal", np.ones(60, bool)),
            ]
        }
        | {
            "legal must be bool[62]": lambda: position_svg(official, legal=np.ones(61, bool)),
            "view (of an observation)": lambda: position_svg(seen, view=0),
            "state (a batch)": lambda: position_svg(batch),
            "observation": lambda: position_svg(seen.replace(hand=batch.deck)),
            "color": lambda: position_svg(state.replace(color=np.int8(4))),
            "deck": lambda: position_svg(state.replace(deck=np.zeros(108, np.int8))),
            "position": lambda: position_svg("R5"),
        }
    )


def test_texts_lines_and_marks_have_contrast():
    for theme in (LIGHT, DARK):
        assert get_theme(theme.name) is theme
        for ground in (theme.panel, theme.field):
            assert contrast(theme.text, ground) >= 7 and contrast(theme.dim, ground) >= 4.5
            assert contrast(theme.truth, ground) >= 3 and all(contrast(line, ground) >= 3 for line in theme.series)
        assert contrast(theme.on_accent, theme.accent) >= 4.5 and contrast(theme.on_alarm, theme.alarm) >= 4.5
