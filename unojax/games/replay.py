"""Games with every intermediate position, played by policies or read from a notation.

A list of actions is in the notation of `unojax.text.parse_action`, separated by blanks: `R5 W:B draw`. Drawn cards can be
named, `draw(R5,W)`; `draw` alone leaves them to chance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, text
from unojax.decks import is_int
from unojax.device.programs import Program
from unojax.device.random_bits import check_key
from unojax.device.static import Argument
from unojax.game import State
from unojax.games.record import Trajectory, play_game
from unojax.observation import Observation, observe
from unojax.policies import Policy, distinct
from unojax.rules import Rules
from unojax.text.notation import check_text

MAX_STEPS: Final = 1000
"""Minimum size of the array of steps of a policy game."""

TOKEN: Final = re.compile(r"[^\s(]+\s*\([^()]*\)|\S+")
"""One action in a list."""
DRAW: Final = re.compile(r"draw\s*\(([^()]*)\)", re.IGNORECASE)
"""A draw with named cards; the group holds the cards."""


@dataclass(frozen=True)
class Step:
    """An action 0..61 and the positions before and after it."""

    action: int
    before: State
    after: State

    @property
    def mover(self) -> int:
        return int(self.before.current_player)

    @property
    def is_draw(self) -> bool:
        """Whether the action is a draw, which may have been impossible."""
        return self.action == cards.DRAW

    @property
    def drawn(self) -> str:
        """Mover's drawn cards, in card notation: `R5 W`."""
        hand_before, hand_after = (cards.count_types(state.hands[self.mover]) for state in (self.before, self.after))
        return text.format_cards(cards.onehot_of(np.maximum(hand_after - hand_before, 0)))

    @property
    def laid(self) -> str:
        """Card drawn and placed on the pile at once, as an action: `R5`, `W:B`; "" if none."""
        auto = self.before.rules.play_drawn == "auto"
        if not (auto and self.is_draw) or self.drawn or (self.after.terminated and not self.before.terminated):
            return ""
        return text.format_action(int(self.after.color) * cards.NUM_RANKS + int(self.after.top_rank))

    @property
    def reshuffled(self) -> bool:
        """Whether the pile was reshuffled into the deck."""
        # A card placed at once is added to the rest of the pile.
        return int(self.after.pile.sum()) - bool(self.laid) < int(self.before.pile.sum())

    def notation(self, *, with_cards: bool) -> str:
        """Return the action in the notation of `replay`, optionally with the drawn cards."""
        name = text.format_action(self.action)
        drawn = self.drawn.replace(" ", ",") or self.laid
        return f"{name}({drawn})" if with_cards and self.is_draw and drawn else name


@dataclass(frozen=True)
class Replay:
    """A game so far, from its first position."""

    start: State
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        return f"<Replay of {len(self.steps)} steps, {self.end!r}>"

    @property
    def end(self) -> State:
        return self.steps[-1].after if self.steps else self.start

    @property
    def states(self) -> list[State]:
        """Start, and the position after each step."""
        return [self.start, *(step.after for step in self.steps)]

    def observations(self, player: int) -> list[Observation]:
        """Return a player's observation of each of `states`.

        Raises:
            ValueError: If `player` is not 0 or 1.
        """
        if not (is_int(player) and player in (0, 1)):
            raise ValueError(f"player must be 0 or 1, got {player!r}")
        # Padded to a power of two, so that games of any length need few programs.
        states = self.states
        num_rows = 1 << (len(states) - 1).bit_length()
        rows = states + [states[-1]] * (num_rows - len(states))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        return _unstack(jax.device_get(_observe(stacked, player)), len(states))


def play(key: Array, policies: tuple[Policy, Policy], *, rules: Rules, max_steps: int | None = None) -> Replay:
    """Play a game of two policies for 1000 steps, or `max_steps`. Consumes `key`.

    Raises:
        ValueError: If a policy chose an illegal action.
    """
    num_steps = max(MAX_STEPS, max_steps or 0)
    trajectory = jax.device_get(_play(Argument(distinct(policies)), key, num_steps=num_steps, rules=rules))
    if (wrong := np.flatnonzero(trajectory.states.error)).size:
        step = wrong[0] - 1
        mover, action = trajectory.states.current_player[step], trajectory.actions[step]
        raise ValueError(f"the policy of player {mover} chose action {action} in step {step}, which is not legal there")
    actions = [int(action) for action in trajectory.actions[:max_steps] if action != game.NO_ACTION]
    states = _unstack(trajectory.states, len(actions) + 1)
    steps = (Step(action, *around) for action, *around in zip(actions, states[:-1], states[1:], strict=True))
    return Replay(states[0], tuple(steps))


def replay(start: State, actions: str, key: Array, *, max_steps: int | None = None) -> Replay:
    """Play a list of actions in the module's notation.

    Args:
        start: First position.
        actions: The list.
        key: Random key for draws without named cards, consumed.
        max_steps: Number of steps after which the rest of the list is ignored.

    Raises:
        ValueError: If an action can't be read or is illegal, or the named cards can't have been drawn.
    """
    check_text(actions, "actions", "R5 W:B draw")
    check_key(key, "replay")
    state = start = jax.device_get(start)
    steps: list[Step] = []
    for number, token in enumerate(TOKEN.findall(actions)[:max_steps]):
        try:
            steps.append(play_token(state, token, jax.random.fold_in(key, number)))
        except ValueError as error:
            raise ValueError(f"action {number + 1}: {error}") from error
        state = steps[-1].after
    return Replay(start, tuple(steps))


def play_token(state: State, token: str, key: Array) -> Step:
    """Play one action of a list. Raises ValueError as `replay`, without the action's number."""
    draw = DRAW.fullmatch(token.strip())
    if not draw:
        return play_action(state, text.parse_action(token.strip()), key)
    _check_legal(state, cards.DRAW, token)
    names, colon, letter = draw[1].partition(":")
    if state.drawn >= 0 and np.count_nonzero(_legal_mask(state)) > 1:
        raise ValueError(f"this draw is a pass, after which no card is drawn: write draw, got {token!r}")
    letter = letter.strip().upper()
    color = cards.COLOR_LETTERS.index(letter) if len(letter) == 1 and letter in cards.COLOR_LETTERS else -1
    after = _step_to_deck(state, cards.onehot_of(_deck_after(state, names)), np.int8(max(color, 0)))
    step = Step(cards.DRAW, state, jax.device_get(after))
    lays_wild = bool(step.laid) and int(step.after.top_rank) >= cards.WILD
    if (color >= 0) != lays_wild or bool(colon) != lays_wild:
        raise ValueError(
            f"a wild card that is drawn and laid at once has a colour declared, as in draw(W:B), and no other draw; got {token!r}"
        )
    return step


def play_action(state: State, action: int, key: Array) -> Step:
    """Play an action. Consumes `key`. Raises ValueError if the action is illegal."""
    _check_legal(state, action, text.format_action(action))
    return Step(action, state, jax.device_get(_step(state, np.int32(action), key)))


def _check_legal(state: State, action: int, name: str) -> None:
    if state.terminated or state.truncated:
        raise ValueError(f"{name!r} comes after the end of the game")
    mask = np.asarray(_legal_mask(state))
    if action >= len(mask) or not mask[action]:
        legal = ", ".join(text.format_action(a) for a in np.flatnonzero(mask).tolist())
        raise ValueError(f"{name!r} is not legal for player {int(state.current_player)}, who may only: {legal}")


def reshuffled_types(position: State | Observation) -> np.ndarray:
    """Return the cards of the pile that an empty deck gets back, int[54]."""
    pile = cards.count_types(position.pile).astype(int)
    pile[cards.card_type(int(position.color), int(position.top_rank))] -= not position.rules.reshuffle_top
    return pile


def _deck_after(state: State, names: str) -> np.ndarray:
    """Return the deck after these cards are drawn, int[54]."""
    given = cards.count_types(text.parse_cards(names))
    due = max(int(state.penalty), 1)
    if given.sum() != due:
        raise ValueError(f"a draw of {due} must name as many cards, got {names!r}; or write draw and leave them to chance")
    deck = cards.count_types(state.deck)
    if deck.sum() < due:
        deck = deck + reshuffled_types(state)
    if (missing := np.flatnonzero(given > deck)).size:
        raise ValueError(f"draw({names}): the deck holds {deck[missing[0]]} x {cards.TYPE_NAMES[missing[0]]}")
    return deck - given


@partial(jax.jit, static_argnames=("num_steps", "rules"))
def _play(policies: Argument, key: Array, *, num_steps: int, rules: Rules) -> Trajectory:
    pair = policies.value
    return play_game(key, (pair[0], pair[-1]), num_steps=num_steps, rules=rules)


_step = Program(game.step, is_light=True)
_legal_mask = Program(game.legal_mask, is_light=True)


@jax.jit
def _step_to_deck(state: State, deck_after: Array, color: Array) -> State:
    return game.step_with(state, np.int32(cards.DRAW), game.GivenCards(bits.pack(deck_after), color))


@jax.jit
def _observe(states: State, player: Array) -> Observation:
    return jax.vmap(lambda state: observe(state, jnp.asarray(player)))(states)


def _unstack(batch: object, number: int) -> list:
    return [jax.tree.map(lambda rows, i=i: rows[i], batch) for i in range(number)]
