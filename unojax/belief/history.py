"""Infer the events of one transition from the observations before and after it.

A transition is one action of one player, including the whole draw. The functions use only public facts and the observer's own
hand, not `last_action`, so they also support positions set up by hand. All are pure, unbatched, and jit- and vmap-able.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game
from unojax.bits import Words
from unojax.device.combinatorics import log_binomial
from unojax.device.random_bits import hash_bits
from unojax.device.tracing import traced_once
from unojax.observation import Observation, check_is_observation, determinize_packed, observe_packed
from unojax.rules import check_same_rules
from unojax.table.options import has_drawable

Prior = Literal["uniform", "deal"]
"""Prior at the start of a belief; `exact.exact_init` defines both."""


def check_prior(prior: Prior) -> None:
    """Raise a ValueError if there is no such prior."""
    if prior not in get_args(Prior):
        raise ValueError(f"prior must be one of {get_args(Prior)}, got {prior!r}")


def imagine(observation: Observation, hand: ArrayLike) -> Observation:
    """Return the opponent's view at the same moment if it holds `hand` (bool[108], with `opponent_count` cards)."""
    return dataclasses.replace(
        observation,
        player=(1 - observation.player).astype(observation.player.dtype),
        hand=jnp.asarray(hand),
        opponent_count=observation.hand_count,
    )


def playable_types(color: ArrayLike, rank: ArrayLike) -> Any:
    """Mark the card types that may be played on a top card of `rank` with `color` active; wild cards always may: bool[54]."""
    return layable_types(color) | (cards.RANK_OF_TYPE == rank)


def layable_types(color: ArrayLike) -> Any:
    """Mark the card types that a draw lays on the pile at once (`Rules.play_drawn` "auto") with `color` active: bool[54]."""
    return (cards.COLOR_OF_TYPE == color) | (cards.COLOR_OF_TYPE < 0)


def opponent_moved(before: Observation) -> Array:
    """Return whether the transition after `before` is the opponent's: bool[]."""
    return before.current_player != before.player


def infer_action(before: Observation, after: Observation) -> Array:
    """Infer the public action between two observations: int32[].

    * Play: the mover's hand shrinks. The top card may look the same after it (a second red 5 on a red 5).
    * Draw: a hand grows, the pile grows although no hand changes (the drawn card was laid), or the game ends with unchanged hands
      (an impossible draw).
    * Pass: the turn no longer continues. Challenge: the Wild+4 is no longer contested.

    Otherwise (the game was over, or the action illegal) the result is `game.NO_ACTION`, -1.

    Raises:
        ValueError: If an argument is no observation.
    """
    for seen in (before, after):
        check_is_observation(seen, "infer_action")
    change = jnp.where(opponent_moved(before), after.opponent_count - before.opponent_count, after.hand_count - before.hand_count)
    play = after.color.astype(jnp.int32) * cards.NUM_RANKS + after.top_rank.astype(jnp.int32)
    drew = (change > 0) | (after.terminated & ~before.terminated)
    if before.rules.play_drawn == "auto":
        drew |= laid_card(before, after) & (change == 0)
    if before.rules.play_drawn == "may":
        drew |= before.has_drawn & ~after.has_drawn & (change == 0)
    if before.rules.wild_draw_four == "challenge":
        challenged = (before.contested >= 0) & (after.contested < 0) & (change == 0) & ~after.terminated
        nothing = jnp.where(challenged, cards.CHALLENGE, game.NO_ACTION)
    else:
        nothing = game.NO_ACTION
    return jnp.where(change < 0, play, jnp.where(drew, cards.DRAW, nothing)).astype(jnp.int32)


def laid_card(before: Observation, after: Observation) -> Array:
    """Return whether a card came from the deck onto the pile (`Rules.play_drawn` "auto"), if no hand changed: bool[].

    The deck, the top card or the turn then changes. (Exception: if the only card in deck and pile is a Skip that comes up again,
    nothing changes.)
    """
    names = ("deck_count", "top_rank", "color", "penalty", "current_player")
    differs = jnp.stack([getattr(before, name) != getattr(after, name) for name in names]).any()
    return differs & (before.penalty == 0) & ~after.terminated


class Step(NamedTuple):
    """Public facts of one transition.

    Attributes:
        action: int32[] as from `infer_action`.
        theirs: bool[] the opponent moved.
        draws_on: bool[] action 60, if it is that, was a draw and no pass.
        played_type: int32[] card type 0..53 of a play.
        laid: int32[] card type that a draw laid on the pile at once (`Rules.play_drawn` "auto"); -1 if none.
        reshuffled: bool[] the pile went back into the deck, before any draw.
        opponent_drew: int32[] number of cards that the opponent drew and kept.
        seen: int8[54] cards whose draw the observer saw, by type: its own, and the card laid.
        unseen: int8[54] cards of opponent and deck before the first card drawn, after a reshuffle.
    """

    action: Array
    theirs: Array
    draws_on: Array
    played_type: Array
    laid: Array
    reshuffled: Array
    opponent_drew: Array
    seen: Array
    unseen: Array


@traced_once
def read_step(before: Observation, after: Observation) -> Step:
    """Read the public facts of the transition between two observations."""
    rules, action = before.rules, infer_action(before, after)
    drew, seen, grown = opponent_drew(before, after), observer_drew(before, after), after.opponent_count > before.opponent_count
    composition = jnp.asarray(np.asarray(rules.deck, np.int8))
    unseen, laid = composition - cards.counts(before.hand) - cards.counts(after.pile), jnp.int32(-1)
    num_before, num_after = before.pile.sum(-1), after.pile.sum(-1)
    if rules.play_drawn == "auto":
        is_laid = (action == cards.DRAW) & ~((drew > 0) | seen.any()) & ~after.terminated
        laid = jnp.where(is_laid, played_type(after), -1).astype(jnp.int32)
        card_laid = (np.arange(cards.NUM_TYPES) == laid).astype(np.int8)
        seen, unseen, num_after = seen + card_laid, unseen + card_laid, num_after - is_laid.astype(jnp.int32)
    return Step(
        action=action,
        theirs=opponent_moved(before),
        draws_on=grown | after.terminated,
        played_type=played_type(after),
        laid=laid,
        reshuffled=num_after < num_before,
        opponent_drew=drew,
        seen=seen,
        unseen=unseen,
    )


def log_seen_draw(before: Observation, step: Step, held: ArrayLike = 0) -> Array:
    """Compute the log probability of the cards drawn in sight, if the opponent holds `held` (int32[54]): float32[] nats.

    With n cards of the deck seen, of J_t types, it is prod_t C(U_t - H_t, J_t) / C(|U| - |H|, n).
    """
    unseen, drawn = step.unseen.astype(jnp.int32), step.seen.astype(jnp.int32)
    deck_count = unseen.sum(dtype=jnp.int32) - before.opponent_count.astype(jnp.int32)
    log_prob = log_binomial(jnp.maximum(unseen - held, 0), drawn).sum(-1) - log_binomial(deck_count, drawn.sum(dtype=jnp.int32))
    if before.rules.play_drawn != "auto":
        return log_prob
    # The colour of a wild that is laid is uniform over four.
    return log_prob - jnp.where(step.laid >= cards.WILD_TYPE, np.float32(math.log(cards.NUM_COLORS)), 0.0)


def apply_hidden(
    before: Observation, hand: Array, drawn: Array, action: Array, left: Array, color: Array
) -> tuple[Array, Observation]:
    """Apply an action, given the hidden cards: whether it is legal, bool[], and the observer's next observation.

    Args:
        before: The observer's observation before the action.
        hand: int8[54] the opponent's hand.
        drawn: int8[] type of the card that the player to move has just drawn; -1 if none.
        action: int32[] action.
        left: int8[54] deck after the action.
        color: int8[] colour of a wild card that is laid by chance.
    """
    imagined = determinize_packed(dataclasses.replace(before, drawn=drawn), bits.pack(cards.onehot(hand)))
    packed = game.begin_packed(imagined, before.rules, last_action=before.last_action)
    reached = game.step_packed_with(packed, action, game.GivenCards(bits.pack(cards.onehot(left)), color))
    return reached.error == 0, observe_packed(reached, before.player)


def is_one_step(before: Observation, after: Observation) -> Array:
    """Return whether one play, one draw or nothing lies between two observations of a player: bool[].

    The check runs the rules: it takes the step from the position, with hidden cards that may explain it, and compares the result
    with `after`, except `last_action`. At most one hidden card matters: one in the hand that was just drawn or contested, or else
    the card that the opponent draws. It may be of any type, so all types are tried.

    Raises:
        ValueError: If the rules of the two differ.
    """
    check_same_rules(before.rules, after.rules)
    step = read_step(before, after)
    is_play = step.theirs & (step.action >= 0) & (step.action < cards.DRAW)
    played = ((np.arange(cards.NUM_TYPES) == step.played_type) & is_play).astype(jnp.int8)
    # Cards that may have stayed in the hidden hand, unplayed.
    could_keep = jnp.maximum(jnp.minimum(before.unseen - played, after.unseen), np.int8(0))
    could_keep = jnp.where(types_ruled_out(before, step.action, after), np.int8(0), could_keep)
    number = before.opponent_count - played.sum(dtype=jnp.int8)
    has_drawn = step.theirs & before.has_drawn
    is_held = (has_drawn & (before.rules.play_drawn == "may")) | (~step.theirs & (step.action == cards.CHALLENGE))

    def is_explained(special: Array) -> Array:
        """Return whether the step is possible if the hidden card that matters is `special`, int8[54] with a single 1."""
        in_hand, to_draw = jnp.where(is_held, special, 0), jnp.where(is_held, 0, special)
        others = jnp.where(step.opponent_drew > 0, jnp.minimum(could_keep, step.unseen - to_draw), could_keep)
        kept = _with(in_hand, others, number)
        picks = _with(to_draw, step.unseen - kept, step.opponent_drew.astype(jnp.int8))
        card = jnp.where(is_play, step.played_type, jnp.argmax(special).astype(jnp.int32)).astype(jnp.int8)
        drawn = jnp.where(has_drawn, card, before.drawn)
        left = jnp.maximum(after.unseen - kept - picks, np.int8(0))
        is_legal, reached = apply_hidden(before, kept + played, drawn, step.action, left, after.color)
        reached = dataclasses.replace(reached, last_action=after.last_action)
        same = jax.tree.leaves(jax.tree.map(lambda a, b: (a == b).all(), reached, after))
        is_legal |= step.action == game.NO_ACTION
        return jnp.stack(same).all() & (kept.sum(dtype=jnp.int8) == number) & is_legal

    return jax.vmap(is_explained)(jnp.eye(cards.NUM_TYPES, dtype=jnp.int8)).any()


def _with(some: Array, available: Array, number: Array) -> Array:
    """Take `number` of the available cards, int8[54], those of `some` first if they are among them."""
    first = jnp.clip(jnp.minimum(some, available), 0, number)
    return first + cards.first(jnp.maximum(available - first, 0), number - first.sum(dtype=jnp.int8))


def types_ruled_out(before: Observation, action: ArrayLike, after: Observation) -> Array:
    """Mark the types that the opponent's hand cannot have held, by its action and a challenge: bool[54].

    The played card does not count: a player of a Wild+4 may hold another. A voluntary choice of the opponent proves nothing.
    """
    rules, action = before.rules, jnp.asarray(action)
    fits = playable_types(before.color, before.top_rank)
    of_color = np.arange(cards.NUM_COLORS)[:, None] == cards.COLOR_OF_TYPE
    theirs = opponent_moved(before)
    ruled_out = fits & opponent_could_not_play(before, action)
    draws_four = theirs & (action % cards.NUM_RANKS == cards.WILD_DRAW_FOUR) & (action >= 0) & (action < cards.DRAW)
    if rules.wild_draw_four == "no_color":
        ruled_out |= draws_four & jnp.asarray(of_color)[before.color]
    if rules.wild_draw_four == "last":
        ruled_out |= draws_four & fits & (np.arange(cards.NUM_TYPES) != cards.WILD_DRAW_FOUR_TYPE)
    if rules.stacking and not rules.may_draw:
        # A player who could answer had to.
        takes = theirs & (action == cards.DRAW) & (before.penalty > 0) & (before.contested < 0)
        if rules.wild_draw_four in ("challenge", "no_color", "last"):
            takes &= before.top_rank == cards.DRAW_TWO
        ruled_out |= takes & (cards.RANK_OF_TYPE == before.top_rank)
    if rules.wild_draw_four == "challenge":
        innocent = ~theirs & (action == cards.CHALLENGE) & (after.current_player == before.current_player)
        ruled_out |= innocent & jnp.asarray(of_color)[before.contested]
    return ruled_out


@traced_once
def fingerprint(observation: Observation) -> Array:
    """Hash an observation, except its last action: uint32[]. Two different ones collide with probability 2^-32."""
    seen = observation
    counts = seen.opponent_count, seen.deck_count, seen.penalty, seen.drawn, seen.top_rank, seen.color, seen.contested
    turn = seen.player, seen.current_player, seen.terminated, seen.has_drawn
    numbers = (jnp.asarray(number).astype(jnp.uint32) for number in (*counts, *turn))
    words = jnp.stack([*bits.pack(seen.hand), *bits.pack(seen.pile), *numbers])
    # Position-dependent, so that the order of words matters.
    return hash_bits(words, np.arange(1, len(words) + 1, dtype=np.uint32)).sum(dtype=jnp.uint32)


def is_consistent(before: Observation, action: Array, after: Observation) -> Array:
    """Return whether an action may explain two observations, by the cards alone: bool[].

    Only the mover's cards change, and no card is lost. This detects another action, a missing transition, and the other player's
    view. `belongs` proves it by the rules of the game, at some hundred times the cost.

    Raises:
        ValueError: If the rules of the two differ.
    """
    check_same_rules(before.rules, after.rules)
    rules, step = before.rules, read_step(before, after)
    theirs, shown = step.theirs, step.action
    is_play, is_draw = (shown >= 0) & (shown < cards.DRAW), shown == cards.DRAW
    types = np.arange(cards.NUM_TYPES)
    hand, hand_after, pile, pile_after = (
        cards.counts(onehot).astype(jnp.int32) for onehot in (before.hand, after.hand, before.pile, after.pile)
    )
    played = ((types == step.played_type) & is_play).astype(jnp.int32)
    laid = (types == step.laid).astype(jnp.int32)
    top = jnp.zeros_like(pile) if rules.reshuffle_top else (types == played_type(before)).astype(jnp.int32)
    left = jnp.where(is_draw & step.reshuffled, top, pile)
    fits = (pile_after == left + played + laid).all() & (hand_after - hand + jnp.where(theirs, 0, played) >= 0).all()

    theirs_before, theirs_after, deck_after = (
        count.astype(jnp.int32) for count in (before.opponent_count, after.opponent_count, after.deck_count)
    )
    own_change, their_change = hand_after.sum() - hand.sum(), theirs_after - theirs_before
    change, other = jnp.where(theirs, their_change, own_change), jnp.where(theirs, own_change, their_change)
    due = jnp.maximum(before.penalty.astype(jnp.int32), 1)
    fits &= (other == 0) & jnp.where(is_play, change == -1, (change == 0) | (is_draw & (change == due)))
    fits &= hand_after.sum() + theirs_after + pile_after.sum() + deck_after == rules.num_cards
    fits &= before.player == after.player
    return fits & jnp.where(shown < 0, fingerprint(before) == fingerprint(after), shown == action)


@traced_once
def belongs(before: Observation, action: Array, after: Observation) -> Array:
    """Return whether an action explains two observations: bool[].

    They are one transition apart, and `action` is that step. If nothing happened, any action fits, as a rejected one.
    """
    shown = infer_action(before, after)
    return is_one_step(before, after) & ((shown < 0) | (shown == action))


def unseen_words(observation: Observation) -> Words:
    """Return the opponent's hand and the deck together: a packed canonical set."""
    not_in_pile = bits.canonical(bits.without(bits.all_cards(observation.rules.deck), bits.pack(observation.pile)))
    return bits.canonical(bits.without(not_in_pile, bits.pack(observation.hand)))


def played_type(after: Observation) -> Array:
    """Return the card type 0..53 on top after a play, which is the played card: int32[]."""
    return cards.type_of(after.color, after.top_rank)


def opponent_drew(before: Observation, after: Observation) -> Array:
    """Count the cards that the opponent drew: int32[], possibly 0."""
    return jnp.maximum(after.opponent_count.astype(jnp.int32) - before.opponent_count.astype(jnp.int32), 0)


def observer_drew(before: Observation, after: Observation) -> Array:
    """Count the cards that the observer drew, by type: int8[54], possibly zeros."""
    return jnp.maximum(cards.counts(after.hand) - cards.counts(before.hand), 0)


def opponent_could_not_play(before: Observation, action: ArrayLike) -> Array:
    """Return whether `action` was the opponent's forced draw without penalty, so that it held no playable card: bool[].

    False if drawing is optional, or the turn continues after a draw.
    """
    drew = opponent_moved(before) & (jnp.asarray(action) == cards.DRAW) & (before.penalty == 0)
    if before.rules.keeps_account:
        drew &= ~before.has_drawn
    if before.rules.may_draw:
        drew &= ~has_drawable(before.deck_count.astype(jnp.int32), before.pile.sum(-1, dtype=jnp.int32), before.rules)
    return drew


def looks_dealt(observation: Observation) -> Array:
    """Return whether a position is, or looks like, one right after the deal, so that the prior "deal" applies: bool[]."""
    rules, rank = observation.rules, observation.top_rank
    own, other = (count.astype(jnp.int32) for count in (observation.hand_count, observation.opponent_count))
    if rules.start_effects == "keep_turn":
        drawn = jnp.asarray(cards.DRAW_OF_RANK, jnp.int32)[rank.astype(jnp.int32)]
        is_first = observation.current_player == observation.player
        own, other = jnp.where(is_first, own - drawn, own), jnp.where(is_first, other, other - drawn)
    dealt = (observation.last_action == game.NO_ACTION) & (observation.pile.sum(-1, dtype=jnp.int32) == 1)
    dealt &= (own == rules.hand_size) & (other == rules.hand_size)
    return dealt & (rank < cards.WILD) if rules.start_card == "non_wild" else dealt
