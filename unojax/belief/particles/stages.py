"""The events of the particle filter, each written once.

`read_transition` computes all public facts of a transition. Its effect on the particles is a sequence of **stages** (`STAGES`).
Two interpreters run them: `serial` one game after the other, `parallel` a batch together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards
from unojax.belief import history as reading
from unojax.belief.history import Step
from unojax.belief.particles import proposals, public
from unojax.belief.particles.belief import Belief
from unojax.belief.particles.public import FAILS, FITS, HOLDS_COLOR, PublicHistory
from unojax.belief.particles.rows import Rows
from unojax.belief.particles.trajectory import Trajectories
from unojax.device.random_bits import threefry
from unojax.observation import Observation
from unojax.rules import Rules


class Transition(NamedTuple):
    """A transition as the observer saw it, and its consequences that all particles share.

    Attributes:
        before: The observer's observation before it.
        inconsistent: bool[] the observations contradict each other, the action or the belief; nothing moved.
        moved: bool[] something happened.
        changes_likelihood: bool[] cards of past hands may have changed, or there is one more record.
        color, rank: uint32[] of a play.
        plays, plays_drawn, observer_plays: bool[] the opponent played a card of its hand; the card just drawn; the observer did.
        reshuffles: bool[] the pile went back into the deck.
        forbidden: uint32[4, S] cards that each slot cannot have held, before any draw.
        open_slots: int32[S] the slots that could hold such a card, in order; then S.
        num_open: int32[] number of these slots.
        seen: int32[54] running totals, by type, of the cards whose draw the observer saw.
        num_seen: int32[] number of these cards.
        observer_keeps: bool[] they are in the observer's hand, not on the pile.
        num_unseen: int32[] cards that the opponent drew unseen.
        could_be: uint32[4, 1] possible cards of such a draw.
        old, new: Public history before and after.
        log_constant: float32[] nats, a factor of the evidence that all particles share.
        words: uint32[2] random words of the game, for resampling and for the first card to rejuvenate.
    """

    before: Observation
    inconsistent: Array
    moved: Array
    changes_likelihood: Array
    color: Array
    rank: Array
    plays: Array
    plays_drawn: Array
    observer_plays: Array
    reshuffles: Array
    forbidden: Array
    open_slots: Array
    num_open: Array
    seen: Array
    num_seen: Array
    observer_keeps: Array
    num_unseen: Array
    could_be: Array
    old: PublicHistory
    new: PublicHistory
    log_constant: Array
    words: Array


@dataclass(frozen=True)
class Stage:
    """An event of the filter.

    Attributes:
        name: Name of the event.
        rounds: Number of due rounds of a transition, int32[] or bool[].
        apply: One round, `apply(rows, transition, index, random, now) -> (now, float32[N] log weights)`. A round beyond those due
            changes nothing. `random` are the stage's own words uint32[N].
        writes: Fields of `Trajectories` that change.
        lanes: Particles that a GPU works on at a time: as many as fill it, and fewer for stages that few games need.
        at_a_time: Rounds that a GPU makes between two checks for games that need more.
        rules: Whether the event is possible under given rules.
        by_slot: A round is for one slot, so that several rounds combine into one for several slots (`Rows.at_a_time`).
        visits_slots: The stage visits all slots, so that games with few slots are processed separately.
    """

    name: str
    rounds: Callable[[Transition], Array]
    apply: Callable[[Rows, Transition, Array, Array, Trajectories], tuple[Trajectories, Array | float]]
    writes: tuple[str, ...]
    lanes: int
    at_a_time: int = 1
    rules: Callable[[Rules], bool] = lambda rules: True
    by_slot: bool = False
    visits_slots: bool = False

    def stream(self, index: Array) -> Array:
        """Return the number of a round's random words. Work by slot draws further bits for each slot itself."""
        return jnp.zeros_like(index) if self.by_slot else index


def _play(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, Array]:
    return proposals.condition_on_play(rows, random, now, of.old, of.color, of.rank)


def _play_drawn(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, Array]:
    return proposals.condition_on_drawn_play(rows, random, now, of.old, of.color, of.rank)


def _rule_out(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, Array]:
    number = index + jnp.arange(rows.at_a_time)
    slots = of.open_slots.at[number].get(mode="fill", fill_value=of.old.max_slots)
    return proposals.condition_on_absence(rows, random, now, of.old, of.forbidden, slots, number < of.num_open)


def _move_public_cards(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, float]:
    """Remove the card that the observer plays from its hand, or put the pile back into the deck."""
    before, rules = of.before, of.before.rules
    full = jnp.stack(bits.all_cards(rules.deck))
    color, rank = before.color.astype(jnp.uint32), before.top_rank.astype(jnp.uint32)
    played = proposals.play_own(now, of.color, of.rank)
    shuffled = proposals.reshuffle(now, full, color, rank, rules.reshuffle_top)
    own = jnp.where(of.observer_plays, played.own, now.own)
    deck = jnp.where(of.reshuffles, shuffled.deck, now.deck)
    return now._replace(own=own, deck=deck, recycled=jnp.where(of.reshuffles, shuffled.recycled, now.recycled)), 0.0


def _draw_seen(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, Array]:
    # The card at place i is of the first type whose running total exceeds i.
    color, rank = bits.color_and_rank(jnp.argmax(of.seen > index))
    return proposals.condition_on_seen_draw(rows, random, now, of.new, color, rank, of.observer_keeps)


def _draw_unseen(rows: Rows, of: Transition, index: Array, random: Array, now: Trajectories) -> tuple[Trajectories, Array]:
    slot = jnp.where(index < of.num_unseen, of.old.num_slots + index, of.old.max_slots)
    could_be = None if _keeps_any_card(of.before.rules) else of.could_be
    after, log_weight = proposals.draw_unseen(rows, random, now, of.old, slot, could_be)
    is_due = index < of.num_unseen
    drawn = now._replace(
        hand=jnp.where(is_due, after.hand, now.hand), deck=jnp.where(is_due, after.deck, now.deck), labels=after.labels
    )
    return drawn, jnp.where(is_due, log_weight, 0.0)


STAGES: Final = (
    Stage("play", lambda of: of.plays, _play, ("hand", "deck", "labels", "played"), 3 * 2**17, visits_slots=True),
    Stage(
        "play of the drawn card",
        lambda of: of.plays_drawn,
        _play_drawn,
        ("hand", "deck", "labels", "played"),
        2**16,
        rules=lambda rules: rules.play_drawn == "may",
    ),
    Stage(
        "cards ruled out",
        lambda of: of.num_open,
        _rule_out,
        ("hand", "deck", "labels"),
        2**17,
        at_a_time=40,
        by_slot=True,
    ),
    Stage("public cards", lambda of: of.observer_plays | of.reshuffles, _move_public_cards, ("deck", "own", "recycled"), 2**19),
    Stage("seen draw", lambda of: of.num_seen, _draw_seen, ("hand", "deck", "own", "labels"), 3 * 2**16, visits_slots=True),
    Stage("unseen draw", lambda of: of.num_unseen, _draw_unseen, ("hand", "deck", "labels"), 2**18, at_a_time=4),
)
"""All events, in the order in which they happen in a transition."""


def stages_of(rules: Rules) -> list[tuple[int, Stage]]:
    """Return the stages that can be due under given rules, with their numbers."""
    return [(number, stage) for number, stage in enumerate(STAGES) if stage.rules(rules)]


def read_transition(
    belief: Belief, before: Observation, action: Array, after: Observation, key: tuple[Array, Array]
) -> Transition:
    """Infer the public facts of a transition from its observations, and the consequences for all particles; for one game."""
    rules, old = before.rules, belief.public
    inconsistent = ~(reading.is_consistent(before, action, after) & (belief.seen == reading.fingerprint(before)))
    # Nothing moves in a finished game, or if the rules reject the action.
    step = reading.read_step(before, after)
    action, theirs = step.action, step.theirs
    moved = ~inconsistent & (action >= 0)
    is_draw, is_challenge = moved & (action == cards.DRAW), moved & (action == cards.CHALLENGE)
    plays = moved & ~is_draw & ~is_challenge
    their_draw = is_draw & theirs
    has_drawn = before.has_drawn if rules.play_drawn == "may" else jnp.bool_(False)

    # Record the opponent's choice before it changes the hand.
    new, record = old, public.observed_choice(old, before, action)
    is_choice = (plays | is_challenge) & theirs
    if not rules.has_plain_steps:
        is_choice |= their_draw & _is_evidence(before, step)
    new = public.append(new, record, is_choice)

    # Facts that the opponent proved apply before its draw.
    ruled_out = jnp.where(moved, _cards_of(reading.types_ruled_out(before, action, after)), np.uint32(0))
    forbidden = jnp.broadcast_to(ruled_out, old.allowed.shape)
    drawn_again = jnp.bool_(False)
    if rules.play_drawn == "may" and rules.draw_until_playable:
        # A player passes if it could play the card just drawn, and draws again if it could not.
        drawn_again = their_draw & has_drawn
        is_last = jnp.arange(old.max_slots) == old.num_slots - 1
        misfits = jnp.where(drawn_again & is_last, _misfits(before, fits=~step.draws_on), np.uint32(0))
        forbidden = forbidden | misfits
        if rules.draw_four_depends_on_hand:
            new = public.append(new, public.observed_choice(old, before, jnp.int32(FAILS)), drawn_again & step.draws_on)
    if rules.wild_draw_four == "challenge":
        guilty = is_challenge & ~theirs & (after.current_player != before.current_player)
        new = public.append(new, public.observed_choice(old, before, jnp.int32(HOLDS_COLOR)), guilty)
    is_open = proposals.open_slots(old, forbidden) & (jnp.arange(old.max_slots) < old.num_slots)
    place = jnp.where(is_open, jnp.cumsum(is_open, dtype=jnp.int32) - 1, old.max_slots)
    open_slots = jnp.full(old.max_slots, old.max_slots, jnp.int32)
    open_slots = open_slots.at[place].set(jnp.arange(old.max_slots, dtype=jnp.int32), mode="drop")

    sees = is_draw & (~theirs | (step.laid >= 0))
    num_seen = jnp.where(sees, step.seen.sum(dtype=jnp.int32), 0)
    num_unseen = jnp.where(their_draw, step.opponent_drew, 0)
    could_be, fact = _shown_of_drawn_card(before, after)
    looks = (num_unseen > 0) & (before.penalty == 0)
    could_be = jnp.where(looks, could_be, bits.ALL_SLOTS)
    # The card played may be one of those known; a card just drawn is not.
    is_played = plays & theirs & ~has_drawn & (np.arange(cards.NUM_TYPES) == step.played_type)
    new = PublicHistory(
        allowed=new.allowed & ~forbidden,
        recent=new.recent & ~(is_draw & step.reshuffled),
        num_slots=new.num_slots,
        records=new.records,
        num_records=new.num_records,
        deal=new.deal,
        known=old.known - (is_played & (old.known > 0)).astype(jnp.int8),
    )
    new = public.add_slots(new, num_unseen, could_be)
    if fact is not None:
        new = public.append(new, public.observed_choice(new, before, fact), looks)

    num_copies = before.unseen[jnp.maximum(step.played_type, 0)].astype(jnp.float32)
    log_constant = jnp.where(plays & theirs & ~has_drawn, jnp.log(num_copies), 0.0)
    log_constant += jnp.where(sees, reading.log_seen_draw(before, step), 0.0)
    high, low = threefry(key, (jnp.uint32(1), jnp.uint32(0)))
    num_open = is_open.sum(dtype=jnp.int32)
    return Transition(
        before=before,
        inconsistent=inconsistent,
        moved=moved,
        # Cards that the opponent draws unseen come after all of its choices so far.
        changes_likelihood=(num_open > 0) | (num_seen > 0) | (new.num_records > old.num_records),
        color=after.color.astype(jnp.uint32),
        rank=after.top_rank.astype(jnp.uint32),
        plays=plays & theirs & ~has_drawn,
        plays_drawn=plays & theirs & has_drawn,
        observer_plays=plays & ~theirs,
        reshuffles=is_draw & step.reshuffled,
        forbidden=forbidden,
        open_slots=open_slots,
        num_open=num_open,
        seen=jnp.cumsum(step.seen, dtype=jnp.int32),
        num_seen=num_seen,
        observer_keeps=step.laid < 0,
        num_unseen=num_unseen,
        could_be=could_be,
        old=old,
        new=new,
        log_constant=log_constant,
        words=jnp.stack([high, low]),
    )


def most_records_per_step(rules: Rules) -> int:
    """Count the records that a transition can append: a choice, and a fact that a draw revealed."""
    return 1 + rules.draw_four_depends_on_hand


def _is_evidence(before: Observation, step: Step) -> Array:
    """Return whether a draw or pass of the opponent was a choice, beyond the evidence of `types_ruled_out`: bool[]."""
    rules, never = before.rules, jnp.bool_(False)
    is_free = before.penalty == 0
    at_will = is_free & ~before.has_drawn if rules.may_draw else never
    if rules.play_drawn == "may":
        at_will |= before.has_drawn & ~step.draws_on
    if rules.stacking:
        can_answer = before.contested >= 0 if rules.wild_draw_four == "challenge" else jnp.bool_(True)
        is_two = before.top_rank == cards.DRAW_TWO
        by_type = is_two | (rules.wild_draw_four == "any") if not rules.may_draw else never
        at_will |= ~is_free & (can_answer | is_two) & ~by_type
    return at_will | (before.contested >= 0)


def _misfits(before: Observation, fits: Array) -> Array:
    """Return the cards excluded for a card just drawn, if it could be played (`fits`, bool[]) or could not: uint32[4, 1]."""
    playable = _cards_of(reading.playable_types(before.color, before.top_rank))
    unplayable = bits.ALL_SLOTS & ~playable
    if before.rules.draw_four_depends_on_hand:
        # It may be unplayable as well.
        playable = playable & ~bits.WILD_DRAW_FOUR_BIT
    return jnp.where(fits, unplayable, playable)


def _keeps_any_card(rules: Rules) -> bool:
    """Return whether a drawn and kept card reveals nothing about itself at once."""
    return rules.play_drawn != "auto" and not rules.draw_decides_turn


def _shown_of_drawn_card(before: Observation, after: Observation) -> tuple[Array, Array | None]:
    """Return the possible cards of an unseen draw, given the turn's continuation, uint32[4, 1], and any fact about the hand."""
    rules = before.rules
    if _keeps_any_card(rules):
        return jnp.full((cards.NUM_COLORS, 1), bits.ALL_SLOTS), None
    if rules.play_drawn == "auto":
        return bits.ALL_SLOTS & ~_cards_of(reading.layable_types(before.color)), None
    fits = after.has_drawn == (rules.play_drawn == "may")
    fact = jnp.where(fits, FITS, FAILS) if rules.draw_four_depends_on_hand else None
    return bits.ALL_SLOTS & ~_misfits(before, fits), fact


def _cards_of(types: Any) -> Array:
    """Collect all cards of some types (bool[54]): uint32[4, 1]."""
    marked = jnp.asarray(types)[np.asarray(cards.TYPE_OF_SLOT)].reshape(cards.NUM_COLORS, -1).astype(jnp.uint32)
    return (marked << np.arange(marked.shape[1], dtype=np.uint32)[None]).sum(1, dtype=jnp.uint32)[:, None]
