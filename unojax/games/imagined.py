"""The view after an event that one player saw, from that player's own view: `view_after`.

To apply an event, the code assumes some hidden hand that makes it possible; the next view does not depend on the choice of that
hand.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import jax
import numpy as np

from unojax import cards, game, text
from unojax.belief.history import apply_hidden, layable_types, playable_types
from unojax.games.choices import legal_actions
from unojax.games.events import GOES_ON, LOST, WON, Event, cards_due, event_between
from unojax.games.replay import reshuffled_types
from unojax.observation import Observation

_NOTHING: Final = np.zeros(cards.NUM_TYPES, int)


class _Hidden(NamedTuple):
    """Hidden cards that make an event possible.

    Attributes:
        hand: Hand of the other player, int[54].
        picks: Cards drawn in the event, int[54].
        drawn: Type of the card that the other player has drawn in an open turn; -1 if none.
        color: Colour 0..3 of a wild card that is placed by chance.
    """

    hand: np.ndarray
    picks: np.ndarray = _NOTHING
    drawn: int = game.NONE
    color: int = 0


def view_after(seen: Observation, event: Event, names: tuple[str, str]) -> Observation:
    """Return the observer's view after an event. Raises ValueError if the event is impossible."""
    if event.kind == "count":
        return _recounted(seen, int(event.detail), names)
    who = names[int(seen.current_player)]
    hidden = _of_mine(seen, event, who) if seen.is_my_turn else _of_theirs(seen, event, who, names[int(seen.player)])
    drawn = np.int8(hidden.drawn) if hidden.drawn >= 0 else seen.drawn
    left = _drawable(seen, hidden.hand) - hidden.picks
    hand, left = hidden.hand.astype(np.int8), left.astype(np.int8)
    applied = _apply_hidden(seen, hand, np.asarray(drawn, np.int8), np.int32(event.action), left, np.int8(hidden.color))
    is_legal, after = jax.device_get(applied)
    if not is_legal or not _shows(event, seen, after):
        raise ValueError(f"{who} can't {_told(event)} here")
    return after


def _told(event: Event) -> str:
    return f"play {event}" if event.kind == "play" else str(event)


def _shows(event: Event, before: Observation, after: Observation) -> bool:
    """Return whether the simulated event matches the reported one."""
    shown = event_between(before, after)
    return shown.kind == event.kind and (event.kind == "play" or not event.detail or shown == event.without_hand)


def _recounted(seen: Observation, number: int, names: tuple[str, str]) -> Observation:
    """Return a view with another number of cards in the other hand."""
    unseen = int(unseen_types(seen).sum())
    if not 1 <= number <= unseen:
        raise ValueError(
            f"{names[1 - int(seen.player)]} can't hold {number} cards: {unseen} are neither in the own hand nor on the pile"
        )
    return replace(seen, opponent_count=np.int8(number), deck_count=np.int8(unseen - number))


def _of_mine(seen: Observation, event: Event, me: str) -> _Hidden:
    """Return a hidden hand for an event of the observer's own."""
    legal, any_hand = legal_actions(seen), cards.first(unseen_types(seen), int(seen.opponent_count)).astype(int)
    named = [text.format_action(a) for a in np.flatnonzero(legal).tolist()]
    if seen.has_drawn and len(named) > 1:
        named[-1] = "pass"
    if event.action >= len(legal) or not legal[event.action] or (event.kind == "pass" and "pass" not in named):
        raise ValueError(f"{me} can't {_told(event)}: legal here: {', '.join(named)}")
    if event.kind == "challenge":
        return _Hidden(_shown_hand(seen, event, me) if event.shown else _contested_hand(seen, event))
    if event.kind != "draw":
        return _Hidden(any_hand)
    if "pass" in named:
        raise ValueError(f"{me} can't draw again, having drawn a card that can be played: write pass, or play it")
    picks, color = _named(event)
    return _Hidden(_hand_besides(seen, picks), picks, color=color)


def _named(event: Event) -> tuple[np.ndarray, int]:
    """Return the cards of a draw, int[54], and the colour 0..3 of a wild card placed at once."""
    names, _, letter = event.detail.partition(":")
    return cards.count_types(text.parse_cards(names)).astype(int), cards.COLOR_LETTERS.index(letter) if letter else 0


def _contested_hand(seen: Observation, event: Event) -> np.ndarray:
    """Return a hidden hand that gives the observed result of the observer's challenge."""
    if event.detail not in (WON, LOST):
        raise ValueError("say how the challenge ended: challenge won, or challenge lost")
    is_of_color = cards.COLOR_OF_TYPE == int(seen.contested)
    held, color = int(seen.opponent_count), cards.COLOR_NAMES[int(seen.contested)]
    unseen = unseen_types(seen)
    if event.detail == LOST:
        hand = _fill(np.where(is_of_color, 0, unseen), held)
        if hand is None:
            raise ValueError(f"the challenge can't be lost: of the {held} cards of the other hand some must be {color}")
        return hand
    if not (unseen * is_of_color).any():
        raise ValueError(f"the challenge can't be won: no {color} card is left for the other hand")
    return _with_one(np.where(is_of_color, unseen, 0), unseen, held)


def _shown_hand(seen: Observation, event: Event, me: str) -> np.ndarray:
    """Return the hand that the other player showed at the observer's challenge."""
    hand = cards.count_types(text.parse_cards(event.shown)).astype(int)
    unseen, held = unseen_types(seen), int(seen.opponent_count)
    if hand.sum() != held:
        raise ValueError(f"the hand shown must have {held} cards, as many as the other player holds, got {hand.sum()}")
    if (seen_elsewhere := np.flatnonzero(hand > unseen)).size:
        t = seen_elsewhere[0]
        name = cards.TYPE_NAMES[t] if hand[t] == 1 else f"{hand[t]} x {cards.TYPE_NAMES[t]}"
        where = f"only {unseen[t]} is left for it" if unseen[t] else _where(seen, t, me)
        raise ValueError(f"the hand shown can't hold {name}: {where}")
    guilty, color = np.flatnonzero(hand * (cards.COLOR_OF_TYPE == int(seen.contested))), cards.COLOR_NAMES[int(seen.contested)]
    if event.without_hand.detail == WON and not guilty.size:
        raise ValueError(f"the challenge can't be won: the hand shown holds no {color} card")
    if event.without_hand.detail == LOST and guilty.size:
        raise ValueError(f"the challenge can't be lost: the hand shown holds {cards.TYPE_NAMES[guilty[0]]}")
    return hand


def _hand_besides(seen: Observation, named: np.ndarray) -> np.ndarray:
    """Return a hidden hand that leaves these cards, int[54], to draw."""
    unseen = unseen_types(seen)
    in_pile = reshuffled_types(seen) if seen.deck_count < max(int(seen.penalty), 1) else _NOTHING
    kept = np.clip(named - in_pile, 0, None)
    if (missing := np.flatnonzero(kept > unseen)).size:
        t = missing[0]
        raise ValueError(f"{named[t]} x {cards.TYPE_NAMES[t]} can't be drawn: only {unseen[t] + in_pile[t]} can be in the deck")
    if kept.sum() > seen.deck_count:
        raise ValueError(f"the deck holds {int(seen.deck_count)} cards, and {kept.sum()} of those drawn can't come from the pile")
    return cards.first(unseen - kept, int(seen.opponent_count)).astype(int)


def _of_theirs(seen: Observation, event: Event, who: str, me: str) -> _Hidden:
    """Return a hidden hand for an event of the other player, who is to move."""
    if event.kind == "play":
        return _for_play(seen, event, who, me)
    if event.kind == "draw":
        return _for_draw(seen, event, who)
    held, unseen = int(seen.opponent_count), unseen_types(seen)
    if event.kind == "challenge":
        if seen.contested < 0:
            raise ValueError(f"{who} can't challenge: no Wild+4 is pending that may be challenged")
        if event.detail:
            raise ValueError(f"whether {who} wins the challenge follows from the hand of {me}: write challenge alone")
        return _Hidden(cards.first(unseen, held).astype(int))
    if not seen.has_drawn or seen.rules.play_drawn != "may":
        raise ValueError(f"{who} can't pass: no card was just drawn that may be played")
    fits = fitting_types(seen)
    some = np.where(fits & (cards.COLOR_OF_TYPE >= 0), unseen, 0)
    some = some if some.any() else np.where(fits, unseen, 0)
    if not some.any():
        raise ValueError(f"{who} can't pass: no card that is not seen matches {_top(seen)}")
    return _Hidden(_with_one(some, unseen, held), drawn=int((some > 0).argmax()))


def _for_play(seen: Observation, event: Event, who: str, me: str) -> _Hidden:
    """Return a hidden hand from which a card is played."""
    rules, action = seen.rules, event.action
    played = int(cards.TYPE_OF_PLAY[action])
    unseen, held = unseen_types(seen), int(seen.opponent_count)
    if seen.penalty and not (rules.stacking and cards.RANK_OF_TYPE[played] == seen.top_rank):
        raise ValueError(f"{who} can't play {event}: {who} must draw {int(seen.penalty)}")
    if seen.has_drawn and rules.play_drawn != "may":
        raise ValueError(f"{who} can't play {event}: {who} must draw on")
    if not fitting_types(seen)[played]:
        raise ValueError(f"{who} can't play {event}: it does not match {_top(seen)}")
    if not unseen[played]:
        raise ValueError(f"{who} can't play {event}: {_where(seen, played, me)}")
    others = unseen - _unit(played)
    if played == cards.WILD_DRAW_FOUR_TYPE and rules.draw_four_depends_on_hand:
        of_color = cards.COLOR_OF_TYPE == int(seen.color)
        forbids = of_color if rules.wild_draw_four == "no_color" else fitting_types(seen) & ~_is(cards.WILD_DRAW_FOUR_TYPE)
        others = np.where(forbids, 0, others)
    rest = _fill(others, held - 1)
    if rest is None:
        raise ValueError(f"{who} can't play {event}: of {held} cards one must be another that matches {_top(seen)}")
    return _Hidden(rest + _unit(played), drawn=played if seen.has_drawn else game.NONE)


def _where(seen: Observation, card_type: int, me: str) -> str:
    """Describe where all copies of a type are, if none is left for the other hand."""
    total = int(seen.rules.deck[card_type])
    if not total:
        return "the deck has no such card"
    held, laid = (int(cards.count_types(each)[card_type]) for each in (seen.hand, seen.pile))
    all_of_them = {1: "the only one", 2: "both"}.get(total, f"all {total}")
    if held and laid:
        return f"{held} in the hand of {me} and {laid} on the pile make all {total}"
    place = "on the pile" if laid else f"in the hand of {me}"
    return f"{all_of_them} {'is' if total == 1 else 'are'} {place}"


def _for_draw(seen: Observation, event: Event, who: str) -> _Hidden:
    """Return a hidden hand that draws, and the cards that it draws."""
    rules, held, unseen = seen.rules, int(seen.opponent_count), unseen_types(seen)
    fits, due = fitting_types(seen), cards_due(seen)
    if seen.penalty:
        # A player who can answer a penalty must, unless drawing is optional; the engine knows the exceptions.
        answers = rules.stacking & (cards.RANK_OF_TYPE == int(seen.top_rank))
        hand = _fill(np.where(answers, 0, unseen), held)
        hand = cards.first(unseen, held).astype(int) if hand is None else hand
        return _Hidden(hand, cards.first(_drawable(seen, hand), due).astype(int))
    pick = _drawn_card(seen, event, who) if due else game.NONE
    left = unseen - _unit(pick) if pick >= 0 and seen.deck_count else unseen
    picks = _unit(pick) if pick >= 0 else _NOTHING
    color = _named(event)[1] if ":" in event.detail else 0
    if seen.has_drawn and not rules.draw_until_playable:
        raise ValueError(f"{who} can't draw again in this turn: write pass")
    if seen.has_drawn:
        # If a drawn card may be played, only an unplayable one makes a player draw again.
        kept = np.where(fits, 0, left) if rules.play_drawn == "may" else left
        if not kept.any():
            raise ValueError(f"{who} can't draw on: any card that is not seen matches {_top(seen)}")
        return _Hidden(_with_one(kept, left, held), picks, int((kept > 0).argmax()), color)
    if rules.may_draw and due:
        return _Hidden(cards.first(left, held).astype(int), picks, color=color)
    hand = _fill(np.where(fits, 0, left), held)
    if hand is None:
        others = int(np.where(fits, 0, left).sum())
        raise ValueError(
            f"{who} can't draw: of {held} cards one matches {_top(seen)}, since only {others} of the cards not seen don't"
        )
    return _Hidden(hand, picks, color=color)


def _drawn_card(seen: Observation, event: Event, who: str) -> int:
    """Return the type of a card that the other player may have drawn, given the next event."""
    rules, fits = seen.rules, fitting_types(seen)
    pool = unseen_types(seen) if seen.deck_count else reshuffled_types(seen)
    what, wanted = "card", np.ones(cards.NUM_TYPES, bool)
    if rules.play_drawn == "auto":
        wanted = _named(event)[0] > 0 if event.detail else ~layable_types(int(seen.color))
        what = event.detail or "card that is kept"
    elif rules.draw_decides_turn:
        is_playable = (event.detail == GOES_ON) == (rules.play_drawn == "may")
        wanted = fits if is_playable else ~fits
        what = f"card that {'goes' if is_playable else 'does not go'} on {_top(seen)}"
    options = np.where(wanted, pool, 0)
    if not options.any():
        raise ValueError(f"{who} can't {event}: no {what} is left to draw")
    # The hand of a player who can't play contains no playable card.
    fitting = np.where(fits, options, 0)
    return int(((fitting if fitting.any() else options) > 0).argmax())


def _fill(available: np.ndarray, number: int) -> np.ndarray | None:
    """Take `number` of these cards, int[54]; None if there are fewer."""
    return cards.first(available, number).astype(int) if available.sum() >= number else None


def _with_one(some: np.ndarray, available: np.ndarray, number: int) -> np.ndarray:
    """Take `number` of these cards, the first one from `some`."""
    one = _unit(int((some > 0).argmax()))
    return one + cards.first(available - one, number - 1).astype(int)


def _is(card_type: int) -> np.ndarray:
    return np.arange(cards.NUM_TYPES) == card_type


def _unit(card_type: int) -> np.ndarray:
    return _is(card_type).astype(int)


def fitting_types(seen: Observation) -> np.ndarray:
    """Return the types that match the top card, bool[54]."""
    return playable_types(int(seen.color), int(seen.top_rank))


def _top(seen: Observation) -> str:
    return text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank))


def unseen_types(seen: Observation) -> np.ndarray:
    """Return `Observation.unseen` on the host, int[54]."""
    return np.asarray(seen.rules.deck, int) - cards.count_types(seen.hand) - cards.count_types(seen.pile)


def _drawable(seen: Observation, hand: np.ndarray) -> np.ndarray:
    """Return the cards to draw from, int[54], if the other player holds `hand`."""
    deck = unseen_types(seen) - hand
    return deck + reshuffled_types(seen) if deck.sum() < max(int(seen.penalty), 1) else deck


_apply_hidden = jax.jit(apply_hidden)
