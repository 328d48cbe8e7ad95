"""Random games under many rules, judged by the oracle: every field of every state, every legal mask, every drawn card.

One action in thirty is any number from -30 to 99, so illegal and out-of-range ones come up everywhere.
"""

from __future__ import annotations

import functools
from collections import Counter

import jax
import numpy as np
import pytest

from tests.helpers import NUM_GAMES, Played, counter, counts_of, play, variant
from tests.oracle import game as oracle
from unojax import cards
from unojax.decks import small_deck
from unojax.game import State
from unojax.rules import Rules

HARDLY_MATCHING = tuple({"R1": 2, "Y2": 2, "B3": 2, "R4": 1}.get(card, 0) for card in oracle.CARDS)
RULES = {
    "default": Rules(),
    "any start card, any first player": Rules(start_card="any", first_player="random", max_steps=40, step_penalty=0.1),
    "cards that hardly match": Rules(deck=HARDLY_MATCHING, hand_size=2),
    "two colours and all effects, skip and reverse pass the turn": Rules(
        deck=small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=1), hand_size=3, skip_forfeits=False, step_penalty=0.125
    ),
    "draws without end": Rules(deck=small_deck(colors=3, ranks=(1, 12), wilds=2), hand_size=4, start_card="any"),
    "one card each": Rules(deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1), hand_size=1, start_card="any"),
}
_SMALL = {"deck": small_deck(colors=2, ranks=(0, 1, 2, 10, 11, 12), wilds=2), "hand_size": 3}
# Chosen so that each pair of rules that touch meets in one of them at least.
VARIANTS = {
    "official": Rules.official(),
    "official, few cards, penalties add up": Rules.official(stacking=True, first_player="random", **_SMALL),
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
    "one card each, all at will": Rules.official(
        stacking=True,
        draw_until_playable=True,
        start_card="any",
        deck=small_deck(colors=2, ranks=(1, 12), copies=1, wilds=1),
        hand_size=1,
    ),
    "the last resort": Rules(wild_draw_four="last", may_draw=True, play_drawn="may", start_effects="forfeit", **_SMALL),
    "draws at will": Rules(may_draw=True, reshuffle_top=True, reverse_passes=True, max_steps=60, **_SMALL),
}
NUM_STEPS = {"default": 320, "any start card, any first player": 45}

SEEDS = range(1, 11)
"""Of the games of the slow part."""

CARD_FIELDS = ("hands", "deck", "pile")


def snapshot(told: oracle.Game) -> tuple[list[int], list[float]]:
    """All that a `State` holds, as the oracle has it: counts of the four sets, then the other fields."""
    sets = [pack.get(card, 0) for pack in (*told.hands, told.deck, told.pile) for card in oracle.CARDS]
    others = [
        oracle.RANKS.index(oracle.rank_of(told.top)),
        oracle.COLORS.index(told.color),
        told.player,
        told.penalty,
        told.terminated,
        told.truncated,
        -1 if told.winner is None else told.winner,
        *told.rewards,
        told.step_count,
        told.error,
        -1 if told.last_action is None else told.last_action,
        -1 if told.drawn is None else oracle.CARDS.index(told.drawn),
        -1 if told.contested is None else oracle.COLORS.index(told.contested),
    ]
    return sets, others


OTHER_FIELDS = (
    "top_rank",
    "color",
    "current_player",
    "penalty",
    "terminated",
    "truncated",
    "winner",
    "rewards",
    "step_count",
    "error",
    "last_action",
    "drawn",
    "contested",
)


def judge(games: Played, index: int, rules: Rules) -> Counter[str]:
    """Replay one game with the oracle and compare all there is. Returns the oracle's count of events."""
    states = jax.tree.map(lambda x: x[index], games.states)
    hands = counts_of(states.hands)
    told = oracle.Game.deal(
        variant(rules),
        [counter(hand) for hand in hands[0]],
        top=oracle.card_and_color(int(states.color[0]) * 15 + int(states.top_rank[0]))[0],
        color=oracle.COLORS[states.color[0]],
        player=int(states.current_player[0]),
    )
    snapshots, legal = [snapshot(told)], [told.legal_actions()]
    # Two steps beyond the end: the first sets the rewards to zero, the second changes nothing at all.
    is_over = states.terminated | states.truncated
    num_steps = min(len(is_over) - 1, int(np.argmax(is_over)) + 2 if is_over.any() else len(is_over) - 1)
    for t in range(num_steps):
        action = int(games.actions[index, t])
        told.step(action, *chance(told, states, hands, t, action))
        snapshots.append(snapshot(told))
        legal.append(told.legal_actions())

    upto = num_steps + 1
    told_sets = np.array([sets for sets, _ in snapshots]).reshape(upto, 4, cards.NUM_TYPES)
    told_onehots = cards.onehot_of(told_sets)
    onehots = np.concatenate([states.hands, states.deck[:, None], states.pile[:, None]], 1)
    np.testing.assert_array_equal(onehots[:upto], told_onehots, err_msg="hand 0, hand 1, deck, pile")
    told_others = np.array([others for _, others in snapshots], np.float32)
    column = 0
    for name in OTHER_FIELDS:
        value = getattr(states, name)[:upto]
        width = value[0].size
        # The compiler may divide points by multiplying; all else is exact.
        rtol = 1e-6 if name == "rewards" else 0.0
        expected = told_others[:, column : column + width]
        np.testing.assert_allclose(value.reshape(upto, width).astype(np.float32), expected, rtol=rtol, atol=0.0, err_msg=name)
        column += width
    told_masks = np.zeros((upto, rules.num_actions), bool)
    for t, actions in enumerate(legal):
        told_masks[t, list(actions)] = True
    np.testing.assert_array_equal(games.masks[index, :upto], told_masks, err_msg="legal_mask")

    # The rest of the array is the fixed point.
    jax.tree.map(
        lambda x: np.testing.assert_array_equal(x[num_steps:], np.broadcast_to(x[num_steps], x[num_steps:].shape)), states
    )
    return told.events


def chance(told: oracle.Game, states: State, hands: np.ndarray, t: int, action: int) -> tuple[Counter[str], str | None]:
    """What chance brought at step t: the cards drawn, or the one that was laid at once and its colour."""
    if action != oracle.DRAW or told.is_over or action not in told.legal_actions():
        return Counter(), None
    drawn = counter(np.maximum(hands[t + 1, told.player] - hands[t, told.player], 0))
    if drawn or states.terminated[t + 1] or told.variant.play_drawn != "auto":
        return drawn, None
    card, color = oracle.card_and_color(int(states.color[t + 1]) * 15 + int(states.top_rank[t + 1]))
    return Counter([card]), color


@functools.cache
def events_of(name: str, seed: int = 0, num_games: int = NUM_GAMES) -> Counter[str]:
    """Judge many games; what happened in them."""
    rules = (RULES | VARIANTS | MORE_VARIANTS)[name]
    games = play(seed, num_games=num_games, num_steps=NUM_STEPS.get(name, 160), rules=rules)
    return sum((judge(games, index, rules) for index in range(num_games)), Counter())


def test_snapshot_covers_every_field_of_the_state():
    assert set(State.__dataclass_fields__) == {*CARD_FIELDS, *OTHER_FIELDS, "rules"}


@pytest.mark.parametrize("name", ["default", "two colours and all effects, skip and reverse pass the turn"])
def test_every_field_of_every_state_agrees_with_the_oracle(name: str):
    assert events_of(name)["illegal action"] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", RULES)
def test_ten_times_as_many_games_agree_with_the_oracle(name: str):
    for seed in SEEDS:
        events_of(name, seed)


@pytest.mark.slow
@pytest.mark.long
def test_the_games_visit_every_corner_of_the_rules():
    """The comparison above says nothing about what did not happen, so all of it has to."""
    seen = sum((events_of(name, seed) for name in RULES for seed in SEEDS), Counter())
    expected = {
        "illegal action",
        "action out of range",
        "truncated",
        *(f"played {rank}" for rank in oracle.RANKS),
        *(f"won with {rank}" for rank in ("1", "S", "R", "+2", "W", "W+4")),
        *(f"drew {due}" for due in (1, 2, 4)),
        *(f"reshuffled for {due} with {left} left" for due in (1, 2, 4) for left in range(due)),
        *(f"{how} as {due} could not be drawn" for how in ("won", "lost", "tied") for due in (1, 2, 4)),
    }
    assert expected - set(seen) == set()


def test_a_variant_agrees_with_the_oracle():
    assert events_of("official, few cards, penalties add up", num_games=80)["illegal action"] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", VARIANTS | MORE_VARIANTS)
def test_ten_thousand_games_of_variants_agree_with_the_oracle(name: str):
    """13 variants, 800 games each."""
    for seed in SEEDS:
        events_of(name, seed, num_games=80)


@pytest.mark.slow
@pytest.mark.long
def test_the_games_of_variants_visit_every_corner_of_the_rules():
    # The games of the test before; the rarest corner is seen in three of eight hundred games of one variant.
    seen = sum((events_of(name, seed, num_games=80) for name in VARIANTS | MORE_VARIANTS for seed in SEEDS), Counter())
    expected = {
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
    assert expected - set(seen) == set()
