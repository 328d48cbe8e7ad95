"""The flat Monte Carlo of `unojax.search` in plain NumPy, for the default rules and the linear policy: a peer for its speed.

All rollouts of one decision, or of several, go through the same NumPy calls, one step of each game at a time; finished ones are
dropped when enough have gathered. Sets of cards are uint32[4, N] in the layout of `unojax.bits`. The deck is a row of labels in
no order, from which a draw takes a random one and puts the last in its place. A +2 or Wild+4 and the draw that it forces are one
step, since nobody decides between them. What each iteration must touch of all games is kept to whole-array operations; what
concerns a part of them (choices, wild cards, draws, reshuffles) is done for that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np

from benchmarks.numpy_linear import linear_narrow
from unojax import bits, cards
from unojax.observation import Observation
from unojax.rules import Rules

_ONE: Final = np.uint32(1)
_COPY_SHIFT: Final = np.uint32(12)
_HAS_SECOND_COPY: Final = np.uint32(0x1FFE)
_MOVES_AGAIN: Final = np.uint32(0b11 << cards.SKIP)
_DRAW_TWO: Final = np.uint32(1 << cards.DRAW_TWO)
_EVERYTHING: Final = np.array(bits.all_cards(Rules().deck), np.uint32)[:, None]
_SLOTS: Final = np.arange(cards.NUM_CARDS)
_WORD_OF_LABEL: Final = (_SLOTS // cards.SLOTS_PER_COLOR).astype(np.intp)
_BIT_OF_LABEL: Final = np.left_shift(_ONE, (_SLOTS % cards.SLOTS_PER_COLOR).astype(np.uint32))
_TYPE_OF_SLOT: Final = np.eye(cards.NUM_TYPES, dtype=np.float32)[cards.TYPE_OF_SLOT]
_COLORS: Final = np.arange(cards.NUM_COLORS, dtype=np.uint8)[:, None]
_COMPACT_BELOW: Final = 0.85
"""Share of unfinished games at which the others are dropped."""


class Decision(NamedTuple):
    """What a search is given.

    Attributes:
        observation: of the player to move, who has a choice; NumPy arrays.
        hands: uint32[4, P] canonical sets that the opponent may hold.
        log_weights: float32[P] nats.
    """

    observation: Observation
    hands: np.ndarray
    log_weights: np.ndarray


class Estimates(NamedTuple):
    """For the A legal plays of a decision: int[A] their numbers, float64[A] mean returns and the standard errors of these."""

    actions: np.ndarray
    value: np.ndarray
    value_error: np.ndarray


@dataclass
class _Games:
    """N games in progress, seen from whoever moves next.

    Attributes:
        mover, other, pile: uint32[4, N] cards of the player to move, of the other one, and played.
        deck: uint8[N, 108] labels of the cards left in the first `deck_count` places of each row, in no order.
        deck_count: int32[N].
        color: uint8[N] the active one.
        top: uint32[N] option bit of the top card.
        is_first: bool[N] the mover is the player who decides.
        number: int32[N] of the rollout.
        is_live: bool[N] unfinished; the others go on without meaning until they are dropped.
    """

    mover: np.ndarray
    other: np.ndarray
    pile: np.ndarray
    deck: np.ndarray
    deck_count: np.ndarray
    color: np.ndarray
    top: np.ndarray
    is_first: np.ndarray
    number: np.ndarray
    is_live: np.ndarray

    def take(self, at: np.ndarray) -> _Games:
        """Some of the games."""
        return _Games(**{name: value[:, at] if name in _BY_WORD else value[at] for name, value in vars(self).items()})

    @classmethod
    def join(cls, parts: Sequence[_Games]) -> _Games:
        """Games side by side, numbered anew."""
        names = [field.name for field in fields(cls)]
        every = {name: np.concatenate([getattr(p, name) for p in parts], axis=int(name in _BY_WORD)) for name in names}
        return cls(**every | {"number": np.arange(len(every["number"]), dtype=np.int32)})


_BY_WORD: Final = ("mover", "other", "pile")


def flat_monte_carlo(decisions: Sequence[Decision], num_rollouts: int, rng: np.random.Generator) -> tuple[list[Estimates], int]:
    """Estimate every legal play of some decisions; the second result is the number of steps of all rollouts.

    Args:
        decisions: all are searched at once; a few at a time are faster than one, since some games take long.
        num_rollouts: R, of each play. Samples of the hand are the same for all plays of a decision, random draws are not.
        rng: advanced.
    """
    actions, parts, options = [], [], []
    for decision in decisions:
        plays = np.flatnonzero(_legal_plays(decision.observation))
        sampled = decision.hands[:, _systematic(decision.log_weights, num_rollouts, rng)]
        parts.append(_place(decision.observation, sampled).take(np.tile(np.arange(num_rollouts), len(plays))))
        options.append(np.repeat(_options(plays), num_rollouts, axis=1))
        actions.append(plays)
    returns, num_steps = _play_out(_Games.join(parts), np.concatenate(options, axis=1), rng)
    rows = returns.reshape(-1, num_rollouts).astype(np.float64)
    value, error = rows.mean(1), rows.std(1, ddof=1) / np.sqrt(num_rollouts)
    ends = np.cumsum([len(plays) for plays in actions])[:-1]
    return [Estimates(*each) for each in zip(actions, np.split(value, ends), np.split(error, ends), strict=True)], num_steps


def choose(estimates: Estimates, observation: Observation, keep: float, rng: np.random.Generator) -> int:
    """The play of highest value, unless it is less than `keep` standard errors better than the linear policy's own."""
    options = np.bitwise_or.reduce(_options(estimates.actions), axis=1, keepdims=True)
    hand, pile = _words(np.asarray(observation.hand)[None]), _words(np.asarray(observation.pile)[None])
    count = np.array([int(observation.opponent_count)])
    unseen = count + int(observation.deck_count)
    picked = _pick(linear_narrow(hand, pile, np.array([int(observation.color)]), count, unseen, options), rng)
    base = int((_options(estimates.actions) == picked).all(0).argmax())
    best = int(estimates.value.argmax())
    # Draws are not in common, so the errors of two plays add up.
    error = np.hypot(estimates.value_error[best], estimates.value_error[base])
    is_better = estimates.value[best] - estimates.value[base] > keep * error
    return int(estimates.actions[best if is_better else base])


def _play_out(games: _Games, options: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """float32[N] returns of the players who decide, and the number of steps. `options`: each game's first play."""
    returns = np.zeros(games.number.size, np.float32)
    num_live, num_steps = returns.size, 0
    while True:
        num_steps += num_live
        for ended, outcome in _step(games, options, rng):
            new = ended & games.is_live
            returns[games.number[new]] = outcome[new]
            games.is_live &= ~new
        num_live = int(np.count_nonzero(games.is_live))
        if num_live == 0:
            return returns, num_steps
        if num_live < _COMPACT_BELOW * games.number.size:
            games = games.take(np.flatnonzero(games.is_live))
        options = _playable(games)


def _step(games: _Games, options: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Play one of the options in each game, or draw where there are none.

    Returns:
        For each way to end: bool[N] the games that did, and float32[N] the returns.
    """
    number = _count(options)
    at = np.flatnonzero(number > 1)
    if at.size:
        opponent_count = _count(games.other[:, at])
        favoured = linear_narrow(
            games.mover[:, at],
            games.pile[:, at],
            games.color[at],
            opponent_count,
            opponent_count + games.deck_count[at],
            options[:, at],
        )
        options[:, at] = _pick(favoured, rng)

    bit = _any_of(options)
    plays = bit != 0
    copies = games.mover & (options | (options & _HAS_SECOND_COPY) << _COPY_SHIFT)
    card = copies & (~copies + _ONE)
    wild = np.flatnonzero(bit >= bits.WILD_BIT)
    if wild.size:
        # Any of the four words may hold it, whatever colour is declared.
        card[:, wild] = 0
        card[((games.mover[:, wild] & bit[wild]) != 0).argmax(0), wild] = bit[wild]
    games.mover ^= card
    games.pile |= card
    np.copyto(games.top, bit, where=plays)
    np.copyto(games.color, (options != 0).argmax(0).astype(np.uint8), where=plays)
    won = _any_of(games.mover) == 0
    outcome = np.where(games.is_first, np.float32(1), np.float32(-1))

    # After +2 and Wild+4 the other player draws and one moves again; who can't play draws and the turn passes. Seen from whoever
    # moves next it is always the other player who draws.
    draws = np.where(plays, 0, 1)
    draws[bit == _DRAW_TWO] = 2
    draws[bit == bits.WILD_DRAW_FOUR_BIT] = 4
    passes = (bit & (_MOVES_AGAIN | _DRAW_TWO | bits.WILD_DRAW_FOUR_BIT)) == 0
    change = (games.mover ^ games.other) & (np.uint32(0) - passes.astype(np.uint32))
    games.mover ^= change
    games.other ^= change
    games.is_first ^= passes
    draws[won] = 0
    return [(won, outcome), *_draw(games, draws, rng)]


def _draw(games: _Games, draws: np.ndarray, rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Give the player who does not move next so many cards; `_step` says what is returned."""
    ends = []
    at = np.flatnonzero(draws)
    short = at[games.deck_count[at] < draws[at]]
    if short.size:
        _reshuffle(games, short)
        short = short[games.deck_count[short] < draws[short]]
        if short.size:
            is_over = np.zeros(draws.size, bool)
            is_over[short] = True
            margin = np.zeros(draws.size, np.float32)
            margin[short] = np.sign(_count(games.other[:, short]) - _count(games.mover[:, short]))
            ends.append((is_over, np.where(games.is_first, margin, -margin)))
            draws[short] = 0
            at = at[draws[at] > 0]
    while at.size:
        count = games.deck_count[at]
        place = (rng.random(at.size, np.float32) * count).astype(np.int32)
        label = games.deck[at, place]
        games.deck[at, place] = games.deck[at, count - 1]
        games.deck_count[at] = count - 1
        games.other[_WORD_OF_LABEL[label], at] |= _BIT_OF_LABEL[label]
        draws[at] -= 1
        at = at[draws[at] > 0]
    return ends


def _reshuffle(games: _Games, at: np.ndarray) -> None:
    """Put the pile except its top card back into the deck, if there is more than that."""
    pile = games.pile[:, at]
    at = at[_count(pile) > 1]
    pile, bit = games.pile[:, at], games.top[at]
    is_wild = bit >= bits.WILD_BIT
    copies = pile & np.where(is_wild | (games.color[at] == _COLORS), bit | (bit & _HAS_SECOND_COPY) << _COPY_SHIFT, np.uint32(0))
    word = (copies != 0).argmax(0)
    lanes = np.arange(at.size)
    top = copies[word, lanes]
    kept = np.zeros_like(pile)
    kept[word, lanes] = top & (~top + _ONE)
    games.pile[:, at] = kept
    in_deck = _bools(_EVERYTHING & ~(games.mover[:, at] | games.other[:, at] | kept))
    games.deck_count[at] = in_deck.sum(1)
    # Cards of the deck first, in the order of their labels.
    games.deck[at] = np.argsort(~in_deck, axis=1, kind="stable")


def _playable(games: _Games) -> np.ndarray:
    """uint32[4, N]: options of the players to move."""
    held = games.mover
    types = held | (held & bits.SECOND_COPIES) >> _COPY_SHIFT
    types &= np.where(games.color == _COLORS, bits.FIRST_COPIES, games.top & bits.FIRST_COPIES)
    types |= _any_of(held) & bits.WILDS
    return types


def _pick(options: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """uint32[4, N]: one of the options, each with equal probability."""
    number = _count(options)
    at = np.flatnonzero(number > 1)
    skips = (rng.random(at.size, np.float32) * number[at]).astype(np.int32)
    options = options.copy()
    while (left := skips > 0).any():
        at, skips = at[left], skips[left] - 1
        word = (options[:, at] != 0).argmax(0)
        options[word, at] &= options[word, at] - _ONE
    # The lowest one that is left.
    word, lanes = (options != 0).argmax(0), np.arange(options.shape[1])
    lowest = options[word, lanes]
    picked = np.zeros_like(options)
    picked[word, lanes] = lowest & (~lowest + _ONE)
    return picked


def _systematic(log_weights: np.ndarray, num: int, rng: np.random.Generator) -> np.ndarray:
    """int[num]: indices drawn systematically by weight, in random order."""
    ends = np.exp(log_weights.astype(np.float64) - log_weights.max()).cumsum()
    index = np.searchsorted(ends, (np.arange(num) + rng.random()) * (ends[-1] / num), side="right")
    return rng.permutation(np.minimum(index, len(ends) - 1))


def _place(observation: Observation, hands: np.ndarray) -> _Games:
    """The games as the player to move would see them if the opponent held the hands, uint32[4, R]; the deck gets the rest."""
    num = hands.shape[1]
    total = np.asarray(observation.rules.deck)
    own = np.bincount(cards.TYPE_OF_SLOT[np.asarray(observation.hand)], minlength=cards.NUM_TYPES)
    pile = np.bincount(cards.TYPE_OF_SLOT[np.asarray(observation.pile)], minlength=cards.NUM_TYPES)
    theirs = (_bools(hands).astype(np.float32) @ _TYPE_OF_SLOT).astype(np.int32)
    # Own cards are the first copies of a type, the opponent's the next, those of the pile the last.
    copy, own_ends = cards.COPY_OF_SLOT, own[cards.TYPE_OF_SLOT]
    is_own = copy < own_ends
    is_pile = copy >= (total - pile)[cards.TYPE_OF_SLOT]
    is_theirs = ~is_own & (copy < own_ends + theirs[:, cards.TYPE_OF_SLOT])
    in_deck = ~(is_own | is_pile | is_theirs)
    return _Games(
        mover=np.repeat(_words(is_own[None]), num, axis=1),
        other=_words(is_theirs),
        pile=np.repeat(_words(is_pile[None]), num, axis=1),
        deck=np.argsort(~in_deck, axis=1, kind="stable").astype(np.uint8),
        deck_count=in_deck.sum(1).astype(np.int32),
        color=np.full(num, int(observation.color), np.uint8),
        top=np.full(num, _options(np.array([int(observation.top_rank)]))[0], np.uint32),
        is_first=np.ones(num, bool),
        number=np.arange(num, dtype=np.int32),
        is_live=np.ones(num, bool),
    )


def _legal_plays(observation: Observation) -> np.ndarray:
    """bool[60]."""
    rank = np.tile(np.arange(cards.NUM_RANKS), cards.NUM_COLORS)
    color = np.repeat(np.arange(cards.NUM_COLORS), cards.NUM_RANKS)
    card_type = np.where(rank >= cards.WILD, rank + 39, color * 13 + rank)
    held = np.bincount(cards.TYPE_OF_SLOT[np.asarray(observation.hand)], minlength=cards.NUM_TYPES)[card_type] > 0
    return held & ((rank >= cards.WILD) | (rank == int(observation.top_rank)) | (color == int(observation.color)))


def _options(actions: np.ndarray) -> np.ndarray:
    """uint32[4, A]: the option of each of the plays int[A], alone."""
    color, rank = np.divmod(actions, cards.NUM_RANKS)
    bit = np.left_shift(_ONE, np.where(rank < cards.WILD, rank, rank + 12).astype(np.uint32))
    return np.where(color == _COLORS, bit, np.uint32(0))


def _count(words: np.ndarray) -> np.ndarray:
    n0, n1, n2, n3 = np.bitwise_count(words)
    return ((n0 + n1) + (n2 + n3)).astype(np.int32)


def _any_of(words: np.ndarray) -> np.ndarray:
    return (words[0] | words[1]) | (words[2] | words[3])


def _bools(words: np.ndarray) -> np.ndarray:
    """bool[N, 108] of uint32[4, N]."""
    return (words[_WORD_OF_LABEL].T & _BIT_OF_LABEL) != 0


def _words(onehot: np.ndarray) -> np.ndarray:
    """uint32[4, N] of bool[N, 108]."""
    slots = onehot.reshape(-1, cards.NUM_COLORS, cards.SLOTS_PER_COLOR)
    return np.where(slots, _BIT_OF_LABEL[: cards.SLOTS_PER_COLOR], np.uint32(0)).sum(-1, dtype=np.uint32).T.copy()
