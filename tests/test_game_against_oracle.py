"""Random games under many rules against the oracle: every field of every state, every legal mask, every drawn card.

One action in thirty is any number from -30 to 99.
"""

from __future__ import annotations

from collections import Counter

import jax
import numpy as np
import pytest

from tests import corpus
from tests.helpers import Played, counter, counts_of, play, variant
from tests.oracle import game as oracle
from tests.oracle.positions import from_oracle
from unojax.decks import small_deck
from unojax.game import State
from unojax.rules import Rules

PROGRAMS = 60  # Games of each rule set of the corpus.

_SMALL = {"deck": small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=2), "hand_size": 3}
_ONE_EACH = {"deck": small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), "hand_size": 1, "start_card": "any"}
_HARDLY_MATCHING = tuple({"R1": 2, "Y2": 2, "B3": 2, "R4": 1}.get(card, 0) for card in oracle.CARDS)
PLAIN = {
    "default": Rules(),
    "any start card, any first player": Rules(start_card="any", first_player="random", max_steps=40, step_penalty=0.1),
    "cards that hardly match": Rules(deck=_HARDLY_MATCHING, hand_size=2),
    "skip and reverse pass the turn": Rules(skip_forfeits=False, step_penalty=0.125, **_SMALL),
    "draws without end": Rules(deck=small_deck(colors=3, ranks=(1, 12), wilds=2), hand_size=4, start_card="any"),
    "one card each": Rules(**_ONE_EACH),
}
# Chosen so that each pair of rules that touch meets in one of them at least.
VARIANTS = {
    "official": Rules.official(),
    "official, few cards, penalties add up": corpus.RULES["few cards"],
    "house, few cards": Rules.house(start_card="any", **_SMALL),
    "rlcard, few cards": Rules.rlcard(may_draw=True, draw_until_playable=True, step_penalty=0.25, **_SMALL),
    "no wild+4 beside the colour": Rules(
        wild_draw_four="no_color",
        play_drawn="may",
        stacking=True,
        reshuffle_top=True,
        points=True,
        start_effects="keep_turn",
        **_SMALL,
    ),
}
MORE_VARIANTS = {
    "house": Rules.house(),
    "rlcard": Rules.rlcard(),
    "until, not played": Rules(draw_until_playable=True, may_draw=True, wild_draw_four="last", stacking=True, **_SMALL),
    "challenges and draws until playable": Rules.house(wild_draw_four="challenge", may_draw=True, skip_forfeits=False, **_SMALL),
    "challenges of those who must": Rules(
        wild_draw_four="challenge", play_drawn="auto", stacking=True, start_card="any", **_SMALL
    ),
    "one card each, all at will": Rules.official(stacking=True, draw_until_playable=True, **_ONE_EACH),
    "the last resort": Rules(wild_draw_four="last", may_draw=True, play_drawn="may", start_effects="forfeit", **_SMALL),
    "draws at will": Rules(may_draw=True, reshuffle_top=True, reverse_passes=True, max_steps=60, **_SMALL),
}


def judge(games: Played, index: int, rules: Rules) -> Counter[str]:
    """Replay one game with the oracle, compare everything, and return the oracle's count of events."""
    states = jax.tree.map(lambda x: x[index], games.states)
    hands = counts_of(states.hands)
    told = oracle.Game.deal(
        variant(rules),
        [counter(hand) for hand in hands[0]],
        top=oracle.card_and_color(int(states.color[0]) * 15 + int(states.top_rank[0]))[0],
        color=oracle.COLORS[states.color[0]],
        player=int(states.current_player[0]),
    )
    expected, legal = [from_oracle(told, rules)], [told.legal_actions()]
    # Two steps beyond the end: the first sets the rewards to zero, the second changes nothing at all.
    is_over = states.terminated | states.truncated
    num_steps = min(len(is_over) - 1, int(np.argmax(is_over)) + 2 if is_over.any() else len(is_over) - 1)
    for t in range(num_steps):
        action = int(games.actions[index, t])
        told.step(action, *chance(told, states, hands, t, action))
        expected.append(from_oracle(told, rules))
        legal.append(told.legal_actions())

    upto = num_steps + 1
    for name, values in vars(jax.tree.map(lambda *x: np.stack(x), *expected)).items():
        if name != "rules":
            # The compiler may divide points by multiplying; all else is exact.
            rtol = 1e-6 if name == "rewards" else 0.0
            np.testing.assert_allclose(getattr(states, name)[:upto], values, rtol=rtol, atol=0.0, err_msg=name)
    masks = [[action in actions for action in range(rules.num_actions)] for actions in legal]
    np.testing.assert_array_equal(games.masks[index, :upto], masks, err_msg="legal_mask")
    # The rest of the array is the fixed point.
    jax.tree.map(lambda x: np.testing.assert_array_equal(x[num_steps:], [x[num_steps]] * len(x[num_steps:])), states)
    return told.events


def chance(told: oracle.Game, states: State, hands: np.ndarray, t: int, action: int) -> tuple[Counter[str], str | None]:
    """Return the cards drawn at step t, or the one played at once and its colour."""
    if action != oracle.DRAW or told.is_over or action not in told.legal_actions():
        return Counter(), None
    drawn = counter(np.maximum(hands[t + 1, told.player] - hands[t, told.player], 0))
    if drawn or states.terminated[t + 1] or told.variant.play_drawn != "auto":
        return drawn, None
    card, color = oracle.card_and_color(int(states.color[t + 1]) * 15 + int(states.top_rank[t + 1]))
    return Counter([card]), color


def events_of(games: Played, num_games: int, rules: Rules) -> Counter[str]:
    """Compare the first games and count the events in them."""
    return sum((judge(games, index, rules) for index in range(num_games)), Counter())


NUM_JUDGED = {name: 25 if name in ("official", "house", "rlcard") else 100 for name in corpus.RULES}
"""Games of the corpus that `make test` compares: more of those in which more happens."""


VISITED = {
    "limited": {
        "truncated",
        "won with W+4",
        *(f"reshuffled for {due} with {left} left" for due, left in ((1, 0), (2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3))),
        *(f"{how} as 4 could not be drawn" for how in ("won", "lost", "tied")),
    },
    "few cards": {
        *("challenged, guilty", "challenged, innocent", "passed with a playable card drawn", "played the card drawn"),
        *("answered a penalty of 2 with +2", "answered a penalty of 4 with W+4", "drew a penalty that could be answered"),
        *("start: passed over", "start: penalty of 2"),
    },
    "house": {"drew a card and must draw again", "drew 6"},
    "rlcard, few cards": {
        "start: passed over",
        "start: 2 drawn",
        *(f"laid {rank}" for rank in ("1", "S", "R", "+2", "W", "W+4")),
    },
}
"""Events that the corpus has, so that the comparison covers them."""


@pytest.mark.parametrize("name", corpus.RULES)
def test_the_corpus_agrees_with_the_oracle(name: str):
    """Contract: init, legal_mask, step; error bits; rewards; finished games."""
    events = events_of(corpus.games(name), NUM_JUDGED[name], corpus.RULES[name])
    assert {"illegal action", "action out of range"} | VISITED.get(name, set()) <= set(events)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, judged in NUM_JUDGED.items() if judged < 100])
def test_all_of_the_corpus_agrees_with_the_oracle(name: str):
    events_of(corpus.games(name), len(corpus.games(name).actions), corpus.RULES[name])


CORNERS = {
    "illegal action",
    "action out of range",
    "truncated",
    *(f"played {rank}" for rank in oracle.RANKS),
    *(f"won with {rank}" for rank in ("1", "S", "R", "+2", "W", "W+4")),
    *(f"drew {due}" for due in (1, 2, 4)),
    *(f"reshuffled for {due} with {left} left" for due in (1, 2, 4) for left in range(due)),
    *(f"{how} as {due} could not be drawn" for how in ("won", "lost", "tied") for due in (1, 2, 4)),
}
CORNERS_OF_VARIANTS = {
    "start: passed over",
    "start: penalty of 2",
    "start: penalty of 4",
    "start: 2 drawn",
    "passed with a playable card drawn",
    "played the card drawn",
    "drew though it could play",
    "drew a penalty that could be answered",
    "drew a card that it may play",
    "drew a card and must draw again",
    "challenged, guilty",
    "challenged, innocent",
    *(f"laid {rank}" for rank in ("1", "S", "R", "+2", "W", "W+4")),
    *(f"answered a penalty of {due} with +2" for due in (2, 4)),
    *(f"answered a penalty of {due} with W+4" for due in (4, 8)),
    *(f"drew {due}" for due in (1, 2, 4, 6, 8, 10, 12)),
}
"""The rarest is in three of eight hundred games of one variant."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("rule_sets", "num_games", "corners"),
    [(PLAIN, 100, CORNERS), (VARIANTS | MORE_VARIANTS, 80, CORNERS_OF_VARIANTS)],
    ids=["plain", "variants"],
)
def test_many_games_agree_with_the_oracle_and_visit_every_corner_of_the_rules(
    rule_sets: dict[str, Rules], num_games: int, corners: set[str]
):
    """Ten seeds of each rule set. Every kind of event must occur, because the comparison covers no other."""
    seen: Counter[str] = Counter()
    for name, rules in rule_sets.items():
        for seed in range(1, 11):
            num_steps = {"default": 320, "any start card, any first player": 45}.get(name, corpus.NUM_STEPS)
            games = play(seed, num_games=num_games, num_steps=num_steps, rules=rules)
            seen += events_of(games, num_games, rules)
    assert corners - set(seen) == set()
