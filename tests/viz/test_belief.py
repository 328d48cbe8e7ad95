"""The heat map says what the belief says."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.viz.games import seen_by
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
    """The cell of each card by its name."""
    found = [e for e in parse(picture).iter(f"{SVG}g") if e.get("data-card")]
    by_name = {e.get("data-card"): e for e in found}
    assert len(found) == len(by_name) == cards.NUM_TYPES
    return by_name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_cell_shows_its_probability(theme):
    probs = PROBS.copy()
    probs[[3, 20, 52]] = 0.0, 1.0, 0.999
    found = cells(belief_svg(probs, theme=theme))
    paints = {"light": LIGHT, "dark": DARK}[theme]
    for name, prob in zip(cards.TYPE_NAMES, probs, strict=True):
        cell = found[name]
        assert float(cell.get("data-prob")) == pytest.approx(prob, abs=5e-5)
        rect = cell.find(f"{SVG}rect")
        assert rect.get("fill") == scale_color(prob, paints) and cell.get("data-held") is None
        written = {text.text: text.get("fill") for text in cell.iter(f"{SVG}text")}
        assert contrast(written[percent(prob)], rect.get("fill")) >= 4.5
    assert {"W", ">99"} == {text.text for text in found["W"].iter(f"{SVG}text")}
    assert [text.text for text in found["R3"].iter(f"{SVG}text")] == ["–"]


@pytest.mark.parametrize("tall", [False, True])
def test_cells_are_a_grid(tall):
    picture = belief_svg(PROBS, tall=tall)
    wide, high = (float(parse(picture).get(side)) for side in ("width", "height"))
    spots = {}
    for name, cell in cells(picture).items():
        x, y = map(float, cell.get("transform").removeprefix("translate(").removesuffix(")").split())
        width, height = (float(cell.find(f"{SVG}rect").get(side)) for side in ("width", "height"))
        assert 0 < x and x + width < wide and 0 < y and y + height < high
        spots[name] = (x, y, x + width, y + height)
    boxes = list(spots.values())
    for i, a in enumerate(boxes):
        assert all(a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1] for b in boxes[:i])
    across, down = (1, 0) if tall else (0, 1)
    assert (wide < high) == tall
    assert spots["R5"][across] == spots["G5"][across] and spots["R5"][down] == spots["R+2"][down] < spots["Y5"][down]


def test_a_title_fits_a_tall_map():
    titles = [next(e.text for e in parse(belief_svg(PROBS, tall=tall)).iter(f"{SVG}text")) for tall in (False, True)]
    assert titles == ["Probability that the opponent holds the card, in %", "Held by the opponent, in %"]
    assert next(e.text for e in parse(belief_svg(PROBS, title="Mine")).iter(f"{SVG}text")) == "Mine"


def test_the_truth_is_outlined():
    hand = "R3 R3 Y5 G0 W W W W+4"
    for truth in (parse_cards(hand), cards.count_types(parse_cards(hand))):
        picture = belief_svg(PROBS, truth=truth)
        held = {name: int(cell.get("data-held")) for name, cell in cells(picture).items() if cell.get("data-held")}
        assert held == {"R3": 2, "Y5": 1, "G0": 1, "W": 3, "W+4": 1}
        outlined = {n for n, c in cells(picture).items() if any(r.get("stroke") == LIGHT.truth for r in c.iter(f"{SVG}rect"))}
        assert outlined == set(held)
        assert {"×2", "×3", "in the opponent's hand"} <= set(lines(parse(picture)))
    assert "in the opponent's hand" not in lines(parse(belief_svg(PROBS)))


class Cloud(NamedTuple):
    """A particle belief."""

    packed: tuple
    log_weights: np.ndarray


def test_beliefs_of_all_kinds():
    rules = Rules(deck=small_deck(colors=2, ranks=(1, 2, 3), wilds=1), hand_size=2)
    exact = exact_init(seen_by(make_state("R1 Y2", "Y1 R3", "R2", rules=rules))[0])
    assert belief_svg(exact) == belief_svg(exact.prob_holds)
    assert 0 < exact.prob_holds.max() < 1

    hands, weights = ["R5 R5 W", "R5 G0 W W", "B+2"], np.array([0.5, 0.2, 0.3])
    words = np.array([bits.static_words(parse_cards(hand)) for hand in hands])
    belief = Cloud(tuple(jnp.asarray(words.T)), jnp.log(weights))
    shown = {name: float(cell.get("data-prob")) for name, cell in cells(belief_svg(belief)).items()}
    expected = dict.fromkeys(cards.TYPE_NAMES, 0.0) | {"R5": 0.7, "W": 0.7, "G0": 0.2, "B+2": 0.3}
    assert shown == pytest.approx(expected, abs=1e-4)
    with pytest.raises(ValueError, match="belief must be a single one"):
        belief_svg(jax.tree.map(lambda x: x[None], belief))


@pytest.mark.parametrize(
    ("prob", "written"),
    [(0, "–"), (1e-9, "<1"), (0.0049, "<1"), (0.005, "0"), (0.014, "1"), (0.5, "50"), (0.9951, ">99"), (1, "100")],
)
def test_percent(prob, written):
    # 0.5 per cent rounds to even.
    assert percent(prob) == written


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_the_scale_is_even_in_lightness(theme):
    panel = "#ffffff" if theme is DARK else "#000000"
    steps = [contrast(scale_color(p, theme), panel) for p in np.linspace(0, 1, 101)]
    assert (np.diff(steps) < 0).all()
    assert contrast(scale_color(0.0, theme), scale_color(1.0, theme)) > 7


def test_title_size_and_file(tmp_path):
    path = tmp_path / "belief.svg"
    probs = np.zeros(54)
    probs[5], probs[53] = 0.9, 0.25
    parse(belief_svg(probs, title="No \x00, \x0c, \ud800 or \ufffe in XML", path=path))
    picture = belief_svg(probs, title="What <b>&0</b> knows", width=1400, path=path)
    assert path.read_text(encoding="utf-8") == picture
    root = parse(picture)
    assert root.find(f"{SVG}title").text == "What <b>&0</b> knows: R5 90, W+4 25, R0 –"
    assert lines(root)[0] == "What <b>&0</b> knows" and (root.get("width"), root.get("height")) == ("1400", "600")


@pytest.mark.parametrize(
    ("belief", "arguments", "message"),
    [
        (np.zeros(60), {}, r"belief must be float\[54\] or a belief of unojax.belief, got shape \(60,\)"),
        ("R5", {}, r"belief must be float\[54\]"),
        (np.full(54, 1.5), {}, r"probabilities in \[0, 1\], got values from 1.5 to 1.5"),
        (np.full(54, np.nan), {}, r"probabilities in \[0, 1\]"),
        (PROBS, {"truth": np.zeros(108)}, r"truth must be a hand, bool\[108\] or int\[54\], got float64\[108\]"),
        (PROBS, {"truth": np.full(54, 2)}, "no more than the full deck"),
        (PROBS, {"theme": None}, "theme must be one of"),
        (PROBS, {"width": -1}, "width must be a positive number"),
    ],
)
def test_bad_arguments(belief, arguments, message):
    with pytest.raises(ValueError, match=message):
        belief_svg(belief, **arguments)


@pytest.mark.parametrize("tall", [False, True])
def test_the_type_of_the_opponent_is_said_in_words(tall: bool):
    probs, types = np.full(54, 0.1), {"linear": 0.625, "uniform": 0.25, "guard": 0.116, "keep-wilds": 0.01}
    plain, drawn = (belief_svg(probs, types=told, tall=tall) for told in (None, types))
    words = "lays like linear 0.62, uniform 0.25, guard 0.12"
    assert f"P{words}" in str(drawn) and f"; the opponent p{words}" in str(drawn)
    assert "lays like" not in str(plain)
    heights = [float(parse(picture).attrib["viewBox"].split()[-1]) for picture in (plain, drawn)]
    assert heights[1] == heights[0] + SAID


def test_unlikely_types_are_not_named_but_for_the_likeliest():
    assert plays_like({"linear": 0.03, "uniform": 0.97}) == "plays like uniform 0.97"
    assert plays_like({f"type {i}": 0.05 + 0.001 * i for i in range(19)}) == "plays like type 18 0.07"
    assert plays_like({"linear": 0.97}, is_prior=True) == "is assumed to play like linear 0.97"
    assert plays_like({}) == ""
