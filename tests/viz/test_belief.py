"""The heat map of a belief: its probabilities, its places, the true hand, and the opponent's type in words."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from tests.helpers import refusals
from tests.viz.games import jitted_observe
from tests.viz.reading import SVG, lines, parse
from unojax import bits, cards
from unojax.belief.exact import exact_init
from unojax.decks import small_deck
from unojax.rules import Rules
from unojax.text import make_state, parse_cards
from unojax.viz import belief_svg
from unojax.viz.belief import SAID, contrast, percent, scale_color
from unojax.viz.theme import DARK, LIGHT
from unojax.viz.words import plays_like

PROBS = np.random.default_rng(0).beta(0.6, 2.0, cards.NUM_TYPES)


def cells(picture):
    """Return the cell of each card by its name."""
    found = [e for e in parse(picture).iter(f"{SVG}g") if e.get("data-card")]
    by_name = {e.get("data-card"): e for e in found}
    assert len(found) == len(by_name) == cards.NUM_TYPES
    return by_name


def test_each_cell_shows_its_probability():
    probs = PROBS.copy()
    probs[[3, 20, 52]] = 0.0, 1.0, 0.999
    for theme, paints in (("light", LIGHT), ("dark", DARK)):
        found = cells(belief_svg(probs, theme=theme))
        for name, prob in zip(cards.TYPE_NAMES, probs, strict=True):
            cell = found[name]
            assert float(cell.get("data-prob")) == pytest.approx(prob, abs=5e-5)
            rect = cell.find(f"{SVG}rect")
            assert rect.get("fill") == scale_color(prob, paints) and cell.get("data-held") is None
            written = {text.text: text.get("fill") for text in cell.iter(f"{SVG}text")}
            assert contrast(written[percent(prob)], rect.get("fill")) >= 4.5
        assert {"W", ">99"} == {text.text for text in found["W"].iter(f"{SVG}text")}
        assert [text.text for text in found["R3"].iter(f"{SVG}text")] == ["–"]
    # 0.5 per cent rounds to even.
    written = {0: "–", 1e-9: "<1", 0.0049: "<1", 0.005: "0", 0.014: "1", 0.5: "50", 0.9951: ">99", 1: "100"}
    assert {prob: percent(prob) for prob in written} == written


def test_cells_are_a_grid():
    for tall in (False, True):
        picture, spots = belief_svg(PROBS, tall=tall), {}
        wide, high = (float(parse(picture).get(side)) for side in ("width", "height"))
        for name, cell in cells(picture).items():
            x, y = map(float, cell.get("transform").removeprefix("translate(").removesuffix(")").split())
            width, height = (float(cell.find(f"{SVG}rect").get(side)) for side in ("width", "height"))
            assert 0 < x and x + width < wide and 0 < y and y + height < high
            spots[name] = (x, y, x + width, y + height)
        for a, b in itertools.combinations(spots.values(), 2):
            assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
        across, down = (1, 0) if tall else (0, 1)
        assert (wide < high) == tall
        assert spots["R5"][across] == spots["G5"][across] and spots["R5"][down] == spots["R+2"][down] < spots["Y5"][down]


def test_the_scale_is_even_in_lightness():
    for theme, panel in ((LIGHT, "#000000"), (DARK, "#ffffff")):
        steps = [contrast(scale_color(p, theme), panel) for p in np.linspace(0, 1, 101)]
        assert (np.diff(steps) < 0).all()
        assert contrast(scale_color(0.0, theme), scale_color(1.0, theme)) > 7


def test_the_true_hand_is_outlined():
    hand = parse_cards("R3 R3 Y5 G0 W W W W+4")
    for truth in (hand, cards.count_types(hand)):
        picture = belief_svg(PROBS, truth=truth)
        held = {name: int(cell.get("data-held")) for name, cell in cells(picture).items() if cell.get("data-held")}
        assert held == {"R3": 2, "Y5": 1, "G0": 1, "W": 3, "W+4": 1}
        outlined = {n for n, c in cells(picture).items() if any(r.get("stroke") == LIGHT.truth for r in c.iter(f"{SVG}rect"))}
        assert outlined == set(held)
        assert {"×2", "×3", "in the opponent's hand"} <= set(lines(picture))
    assert "in the opponent's hand" not in lines(belief_svg(PROBS))


def test_beliefs_of_all_kinds_are_drawn():
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2, 3), wilds=1), hand_size=2)
    exact = exact_init(jitted_observe(make_state("R1 Y2", "Y1 R3", "R2", rules=rules), np.int8(0)))
    assert belief_svg(exact) == belief_svg(exact.prob_holds) and 0 < exact.prob_holds.max() < 1
    hands, weights = ["R5 R5 W", "R5 G0 W W", "B+2"], np.array([0.5, 0.2, 0.3], np.float32)
    words = np.array([bits.static_words(parse_cards(hand)) for hand in hands])
    shown = cells(belief_svg(SimpleNamespace(packed=tuple(words.T), log_weights=np.log(weights))))
    expected = dict.fromkeys(cards.TYPE_NAMES, 0.0) | {"R5": 0.7, "W": 0.7, "G0": 0.2, "B+2": 0.3}
    assert {name: float(cell.get("data-prob")) for name, cell in shown.items()} == pytest.approx(expected, abs=1e-4)


def test_title_size_and_file(tmp_path):
    assert [lines(belief_svg(PROBS, tall=tall))[0] for tall in (False, True)] == [
        "Probability that the opponent holds the card, in %",
        "Held by the opponent, in %",
    ]
    parse(belief_svg(PROBS, title="No \x00, \x0c, \ud800 or \ufffe in XML"))
    path, probs = tmp_path / "belief.svg", np.zeros(54)
    probs[5], probs[53] = 0.9, 0.25
    picture = belief_svg(probs, title="What <b>&0</b> knows", width=1400, path=path)
    root = parse(picture)
    assert path.read_text(encoding="utf-8") == picture
    assert root.find(f"{SVG}title").text == "What <b>&0</b> knows: R5 90, W+4 25, R0 –"
    assert lines(root)[0] == "What <b>&0</b> knows" and (root.get("width"), root.get("height")) == ("1400", "600")


def test_the_type_of_the_opponent_is_said_in_words():
    types = {"linear": 0.625, "uniform": 0.25, "guard": 0.116, "keep-wilds": 0.01}
    words = "plays like linear 0.62, uniform 0.25, guard 0.12"
    for tall in (False, True):
        plain, drawn = (belief_svg(PROBS, types=said, tall=tall) for said in (None, types))
        assert words.capitalize() in lines(drawn) and f"; the opponent {words}" in drawn and "lays like" not in plain
        heights = [float(parse(picture).attrib["viewBox"].split()[-1]) for picture in (plain, drawn)]
        assert heights[1] == heights[0] + SAID
    # Unlikely types are not named, except for the likeliest.
    assert plays_like({"linear": 0.03, "uniform": 0.97}) == "plays like uniform 0.97"
    assert plays_like({f"type {i}": 0.05 + 0.001 * i for i in range(19)}) == "plays like type 18 0.07"
    assert plays_like({"linear": 0.97}, is_prior=True) == "is assumed to play like linear 0.97"
    assert plays_like({}) == ""


def test_refusals():
    batch = SimpleNamespace(packed=np.zeros((4, 1, 3), np.uint32), log_weights=np.zeros((1, 3)))
    beliefs = {"shape": np.zeros(60), "text": "R5", "above 1": np.full(54, 1.5), "NaN": np.full(54, np.nan), "a batch": batch}
    options = {"truth": np.zeros(108), "truth (copies)": np.full(54, 2), "theme": None, "width": -1}
    refusals(
        {f"belief ({name})": lambda belief=belief: belief_svg(belief) for name, belief in beliefs.items()}
        | {name: lambda n=name, v=value: belief_svg(PROBS, **{n.partition(" ")[0]: v}) for name, value in options.items()}
    )
