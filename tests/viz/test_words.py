"""Reasons why a card can't be played are true under the rules."""

from __future__ import annotations

import numpy as np

from unojax import Rules, cards, make_state, observe
from unojax.games.choices import legal_actions
from unojax.viz.words import why_not


def test_the_reason_for_a_card_that_can_not_be_played_is_true_under_the_rules():
    house, official = Rules.house(), Rules.official()
    four, drawn = {"penalty": 4, "top_rank": cards.WILD_DRAW_FOUR}, cards.TYPE_NAMES.index
    for rules, changes, card, words in [
        (Rules(), {}, "B7", "You don't hold blue 7"),
        (Rules(), {}, "G8", "Green 8 does not match red +2"),
        (Rules(), {"color": 2, "top_rank": cards.WILD}, "G8", "Green 8 does not match Wild (blue)"),
        (Rules(), {"penalty": 2}, "R5", "You must draw 2 cards"),
        (house, {"penalty": 4}, "R5", "Only another +2 can be played on the penalty"),
        (house, four, "R5", "Only another Wild+4 can be played on the penalty"),
        (official, four | {"contested": 1}, "R5", "You can only draw 4 cards or challenge the Wild+4"),
        (official, {"drawn": drawn("R5")}, "Y+2", "Only red 5, just drawn, can be played"),
        (house, {"drawn": drawn("G8")}, "Y+2", "You continue drawing until a card can be played"),
        (Rules(wild_draw_four="no_color"), {}, "W+4", "Wild+4 needs a hand without red"),
        (Rules(wild_draw_four="last"), {}, "W+4", "Wild+4 can't be played while another card can"),
    ]:
        state = make_state("R5 Y+2 G8 W+4", "Y0", "R+2", rules=rules)
        view = observe(state.replace(**{name: np.int8(value) for name, value in changes.items()}), 0)
        playable, card_type = set(cards.TYPE_OF_PLAY[legal_actions(view)[:60]].tolist()), cards.TYPE_NAMES.index(card)
        assert card_type not in playable and why_not(view, playable, card_type) == words
        said = why_not(view, playable, card_type, notation=True)
        assert len(said) <= len(words) and (card in said) == (said.startswith(card) or words.startswith("You don't hold"))


def test_no_false_reason_is_given_for_a_card_that_fits_the_top():
    """Under a rule that the function does not know."""
    view = observe(make_state("R5 W G8", "Y0", "R+2"), 0)
    for card in ("R5", "W"):
        said = why_not(view, set(), cards.TYPE_NAMES.index(card), notation=True)
        assert said == f"{card} can't be played under these rules"
