"""The exact filter against two plain-Python filters, hand by hand and step by step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.belief import oracle
from tests.belief.games import RULES, VARIANTS, covering, games_of, in_mid_turn
from tests.belief.models import THREE, TWINS
from tests.belief.oracle import FORFEITING, PASSING
from tests.helpers import refusals
from tests.oracle import game as plain
from tests.oracle.chain import draws, successors
from tests.oracle.positions import to_oracle
from unojax import cards
from unojax.belief import exact, opponents
from unojax.belief.exact import ExactBelief, exact_init, exact_update
from unojax.belief.opponents import Family
from unojax.observation import Observation
from unojax.rules import Rules

PROGRAMS: Final = 250  # in the slow part, several for each rule set


def hand_probs(belief: ExactBelief) -> dict[oracle.Hand, float]:
    """Return the probabilities of hands, sorted tuples of card types."""
    counts, probs = belief.hands()
    return {tuple(np.repeat(np.arange(54), c).tolist()): float(p) for c, p in zip(counts, probs, strict=True)}


def assert_same(belief: ExactBelief, expected: dict[oracle.Hand, float], tolerance: float) -> None:
    found = hand_probs(belief)
    assert all(found.get(hand, 0.0) == pytest.approx(expected.get(hand, 0.0), abs=tolerance) for hand in expected | found)


# Plain rules, any opponent: worlds of `oracle`, each with a type of opponent. Contract: steps 1 to 6 of the exact filter.

Joint = dict[tuple[int, oracle.World], float]


def follow(joint: Joint, policies: tuple, action: int, after: Observation, rules: Rules) -> tuple[Joint, float]:
    """Condition worlds with a type on a transition; also return the probability of the observation."""
    kept: Joint = {}
    for k, policy in enumerate(policies):
        worlds = {world: p for (of, world), p in joint.items() if of == k}
        try:
            worlds, evidence = oracle.update(worlds, action, after, policy=policy, rules=rules)
        except ZeroDivisionError:
            # The type would never have done this.
            continue
        kept |= {(k, world): p * evidence for world, p in worlds.items() if p * evidence > 0}
    total = sum(kept.values())
    return {key: p / total for key, p in kept.items()}, total


QUICK = {("uniform", "thin", 1), ("three types", "forfeiting", 0)}
PLAIN = [
    pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
    for case in product(TWINS, ("forfeiting", "passing", "thin"), (0, 1))
]


@pytest.mark.parametrize(("model", "rules", "seat"), PLAIN)
def test_plain_rules_agree_with_all_worlds(model: str, rules: str, seat: int) -> None:
    (opponent, policies), games = TWINS[model], games_of(RULES[rules])
    prior = np.exp(opponent.log_prior) if isinstance(opponent, Family) else np.ones(1)
    # A model that is not built in answers in float32.
    tolerance = 1e-9 if model in ("uniform", "consistent") else 1e-5
    certain, of_type = 0, []
    for number in covering(RULES[rules], seat):
        steps = games.steps(seat, number)
        dealt = number % 2 == 1
        belief = exact_init(steps[0][0], prior="deal" if dealt else "uniform", opponent=opponent)
        worlds = oracle.deal(steps[0][0], sees_start=dealt)
        joint = {(k, world): float(weight) * p for k, weight in enumerate(prior) for world, p in worlds.items()}
        assert_same(belief, oracle.hand_probs(worlds), 1e-12)
        for before, action, after in steps:
            belief, log_evidence = exact_update(belief, before, action, after, opponent=opponent)
            joint, evidence = follow(joint, policies, action, after, RULES[rules])
            assert log_evidence == pytest.approx(math.log(evidence), abs=tolerance)
            hands: Counter[oracle.Hand] = Counter()
            for (_, world), p in joint.items():
                hands[world.hands[1]] += p
            assert_same(belief, hands, tolerance)
            if isinstance(opponent, Family):
                of_type.append([sum(p for (k, _), p in joint.items() if k == which) for which in range(len(policies))])
                np.testing.assert_allclose(np.exp(belief.log_type_probs), of_type[-1], atol=1e-5)
            if after.deck_count == 0 and not after.terminated:
                # Contract: with an empty deck H = U is known exactly.
                assert abs(belief.entropy) < 1e-12 and abs(belief.log_prob(np.asarray(after.unseen, int))) < 1e-12
                certain += 1
    assert certain or rules != "thin"
    # Types are learned, and one is ruled out.
    assert not of_type or (np.ptp(of_type, axis=1).max() > 0.2 and np.min(of_type) == 0)


# Rules with choices, a uniform opponent: worlds of `tests.oracle.game`.

Worlds = list[tuple[plain.Game, float]]


def worlds_of(true: plain.Game, seat: int) -> Worlds:
    """Return all positions consistent with a first observation, with their probabilities."""
    hidden, worlds = 1 - seat, []
    unseen = true.deck + true.hands[hidden]
    for hand, prob in draws(unseen, true.hands[hidden].total()):
        world = true.copy()
        world.hands[hidden], world.deck = hand, unseen - hand
        worlds.append((world, prob))
    return worlds


def sight(world: plain.Game, seat: int) -> tuple:
    own = frozenset((+world.hands[seat]).items())
    turn = (world.player, world.penalty, world.drawn is not None, world.contested, world.terminated)
    mine = world.drawn if world.player == seat else None
    sizes = (world.hands[1 - seat].total(), world.deck.total())
    return own, frozenset((+world.pile).items()), sizes, world.top, world.color, turn, mine, world.last_action


def condition(worlds: Worlds, seat: int, action: int, true: plain.Game) -> tuple[Worlds, float]:
    """Condition worlds on a step to the position `true`; also return the probability of the observation."""
    merged: dict[tuple, tuple[plain.Game, float]] = {}
    seen = sight(true, seat)
    for world, prob in worlds:
        legal = world.legal_actions()
        if action not in legal:
            continue
        by_choice = 1.0 if world.player == seat else 1.0 / len(legal)
        for after, chance in successors(world, action):
            if sight(after, seat) == seen:
                key = frozenset((+after.hands[1 - seat]).items()), after.drawn
                before = merged[key][1] if key in merged else 0.0
                merged[key] = after, before + prob * by_choice * chance
    total = sum(prob for _, prob in merged.values())
    return [(world, prob / total) for world, prob in merged.values()], total


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "all at will" else [pytest.mark.slow, pytest.mark.long]) for name in VARIANTS]
)
def test_rules_with_choices_agree_with_all_worlds(name: str, request: pytest.FixtureRequest) -> None:
    rules, games = VARIANTS[name], games_of(VARIANTS[name])
    is_long = request.node.get_closest_marker("long") is not None
    chosen = {0, 1} if not is_long else {*range(16), *covering(rules, 0), *covering(rules, 1)}
    seen: Counter[str] = Counter()
    for number in sorted(chosen):
        seat, steps = number % 2, games.steps(number % 2, number)
        states = [jax.tree.map(lambda x, t=t, i=number: x[i, t], games.states) for t in range(len(games.actions[0]) + 1)]
        places = np.flatnonzero(games.actions[number] >= 0) + 1
        belief, worlds = exact_init(steps[0][0]), worlds_of(to_oracle(states[places[0] - 1], rules), seat)
        for (before, action, after), place in zip(steps, places.tolist(), strict=True):
            worlds, evidence = condition(worlds, seat, action, to_oracle(states[place], rules))
            belief, log_evidence = exact_update(belief, before, action, after)
            assert log_evidence == pytest.approx(math.log(evidence), abs=1e-5)
            expected: Counter[oracle.Hand] = Counter()
            for world, prob in worlds:
                hand = sorted(plain.CARDS.index(card) for card in world.hands[1 - seat].elements())
                expected[tuple(hand)] += prob
            assert_same(belief, expected, 1e-6)
            kind = "draw" if action == cards.DRAW else "challenge" if action == cards.CHALLENGE else "play"
            seen[f"{'own' if before.is_my_turn else 'their'} {kind}"] += 1
            seen["their turn continues"] += bool(after.has_drawn) and not bool(after.is_my_turn)
    assert seen["their draw"] and seen["their play"]
    if is_long:
        assert bool(seen["their turn continues"]) == (rules.play_drawn == "may" or rules.draw_until_playable)
        assert bool(seen["their challenge"] and seen["own challenge"]) == (rules.wild_draw_four == "challenge")


@pytest.mark.parametrize("choice", ["Y1", "draw"])
def test_a_belief_that_begins_in_mid_turn(choice: str) -> None:
    """The drawn card may be any card of the hand; a player who passes had a playable card."""
    before, action, after = in_mid_turn(choice)
    assert (after.opponent_count == 3) == (choice == "draw")
    belief, _ = exact_update(exact_init(before), before, action, after)
    if choice != "draw":
        np.testing.assert_allclose(belief.hands()[1], exact_init(after).hands()[1], atol=1e-9)
        return
    counts, probs = exact_init(before).hands()
    number = np.arange(cards.NUM_TYPES)
    fits = (number // 13 == cards.COLOR_NAMES.index("yellow")) | (number % 13 == cards.REVERSE)
    # A pass is one of two choices, or of five with a wild card and its colours.
    passes = np.where(number >= cards.WILD_TYPE, 1 / 5, fits / 2)
    weights = probs * (counts @ passes)
    hands = [tuple(np.repeat(number, c).tolist()) for c in counts]
    assert_same(belief, dict(zip(hands, weights / weights.sum(), strict=True)), 1e-9)


# Answers and models.


def test_summaries_against_the_listed_hands() -> None:
    belief = exact_init(games_of(FORFEITING).view(0, 0, 0))
    counts, probs = belief.hands()
    assert counts.dtype == np.int8 and (counts.sum(-1) == belief.hand_count).all() and probs.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(belief.expected_counts, probs @ counts, atol=1e-12)
    np.testing.assert_allclose(belief.prob_holds, probs @ (counts > 0), atol=1e-12)
    by_count = [[probs @ (counts[:, t] == j) for j in range(5)] for t in range(54)]
    np.testing.assert_allclose(belief.count_probs, by_count, atol=1e-12)
    assert belief.entropy == pytest.approx(-(probs * np.log(probs)).sum())
    for color, rank, top in ((0, 1, 1), (1, 10, 23), (2, cards.WILD, cards.WILD_TYPE)):
        stuck = [oracle.legal_actions(hand, top, color, penalty=0) == [cards.DRAW] for hand in hand_probs(belief)]
        assert belief.prob_no_playable(color, rank) == pytest.approx(probs @ np.array(stuck))
    for c, p in zip(counts, probs, strict=True):
        assert belief.log_prob(c) == belief.log_prob(cards.onehot_of(c)) == pytest.approx(math.log(p))
    nothing, not_in_the_deck, too_many = np.zeros((3, 54), int)
    not_in_the_deck[30] = belief.hand_count
    too_many[:2] = 5, belief.hand_count - 5
    assert {belief.log_prob(hand) for hand in (nothing, not_in_the_deck, too_many)} == {-math.inf}


def test_a_model_is_compiled_once_and_computed_alike_if_built_in() -> None:
    """A built-in model and its disguised copy, which is called for every hand, agree."""
    traces, calls, games = 0, 0, games_of(FORFEITING)

    def disguised(observation: Observation, legal_mask: jax.Array) -> jax.Array:
        nonlocal traces
        traces += 1
        return opponents.uniform_opponent(observation, legal_mask)

    for number in range(8):
        steps = games.steps(0, number)
        belief = exact_init(steps[0][0])
        for before, action, after in steps:
            slow, log_slow = exact_update(belief, before, action, after, opponent=disguised)
            belief, log_fast = exact_update(belief, before, action, after)
            # The models answer in float32.
            np.testing.assert_allclose(belief.hands()[1], slow.hands()[1], rtol=1e-6, atol=1e-12)
            assert log_fast == pytest.approx(log_slow, abs=1e-6)
            calls += not before.is_my_turn and action < cards.DRAW
    assert calls > 10 and traces == 1


def test_an_illegal_attempt_changes_nothing() -> None:
    games = games_of(FORFEITING)
    number, t = games.find((games.actions < 0) & ~games.states.terminated[:, :-1])
    before, after = games.view(0, number, t), games.view(0, number, t + 1)
    belief = exact_init(before)
    updated, log_evidence = exact_update(belief, before, int(games.actions[number, t]), after)
    assert updated is belief and log_evidence == 0.0


def never(observation: Observation, legal_mask: jax.Array) -> jax.Array:
    """Give every action probability 0."""
    return jnp.zeros(61)


def test_refusals() -> None:
    games, one_type = games_of(FORFEITING), Family((never,), ("never",))
    theirs = (games.actions >= 0) & (games.actions < cards.DRAW) & (games.states.current_player[:, :-1] == 1)
    number, t = games.find(theirs & ~games.states.terminated[:, 1:])
    before, after, action = games.view(0, number, t), games.view(0, number, t + 1), int(games.actions[number, t])
    belief = exact_init(before)

    def update(
        before: Observation = before, action: int = action, after: Observation = after, belief: ExactBelief = belief, **options
    ) -> object:
        return exact_update(belief, before, action, after, **options)

    refusals(
        {
            "different hands, at most 5000000": lambda: exact_init(replace(before, rules=Rules())),
            "single observation": lambda: exact_init(jax.tree.map(lambda x: x[0], games.seen[0])),
            "prior": lambda: exact_init(before, prior="flat"),
            "rules differ": lambda: update(before=replace(before, rules=PASSING)),
            "rules differ (after)": lambda: update(after=replace(after, rules=PASSING)),
            "action": lambda: update(action=(action + 1) % 61),
            "one transition apart": lambda: update(after=replace(after, deck_count=after.deck_count - np.int8(1))),
            "`before`": lambda: update(before=replace(before, opponent_count=np.int8(4))),
            "color": lambda: belief.prob_no_playable(4, 0),
            "hand": lambda: belief.log_prob(np.zeros(108)),
            "no hand of the belief explains": lambda: update(opponent=never),
            "no hand of the belief explains (by any type)": lambda: update(
                belief=exact_init(before, opponent=one_type), opponent=one_type
            ),
            "opponent": lambda: update(opponent=lambda o, legal: -jnp.ones(61)),
            "opponent (types)": lambda: update(opponent=THREE),
        }
    )
    # 13 types with two copies and one with one make 3.2 million hands, which is allowed; one more type is too much.
    assert 3**13 * 2 < exact.MAX_HANDS < 3**14 * 2
