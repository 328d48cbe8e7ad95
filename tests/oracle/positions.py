"""Positions of the oracle and of the package, converted and drawn at random."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np

from tests.helpers import counter, counts_of, variant
from tests.oracle import game as oracle
from tests.oracle.chain import successors
from unojax import cards
from unojax.game import State
from unojax.rules import Rules


def multiset(onehot: np.ndarray) -> Counter[str]:
    """bool[108] -> multiset of card names."""
    return counter(counts_of(onehot))


def onehot(multiset: Counter[str]) -> np.ndarray:
    """Multiset of card names -> bool[108]."""
    return cards.onehot_of([multiset[name] for name in oracle.CARDS])


def to_oracle(state: State, rules: Rules) -> oracle.Game:
    card, color = oracle.card_and_color(int(state.color) * 15 + int(state.top_rank))
    return oracle.Game(
        variant=variant(rules),
        hands=[multiset(hand) for hand in state.hands],
        deck=multiset(state.deck),
        pile=multiset(state.pile),
        top=card,
        color=color,
        player=int(state.current_player),
        penalty=int(state.penalty),
        terminated=bool(state.terminated),
        truncated=bool(state.truncated),
        winner=None if state.winner < 0 else int(state.winner),
        step_count=int(state.step_count),
        last_action=None if state.last_action < 0 else int(state.last_action),
        drawn=None if state.drawn < 0 else oracle.CARDS[state.drawn],
        contested=None if state.contested < 0 else oracle.COLORS[state.contested],
    )


def from_oracle(told: oracle.Game, rules: Rules) -> State:
    return State(
        hands=np.stack([onehot(hand) for hand in told.hands]),
        deck=onehot(told.deck),
        pile=onehot(told.pile),
        top_rank=np.int8(oracle.RANKS.index(oracle.rank_of(told.top))),
        color=np.int8(oracle.COLORS.index(told.color)),
        current_player=np.int8(told.player),
        penalty=np.int8(told.penalty),
        terminated=np.bool_(told.terminated),
        truncated=np.bool_(told.truncated),
        winner=np.int8(-1 if told.winner is None else told.winner),
        rewards=np.array(told.rewards, np.float32),
        step_count=np.int32(told.step_count),
        error=np.uint8(told.error),
        last_action=np.int8(-1 if told.last_action is None else told.last_action),
        drawn=np.int8(-1 if told.drawn is None else oracle.CARDS.index(told.drawn)),
        contested=np.int8(-1 if told.contested is None else oracle.COLORS.index(told.contested)),
        rules=rules,
    )


def random_position(rules: Rules, rng: random.Random) -> oracle.Game:
    """Return an unfinished game with its cards anywhere, often few of them in the deck."""
    names = [name for name, n in zip(oracle.CARDS, rules.deck, strict=True) for _ in range(n)]
    rng.shuffle(names)
    top = names.pop()
    in_deck = rng.randrange(6)
    under_the_top = rng.choice((0, 1, rng.randrange(len(names) - in_deck - 2)))
    in_hands = len(names) - in_deck - under_the_top
    in_hand_0 = rng.choice((in_hands // 2, rng.randrange(1, in_hands)))
    cuts = [0, in_deck, in_deck + under_the_top, in_deck + under_the_top + in_hand_0, len(names)]
    deck, pile, hand_0, hand_1 = (Counter(names[begin:end]) for begin, end in itertools.pairwise(cuts))
    penalty = rng.choice((0, {"+2": 2, "W+4": 4}.get(oracle.rank_of(top), 0)))
    may_be_contested = rules.wild_draw_four == "challenge" and penalty == 4
    return oracle.Game(
        variant=variant(rules),
        hands=[hand_0, hand_1],
        deck=deck,
        pile=pile + Counter([top]),
        top=top,
        color=oracle.color_of(top) or rng.choice(oracle.COLORS),
        player=rng.randrange(2),
        penalty=penalty,
        step_count=rng.randrange(rules.max_steps or 9),
        contested=rng.choice(oracle.COLORS) if may_be_contested else None,
    )


def random_game(rules: Rules, rng: random.Random) -> Iterator[oracle.Game]:
    """Yield the states of a game of at most six steps from a random position."""
    told = random_position(rules, rng)
    for _ in range(6):
        yield told
        if told.is_over:
            return
        told = rng.choice(list(successors(told, rng.choice(sorted(told.legal_actions())))))[0]
