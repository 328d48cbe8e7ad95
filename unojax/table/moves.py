"""Moves: `resolve` and `commit`."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.rules import MATCH_POINTS, POINTS, Rules
from unojax.table import options
from unojax.table.account import Account
from unojax.table.layout import (
    CHOICE_FIELD,
    DEAL,
    HAND_0,
    HAND_1,
    MAX_PENALTY,
    META_BITS,
    OVER_DRAWN,
    OVER_WON_BY_0,
    OWNER_FIELD,
    PHASE_FIELD,
    PILE,
    PLAY,
    PLAY_FIELD,
    POSITION_FIELD,
    RESHUFFLE_FIELD,
    START,
    STEP_FIELD,
    WILD_POSITION,
    WORD_FIELD,
    Meta,
    Table,
)
from unojax.table.nodes import Node, cards_due
from unojax.table.options import Picked


class _Choice(NamedTuple):
    """Kind of the mover's decision: bool, at most one of them."""

    plays: Array
    draws: Array
    passes: Array
    is_right: Array
    is_wrong: Array


class _Draw(NamedTuple):
    """Progress of a draw or a deal.

    Attributes:
        begins, ends: bool, this is its first card, its last one.
        to_draw: uint32 cards still to come.
        lays: bool, its last card is laid on the pile at once.
        goes_on: bool, its last card is kept, and the turn continues.
        deal_ends: bool, both hands are dealt.
    """

    begins: Array
    ends: Array
    to_draw: Array
    lays: Array
    goes_on: Array
    deal_ends: Array


class _Effects(NamedTuple):
    """Effects of a card that is played or laid, or of a turn without one.

    Attributes:
        wins: bool, it was the player's last card.
        skips: bool, it is a Skip or a Reverse.
        draws: uint32 cards that it makes the next player draw.
        penalty: uint32 penalty pending after it.
        passes: bool, the other player is to move.
    """

    wins: Array
    skips: Array
    draws: Array
    penalty: Array
    passes: Array


def resolve(table: Table, node: Node, pick: Picked, coins: Array, rules: Rules) -> Array:
    """Compute everything that happens at a node, as a move (uint32).

    Args:
        table, node: Tables, and their `find_node` results.
        pick: Element of `node.legal` at a decision, of `node.deck` at a chance node; else ignored.
        coins: uint32 random bits, used at START and when chance lays a card (`Rules.play_drawn`): the lowest bit for the first
            player, the highest two for the colour of a wild.
        rules: Static.
    """
    choice = _choice(table, node, pick, rules)
    draw = _draw_progress(table, node, pick, rules)
    effects = _effects(node, pick, choice, draw, rules)
    moved = _moved_card(table, node, pick, rules)
    after = _bookkeeping(node, pick, coins, choice, draw, effects, rules)
    starts_step = node.is_decision | (draw.begins & (node.meta.phase == PLAY))
    # A draw under way has already begun as a step of its own.
    starts_step |= node.is_dead_end & (node.meta.to_draw == 0) if _has_long_draws(rules) else node.is_dead_end
    return (
        jnp.where(node.is_over, table.meta, after.pack())
        | POSITION_FIELD.put(moved.position)
        | WORD_FIELD.put(moved.word)
        | OWNER_FIELD.put(_owner_bits(node, choice, draw, rules))
        | RESHUFFLE_FIELD.put(node.is_reshuffle)
        | STEP_FIELD.put(starts_step)
        | PLAY_FIELD.put(choice.plays)
        | CHOICE_FIELD.put(node.is_decision & (bits.count(node.legal) > 1))
    )


def _has_long_draws(rules: Rules) -> bool:
    """Return whether a draw may be interrupted: by a reshuffle, or before the first turn."""
    return rules.draw_is_option or rules.keeps_account


def _choice(table: Table, node: Node, pick: Picked, rules: Rules) -> _Choice:
    """Classify picks under rules with several options."""
    if not rules.draw_is_option:
        never = jnp.zeros_like(node.is_decision)
        return _Choice(node.is_decision, never, never, never, never)
    account = table.unpack_account()
    takes_draw = node.is_decision & (pick.position == options.DRAW_POSITION)
    challenges = node.is_decision & (pick.position == options.CHALLENGE_POSITION)
    theirs = bits.map_words(lambda low, high, own: (low ^ high) & ~own, table.low, table.high, node.hand)
    is_guilty = (bits.word_at(theirs, account.contested - np.uint32(1)) & bits.COLORED) != 0
    return _Choice(
        plays=node.is_decision & ~takes_draw & ~challenges,
        draws=takes_draw & (account.has_drawn == 0),
        passes=takes_draw & (account.has_drawn != 0),
        is_right=challenges & is_guilty,
        is_wrong=challenges & ~is_guilty,
    )


def _draw_progress(table: Table, node: Node, pick: Picked, rules: Rules) -> _Draw:
    meta = node.meta
    stands_still = node.is_over | node.is_dead_end | node.is_reshuffle
    draws = ~(node.is_decision | (meta.phase == START) | stands_still)
    begins = draws & (meta.to_draw == 0)
    to_draw = jnp.where(draws, jnp.where(begins, cards_due(meta), meta.to_draw) - np.uint32(1), np.uint32(0))
    ends = draws & (to_draw == 0)
    is_deal = meta.phase == DEAL
    deals_next = is_deal & ends & (meta.player == 0)
    to_draw = jnp.where(deals_next, np.uint32(rules.hand_size), to_draw)
    lays, goes_on = _last_drawn(table, node, pick, ends & (meta.phase == PLAY), rules)
    return _Draw(begins, ends, to_draw, lays, goes_on, is_deal & ends & ~deals_next)


def _last_drawn(table: Table, node: Node, pick: Picked, ends_draw: Array, rules: Rules) -> tuple[Array, Array]:
    """Return whether a draw's last card is laid at once, or kept with the turn."""
    never = jnp.zeros_like(ends_draw)
    if not rules.keeps_account and rules.play_drawn == "no":
        return never, never
    meta, rank = node.meta, bits.rank_at(pick.position)
    starts = table.unpack_account().keeps_turn != 0
    is_plain = ends_draw & (meta.penalty == 0) & ~starts
    if rules.play_drawn == "auto":
        fits = (rank >= cards.WILD) | (pick.word == meta.color)
        return is_plain & fits, (is_plain & ~fits if rules.draw_until_playable else never) | (ends_draw & starts)
    hand = bits.insert(node.hand, pick.word, jnp.uint32(1) << pick.position)
    fits = options.fits_top(hand, (pick.word, rank), (meta.color, meta.rank), rules)
    goes_on = never
    if rules.play_drawn == "may":
        goes_on |= is_plain & fits
    if rules.draw_until_playable:
        goes_on |= is_plain & ~fits
    return never, goes_on | (ends_draw & starts)


def _moved_card(table: Table, node: Node, pick: Picked, rules: Rules) -> Picked:
    """Return the card that moves; at a reshuffle the top card, which stays."""
    meta, is_decision = node.meta, node.is_decision
    top_or_played = bits.where(is_decision, node.hand, table.cards_of(PILE, rules))
    copy_word, copy_bit = bits.one_copy(
        top_or_played,
        jnp.where(is_decision, pick.word, meta.color),
        jnp.where(is_decision, bits.rank_at(pick.position), meta.rank),
    )
    if rules.reshuffle_top:
        copy_bit = jnp.where(node.is_reshuffle, np.uint32(0), copy_bit)
    copy_position = jnp.minimum(bits.position_of(copy_bit), np.uint32(31))
    by_type = is_decision | node.is_reshuffle
    return Picked(jnp.where(by_type, copy_word, pick.word), jnp.where(by_type, copy_position, pick.position))


def _owner_bits(node: Node, choice: _Choice, draw: _Draw, rules: Rules) -> Array:
    """Return the moved card's owner bits: a play completes 01 or 10 to 11 (pile)."""
    hand, pile = node.meta.player + np.uint32(1), np.uint32(PILE)
    stands_still = node.is_over | node.is_dead_end | node.is_reshuffle
    if rules.draw_is_option:
        stands_still |= node.is_decision & ~choice.plays
    sets = jnp.where((node.meta.phase == START) | draw.lays, pile, jnp.where(node.is_decision, pile ^ hand, hand))
    return jnp.where(stands_still, np.uint32(0), sets)


def _effects(node: Node, pick: Picked, choice: _Choice, draw: _Draw, rules: Rules) -> _Effects:
    zero, rank = np.uint32(0), bits.rank_at(pick.position)
    acts = choice.plays | draw.lays
    wins = choice.plays & (node.hand_count == 1)
    skips = (rank == cards.SKIP) | (rank == cards.REVERSE)
    forfeits = rank == cards.SKIP if rules.reverse_passes else skips
    keeps_turn = acts & (wins | forfeits if rules.skip_forfeits else wins)
    # A Wild+4 laid by chance carries no penalty.
    draws = jnp.where((rank == cards.WILD_DRAW_FOUR) & ~draw.lays, np.uint32(4), zero)
    draws = jnp.where(rank == cards.DRAW_TWO, np.uint32(2), draws)
    left = jnp.where(choice.plays | draw.ends, zero, node.meta.penalty)
    if rules.wild_draw_four == "challenge":
        left += jnp.where(choice.is_wrong, np.uint32(2), zero)
    added_up = draws + node.meta.penalty if rules.stacking else draws
    return _Effects(
        wins=wins,
        skips=skips,
        draws=draws,
        penalty=jnp.where(acts & ~wins, added_up, left),
        passes=(acts & ~keeps_turn) | (draw.ends & ~draw.lays & ~draw.goes_on) | choice.passes | choice.is_right,
    )


def _bookkeeping(node: Node, pick: Picked, coins: Array, choice: _Choice, draw: _Draw, effects: _Effects, rules: Rules) -> Meta:
    """Compute the bookkeeping for the next node."""
    meta, rank, is_start = node.meta, bits.rank_at(pick.position), node.meta.phase == START
    to_draw, penalty = draw.to_draw, effects.penalty
    if rules.draw_is_option:
        # The cards of a chosen draw come at separate nodes, after a reshuffle if they need one.
        to_draw = jnp.where(choice.draws, cards_due(meta), to_draw)
    if _has_long_draws(rules):
        to_draw = jnp.where(node.is_reshuffle, meta.to_draw, to_draw)
    first_player = coins & np.uint32(1) if rules.first_player == "random" else np.uint32(0)
    if rules.start_effects != "none":
        first_player ^= effects.skips.astype(jnp.uint32)
        if rules.start_effects == "forfeit":
            penalty = jnp.where(is_start, effects.draws, penalty)
        else:
            to_draw = jnp.where(is_start, effects.draws, to_draw)
    by_chance = is_start | draw.lays
    chance_color = jnp.where(rank >= cards.WILD, coins >> np.uint32(30), pick.word)
    return Meta(
        rank=jnp.where(choice.plays | by_chance, rank, meta.rank),
        color=jnp.where(by_chance, chance_color, jnp.where(choice.plays, pick.word, meta.color)),
        player=jnp.where(is_start, first_player, meta.player ^ effects.passes.astype(jnp.uint32)),
        penalty=jnp.minimum(penalty, np.uint32(MAX_PENALTY)) if rules.stacking else penalty,
        to_draw=to_draw,
        phase=_next_phase(node, draw, effects.wins),
    )


def _next_phase(node: Node, draw: _Draw, wins: Array) -> Array:
    meta = node.meta
    fewer = (node.hand_count < node.opponent_count).astype(jnp.uint32)
    won_by_count = np.uint32(OVER_WON_BY_0) + (meta.player ^ fewer ^ np.uint32(1))
    dead_end = jnp.where(node.hand_count == node.opponent_count, np.uint32(OVER_DRAWN), won_by_count)
    phase = jnp.where(draw.deal_ends, np.uint32(START), meta.phase)
    phase = jnp.where(meta.phase == START, np.uint32(PLAY), phase)
    return jnp.where(wins, np.uint32(OVER_WON_BY_0) + meta.player, jnp.where(node.is_dead_end, dead_end, phase))


def commit(table: Table, move: Array) -> Table:
    """Return the tables after a move."""
    moved = jnp.uint32(1) << POSITION_FIELD.get(move)
    word = WORD_FIELD.get(move)
    reshuffles = is_reshuffle(move)
    to_low = jnp.where((move & OWNER_FIELD.bit) != 0, moved, np.uint32(0))
    to_high = jnp.where((move & (OWNER_FIELD.bit << np.uint32(1))) != 0, moved, np.uint32(0))

    def one_color(color: int, low: Array, high: Array) -> tuple[Array, Array]:
        here = word == color
        kept = jnp.where(here, moved, np.uint32(0))
        back_to_deck = jnp.where(reshuffles, low & high & ~kept, np.uint32(0))
        return (
            (low & ~back_to_deck) | jnp.where(here, to_low, np.uint32(0)),
            (high & ~back_to_deck) | jnp.where(here, to_high, np.uint32(0)),
        )

    pairs = [one_color(c, low, high) for c, (low, high) in enumerate(zip(table.low, table.high, strict=True))]
    (l0, h0), (l1, h1), (l2, h2), (l3, h3) = pairs
    account = table.account if isinstance(table.account, tuple) else _next_account(table, table.account, move)
    return Table((l0, l1, l2, l3), (h0, h1, h2, h3), move & META_BITS, account)


def _next_account(table: Table, word: Array, move: Array) -> Array:
    before, old = table.unpack_meta(), Account.unpack(word)
    after = Table(table.low, table.high, move & META_BITS).unpack_meta()
    zero, owner, steps = np.uint32(0), OWNER_FIELD.get(move), is_step(move)
    moves_card, plays = owner != 0, is_play(move)
    lays = plays | (owner == PILE)
    stays = after.player == before.player

    of_card = jnp.where(after.rank == cards.DRAW_TWO, np.uint32(2), jnp.where(after.rank >= cards.WILD, np.uint32(4), zero))
    was_challenged = is_challenge(table, move)
    added = jnp.where(lays, of_card, jnp.where(was_challenged & stays, np.uint32(2), zero))
    goes_on = moves_card & ~lays & (before.phase == PLAY) & (before.penalty == 0) & (after.to_draw == 0) & stays
    goes_on &= old.keeps_turn == 0
    rank = bits.rank_at(POSITION_FIELD.get(move))
    begins = jnp.where(before.phase == START, np.uint32(1), old.keeps_turn)
    may_contest = plays & (after.rank == cards.WILD_DRAW_FOUR) & (after.penalty > 0)

    keeps_drawn = ~(steps | moves_card)
    return Account(
        due=jnp.where(after.penalty == 0, zero, before.penalty + added),
        drawn_color=jnp.where(goes_on & (rank < cards.WILD), WORD_FIELD.get(move), jnp.where(keeps_drawn, old.drawn_color, zero)),
        drawn_rank=jnp.where(goes_on, rank, jnp.where(keeps_drawn, old.drawn_rank, zero)),
        has_drawn=jnp.where(goes_on, np.uint32(1), jnp.where(keeps_drawn, old.has_drawn, zero)),
        contested=jnp.where(may_contest, before.color + np.uint32(1), jnp.where(steps, zero, old.contested)),
        keeps_turn=jnp.where(moves_card & (after.to_draw == 0), zero, begins),
    ).pack()


def visible_part(move: Array, table: Table, player: Array) -> Array:
    """Return the part of a move in play that a player (uint32) sees.

    Hidden are the copy of the type, and the card that the other player drew, so moves that look the same become equal. `table` is
    that before the move.
    """
    is_own_draw = ~is_play(move) & (table.unpack_meta().player == player)
    position, word = POSITION_FIELD.get(move), WORD_FIELD.get(move)
    first = jnp.where((position >= cards.WILD) & (position < WILD_POSITION), position - np.uint32(12), position)
    card = POSITION_FIELD.put(first) | WORD_FIELD.put(jnp.where(position >= WILD_POSITION, np.uint32(0), word))
    # The bookkeeping after a play shows its card. Whether there was a choice stays hidden.
    return (move & ~(POSITION_FIELD.mask | WORD_FIELD.mask | CHOICE_FIELD.mask)) | jnp.where(is_own_draw, card, np.uint32(0))


def card_points(table: Table, rules: Rules) -> Array:
    """Sum the points in the loser's hand: int32[...], meaningless without a loser."""
    is_won_by_0 = table.unpack_meta().phase == OVER_WON_BY_0
    left = bits.type_counts(bits.where(is_won_by_0, table.cards_of(HAND_1, rules), table.cards_of(HAND_0, rules)))
    return (left * cards.along_last(np.asarray(POINTS, np.int32), left.ndim)).sum(-1)


def points_won(table: Table, rules: Rules) -> Array:
    """Return `card_points` in units of `MATCH_POINTS`: float32[...]."""
    return card_points(table, rules).astype(jnp.float32) / np.float32(MATCH_POINTS)


def stay(table: Table) -> Array:
    """Return the move that changes nothing."""
    return table.meta


def concede(table: Table, player: Array, gives_up: Array) -> Table:
    """End games as lost for a player, uint32, if it gives up, bool."""
    lost = (table.meta & ~PHASE_FIELD.mask) | PHASE_FIELD.put(
        np.uint32(OVER_WON_BY_0) + (player.astype(jnp.uint32) ^ np.uint32(1))
    )
    return table._replace(meta=jnp.where(gives_up, lost, table.meta))


def is_reshuffle(move: Array) -> Array:
    """Return whether the pile goes back into the deck."""
    return (move & RESHUFFLE_FIELD.bit) != 0


def is_step(move: Array) -> Array:
    """Return whether moves began a step: a play, a whole draw, or an impossible draw."""
    return (move & STEP_FIELD.bit) != 0


def is_play(move: Array) -> Array:
    """Return whether moves are plays of a card."""
    return (move & PLAY_FIELD.bit) != 0


def is_challenge(table: Table, move: Array) -> Array:
    """Return whether moves challenge a Wild+4, from the table before them."""
    before, after = table.unpack_meta(), Table(table.low, table.high, move & META_BITS).unpack_meta()
    stands = is_step(move) & ((move & OWNER_FIELD.mask) == 0) & (after.to_draw == 0) & (after.phase == PLAY)
    return stands & (before.penalty > 0)


def is_card_drawn(move: Array) -> Array:
    """Return whether moves draw, deal or turn up a card."""
    return ((move & OWNER_FIELD.mask) != 0) & ~is_play(move)


def is_choice(move: Array) -> Array:
    """Return whether there was more than one legal action."""
    return (move & CHOICE_FIELD.bit) != 0
