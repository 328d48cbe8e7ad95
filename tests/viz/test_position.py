"""A picture of a position shows its cards, no more, and so that each can be read."""

from __future__ import annotations

import itertools
from collections import Counter
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.viz.games import positions, seen_by, trajectories, with_other_hand
from tests.viz.reading import SVG, backs_in, cards_in, centre, lines, parse, part
from unojax import cards, legal_mask
from unojax.rules import Rules
from unojax.text import format_action, format_cards, make_state, parse_action, parse_position
from unojax.viz import Picture, position_svg
from unojax.viz.card import BACK, CORNER_HEIGHT, CORNER_WIDTH, HEIGHT, WIDTH, definitions
from unojax.viz.theme import DARK, LIGHT, get_theme


def some_positions():
    """Every seventh position of all games, and the last ones."""
    for game in trajectories():
        states = positions(game)
        yield from states[::7]
        yield states[-1]


def test_the_right_cards_lie_in_the_right_places():
    num_over = 0
    for state in some_positions():
        num_over += bool(state.terminated)
        for view, theme in ((None, "light"), (0, "dark"), (1, "light"), ("public", "dark")):
            root = parse(position_svg(state, view=view, theme=theme))
            for player in (0, 1):
                hand = part(root, f"hand-{player}")
                names = Counter(format_cards(state.hands[player]).split())
                is_open = view in (None, player)
                assert cards_in(hand) == (names if is_open else Counter())
                assert backs_in(hand) == (0 if is_open else names.total())
            top = format_action(int(state.color) * 15 + int(state.top_rank)).partition(":")[0]
            assert cards_in(part(root, "pile")) == Counter([top])
            assert part(root, "pile").get("data-count") == str(state.pile.sum())
            assert part(root, "deck").get("data-count") == str(state.deck.sum())
    assert num_over > 2


def test_a_view_shows_nothing_of_what_it_hides():
    num_other = 0
    for state in some_positions():
        for viewer in (0, 1):
            other = with_other_hand(state, 1 - viewer)
            num_other += format_cards(other.hands[1 - viewer]) != format_cards(state.hands[1 - viewer])
            assert position_svg(state, view=viewer) == position_svg(other, view=viewer)
            assert position_svg(state) != position_svg(other) or format_cards(other.hands[1 - viewer]) == format_cards(
                state.hands[1 - viewer]
            )
        both = with_other_hand(with_other_hand(state, 0), 1)
        assert position_svg(state, view="public") == position_svg(both, view="public")
    assert num_other > 50


def test_an_observation_looks_like_its_players_view():
    for state in some_positions():
        for player, seen in enumerate(seen_by(state)):
            picture, same = parse(position_svg(seen)), parse(position_svg(state, view=player))
            for place in ("hand-0", "hand-1", "pile", "deck"):
                one, other = part(picture, place), part(same, place)
                assert (one is None) == (other is None)
                assert one is None or ElementTree.tostring(one) == ElementTree.tostring(other)
            steps = [f"step {state.step_count}"]
            assert lines(picture) == [line for line in lines(same) if [line] != steps]


@pytest.mark.parametrize("num", [1, 2, 7, 15, 25, 27, 28, 40, 90])
@pytest.mark.parametrize("player", [0, 1])
def test_cards_of_a_hand_can_be_told_apart(num, player):
    names = [cards.TYPE_NAMES[t] for t in np.repeat(np.arange(cards.NUM_TYPES), cards.COPIES)]
    names.remove("G5")
    # The hand is as mixed as can be, which shows that it is sorted.
    hands = [" ".join(names[::-1][:num]), names[0]]
    state = make_state(*hands[:: 1 if player == 0 else -1], "G5")
    root = parse(position_svg(state))
    height = float(root.get("viewBox").split()[3])
    placed = [e for e in part(root, f"hand-{player}") if e.get("data-card")]
    assert len(placed) == num
    spots = [centre(card) for card in placed]
    for x, y in spots:
        assert WIDTH / 2 + 10 < x < 700 - WIDTH / 2 - 10 and HEIGHT / 2 + 5 < y < height - HEIGHT / 2 - 5
    for (x, y), (next_x, next_y) in itertools.pairwise(spots):
        assert next_x - x >= CORNER_WIDTH or (next_y - y >= CORNER_HEIGHT - 1e-6 and next_x < x)
    types = [cards.TYPE_NAMES.index(card.get("data-card")) for card in placed]
    assert types == sorted(types)


def test_every_face_differs_and_bears_its_sign_and_colour():
    faces = {}
    for card_type in [*range(cards.NUM_TYPES), BACK]:
        face = ElementTree.fromstring(definitions([card_type]))[0]
        written = [e.text for e in face.iter("text")]
        faces[ElementTree.tostring(face).split(b">", 1)[1]] = card_type
        if card_type == BACK:
            assert written == []
            continue
        color, rank = int(cards.COLOR_OF_TYPE[card_type]), int(cards.RANK_OF_TYPE[card_type])
        if color >= 0:
            assert written.count(cards.COLOR_LETTERS[color]) == 2
        if rank < 10 or rank >= cards.DRAW_TWO:
            assert written.count(cards.RANK_NAMES[rank].removeprefix("W") or "W") >= 2
    assert len(faces) == cards.NUM_TYPES + 1


def test_what_is_said_about_a_position():
    declared = make_state("R5", "Y0", "W", color="green", pile="R7", player=1)
    assert {"Player 1 to move", "green declared", "last move: none yet", "deck 104", "pile 2"} <= set(
        lines(parse(position_svg(declared)))
    )
    penalty = parse_position("B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 8 R+2 *")
    said = lines(parse(position_svg(penalty, theme="dark")))
    assert {"Player 1 must draw 2", "must draw 2", "last move: red +2", "red", "step 8"} <= set(said)
    wild = parse_position("B7,W/Y0,G4/R5,Y5/* W+4:B 0 4 9 W+4:B *")
    assert {"last move: Wild+4, declares blue", "blue declared", "must draw 4"} <= set(lines(parse(position_svg(wild))))
    won = parse_position("-/Y0,G4,W+4/R5,Y5/* G2 0 0 9 G2 0")
    assert {"Player 0 wins", "wins", "0 cards", "3 cards"} <= set(lines(parse(position_svg(won))))
    assert "Player 0 wins" in lines(parse(position_svg(seen_by(won)[1])))
    one_left = lines(parse(position_svg(declared)))
    assert one_left.count("1 card") == 2 and "to move" in one_left
    cut = parse_position("B7/Y0/-/* R1 1 0 3 R1 T", rules=Rules(max_steps=3))
    assert "The game is cut off" in lines(parse(position_svg(cut)))


def test_drawn_game_and_empty_deck():
    rules = Rules(deck=tuple(1 if name in ("R1", "B2", "G3") else 0 for name in cards.TYPE_NAMES), hand_size=1)
    drawn = parse_position("B2/G3/-/* R1 0 0 0 - =", rules=rules)
    root = parse(position_svg(drawn))
    assert "The game is drawn" in lines(root) and "deck 0" in lines(root)
    assert backs_in(root) == 0 and not {"wins", "to move"} & set(lines(root))


def test_legal_cards_stand_out():
    state = make_state("R5 Y7 B2 W", "R1 R2", "R+2", pile="G9")
    heights = {}
    mask = np.zeros(cards.NUM_ACTIONS, bool)
    mask[[parse_action(action) for action in "R5 W:R W:Y W:B W:G".split()]] = True
    for legal in (None, jnp.asarray(mask)):
        placed = part(parse(position_svg(state, legal=legal)), "hand-0")
        heights[legal is None] = {card.get("data-card"): centre(card)[1] for card in placed if card.get("data-card")}
    lifts = {name: heights[True][name] - heights[False][name] for name in heights[True]}
    assert {name for name, lift in lifts.items() if lift > 5} == {"R5", "W"}
    assert lifts["Y7"] == lifts["B2"] == 0


def test_a_mask_with_challenges_is_taken():
    state = make_state("R5 Y7", "R1", "R+2", rules=Rules.official())
    assert position_svg(state, legal=legal_mask(state)) != position_svg(state)
    with pytest.raises(ValueError, match=r"legal must be bool\[62\]"):
        position_svg(state, legal=np.ones(61, bool))


def test_what_is_due_is_said_as_far_as_it_is_known():
    """Nobody must draw where the rules let a penalty be answered."""
    house, official = Rules.house(), Rules.official()
    both = Rules.official(stacking=True)
    for rules, top, penalty, contested, must in (
        (house, "R+2", 4, -1, False),
        (official, "R+2", 2, -1, True),
        (official, "W+4:R", 4, 1, False),
        (official, "W+4:R", 6, -1, True),
        (both, "R+2", 2, -1, False),
        (both, "W+4:R", 4, 1, False),
        (both, "W+4:R", 6, -1, True),
    ):
        color, rank = divmod(parse_action(top), cards.NUM_RANKS)
        changes = {"penalty": penalty, "contested": contested, "top_rank": rank, "color": color}
        state = make_state("R5", "Y0", "R1", rules=rules).replace(**{name: np.int8(value) for name, value in changes.items()})
        said = set(lines(parse(position_svg(state))))
        due = f"must draw {penalty}" if must else f"{penalty} to draw"
        assert {due, f"Player 0 {due}" if must else f"Player 0 to move, {due}"} <= said


def test_the_frame_has_the_active_colour():
    fills = set()
    for color in cards.COLOR_NAMES:
        root = parse(position_svg(make_state("R5", "Y0", "W+4", color=color)))
        (frame,) = (e for e in root.iter(f"{SVG}rect") if e.get("data-color"))
        assert frame.get("data-color") == color
        fills.add(frame.get("fill"))
    assert len(fills) == 4


def test_size_and_file(tmp_path):
    state = make_state("R5", "Y0", "B1")
    path = tmp_path / "position.svg"
    picture = position_svg(state, width=350, path=path)
    assert path.read_text(encoding="utf-8") == picture and isinstance(picture, Picture)
    root = parse(picture)
    assert root.get("width") == "350" and float(root.get("viewBox").split()[2]) == 700
    assert picture._repr_svg_() == picture
    assert root.find(f"{SVG}title").text == "UNO: B1 on top, player 0 to move, player 0 holds 1 card, player 1 holds 1 card"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"view": 2}, "view must be 0 or 1"),
        ({"view": True}, "view must be 0 or 1"),
        ({"view": "both"}, "view must be 0 or 1"),
        ({"theme": "blue"}, "theme must be one of 'light', 'dark', got 'blue'"),
        ({"width": 0}, "width must be a positive number"),
        ({"width": float("inf")}, "width must be a positive number, got inf"),
        ({"width": float("nan")}, "width must be a positive number"),
        ({"legal": np.ones(60, bool)}, r"legal must be bool\[61\]"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        position_svg(make_state("R5", "Y0", "B1"), **arguments)


def test_bad_positions():
    state = make_state("R5", "Y0", "B1")
    batch = jax.tree.map(lambda x: np.stack([x, x]), state)
    for position, message in [
        (batch, r"state must be a single one, with hands of shape \(2, 108\), got \(2, 2, 108\)"),
        (seen_by(state)[0].replace(hand=batch.deck), "observation must be a single one"),
        (state.replace(color=np.int8(4)), r"color must be a number in \[0, 3\]"),
        (state.replace(deck=np.zeros(108, np.int8)), r"deck must be bool\[108\]"),
        ("R5", "must be an unojax State or Observation, got str"),
    ]:
        with pytest.raises(ValueError, match=message):
            position_svg(position)
    with pytest.raises(ValueError, match="an observation has one of its own"):
        position_svg(seen_by(state)[0], view=0)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_text_has_contrast(theme):
    from unojax.viz.belief import contrast

    assert get_theme(theme.name) is theme
    for ground in (theme.panel, theme.field):
        assert contrast(theme.text, ground) >= 7 and contrast(theme.dim, ground) >= 4.5
        assert contrast(theme.truth, ground) >= 3 and all(contrast(line, ground) >= 3 for line in theme.series)
    assert contrast(theme.on_accent, theme.accent) >= 4.5 and contrast(theme.on_alarm, theme.alarm) >= 4.5
