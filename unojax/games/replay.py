"""Games with every position in between, to look back at: played by policies, or read from a notation. Host only.

A list of actions is written as `unojax.text.parse_action` reads them, separated by blanks: `R5 W:B draw`. Cards that were drawn
can be named, `draw(R5,W)`; `draw` alone leaves them to chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from unojax import bits, cards, game, text
from unojax.game import State
from unojax.games.record import play_game
from unojax.observation import Observation, observe
from unojax.policies import Policy
from unojax.rules import Rules

MAX_STEPS: Final = 1000
"""A game of policies is followed so far, or as far as the caller asks if that is more."""

TOKEN: Final = re.compile(r"[^\s(]+\s*\([^()]*\)|\S+")
DRAW: Final = re.compile(r"draw\s*\(([^()]*)\)", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """One action and the positions around it, as NumPy.

    Attributes:
        action: 0..60.
        before, after: the game around it.
    """

    action: int
    before: State
    after: State

    @property
    def mover(self) -> int:
        """The player who acted."""
        return int(self.before.current_player)

    @property
    def is_draw(self) -> bool:
        """A draw, which may have been impossible."""
        return self.action == cards.DRAW

    @property
    def drawn(self) -> str:
        """The cards that the mover drew, in card notation: `R5 W`."""
        hand_before, hand_after = (counts(state.hands[self.mover]) for state in (self.before, self.after))
        return text.format_cards(onehot(np.maximum(hand_after - hand_before, 0)))

    @property
    def reshuffled(self) -> bool:
        """The pile went back into the deck."""
        return int(self.after.pile.sum()) < int(self.before.pile.sum())

    def notation(self, *, with_cards: bool) -> str:
        """The action as `replay` reads it, with the cards drawn if wanted and if there were any."""
        name = text.format_action(self.action)
        return f"{name}({self.drawn.replace(' ', ',')})" if with_cards and self.is_draw and self.drawn else name


@dataclass(frozen=True)
class Replay:
    """A game so far.

    Attributes:
        start: the first position, as NumPy.
        steps: what happened, in order.
    """

    start: State
    steps: tuple[Step, ...]

    @property
    def end(self) -> State:
        """The last position."""
        return self.steps[-1].after if self.steps else self.start

    @property
    def states(self) -> list[State]:
        """The start, and the position after each step."""
        return [self.start, *(step.after for step in self.steps)]

    def observations(self, player: int, rules: Rules) -> list[Observation]:
        """What a player saw at each of `states`, as NumPy."""
        # Padded to a power of two, so that games of any length need few programs.
        states = self.states
        num_rows = 1 << (len(states) - 1).bit_length()
        rows = states + [states[-1]] * (num_rows - len(states))
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        return _unstack(jax.device_get(_observe(stacked, player, rules=rules)), len(states))


def play(key: Array, policies: tuple[Policy, Policy], *, rules: Rules, max_steps: int | None = None) -> Replay:
    """The game `play_game(key, policies, num_steps=1000, rules=rules)`, or as much of it as `max_steps` says.

    Args:
        key: consumed.
        policies: player p follows `policies[p]`.
        rules: the rules.
        max_steps: the most steps to follow; more than 1000 make the game be played for so many.
    """
    num_steps = max(MAX_STEPS, max_steps or 0)
    trajectory = jax.device_get(_play(key, policies, num_steps=num_steps, rules=rules))
    actions = [int(action) for action in trajectory.actions[:max_steps] if action != game.NO_ACTION]
    states = _unstack(trajectory.states, len(actions) + 1)
    steps = (Step(action, *around) for action, *around in zip(actions, states[:-1], states[1:], strict=True))
    return Replay(states[0], tuple(steps))


def replay(start: State, actions: str, key: Array, *, rules: Rules, max_steps: int | None = None) -> Replay:
    """The game that a list of actions makes.

    Args:
        start: the first position.
        actions: the list, see the module.
        key: for the draws whose cards are not named; consumed.
        rules: the rules.
        max_steps: the most steps to follow. What comes after them in the list is not looked at.

    Raises:
        ValueError: an action can't be read or is not legal, or the cards of a draw can't have been drawn.
    """
    state = jax.device_get(start)
    steps: list[Step] = []
    for number, token in enumerate(TOKEN.findall(actions)[:max_steps]):
        try:
            step = follow(state, token.strip(), jax.random.fold_in(key, number), rules)
        except ValueError as error:
            raise ValueError(f"action {number + 1}: {error}") from error
        steps.append(step)
        state = step.after
    return Replay(jax.device_get(start), tuple(steps))


def follow(state: State, token: str, key: Array, rules: Rules) -> Step:
    draw = DRAW.fullmatch(token)
    action = cards.DRAW if draw else text.parse_action(token)
    if state.terminated or state.truncated:
        raise ValueError(f"{token!r} comes after the end of the game")
    mask = np.asarray(game.legal_mask(state, rules=rules))
    if not mask[action]:
        legal = ", ".join(text.format_action(a) for a in np.flatnonzero(mask).tolist())
        raise ValueError(f"{token!r} is not legal for player {int(state.current_player)}, who may only: {legal}")
    if draw:
        return _draw_given(state, draw[1], rules)
    return Step(action, state, jax.device_get(_step(state, np.int32(action), key, rules=rules)))


def _draw_given(state: State, names: str, rules: Rules) -> Step:
    given = counts(text.parse_cards(names))
    due = max(int(state.penalty), 1)
    if given.sum() != due:
        raise ValueError(f"a draw of {due} must name as many cards, got {names!r}; or write draw and leave them to chance")
    deck = counts(state.deck)
    if deck.sum() < due:
        deck = deck + counts(state.pile)
        deck[int(cards.type_of(state.color, state.top_rank))] -= 1
    if (missing := np.flatnonzero(given > deck)).size:
        raise ValueError(f"draw({names}): the deck holds {deck[missing[0]]} x {cards.TYPE_NAMES[missing[0]]}")
    after = _step_to_deck(state, np.int32(cards.DRAW), onehot(deck - given), rules=rules)
    return Step(cards.DRAW, state, jax.device_get(after))


_play = partial(jax.jit, static_argnames=("policies", "num_steps", "rules"))(play_game)


@partial(jax.jit, static_argnames="rules")
def _step(state: State, action: Array, key: Array, *, rules: Rules) -> State:
    return game.step(state, action, key, rules=rules)


@partial(jax.jit, static_argnames="rules")
def _step_to_deck(state: State, action: Array, deck_after: Array, *, rules: Rules) -> State:
    return game.step_with(state, action, game.GivenCards(bits.pack(deck_after)))


@partial(jax.jit, static_argnames="rules")
def _observe(states: State, player: Array, *, rules: Rules) -> Observation:
    return jax.vmap(lambda state: observe(state, jnp.asarray(player), rules=rules))(states)


def _unstack(batch: object, number: int) -> list:
    return [jax.tree.map(lambda rows, i=i: rows[i], batch) for i in range(number)]


def counts(onehot: ArrayLike) -> np.ndarray:
    """Copies of each type: bool[108] to int[54], on the host."""
    return np.bincount(cards.TYPE_OF_SLOT[np.asarray(onehot)], minlength=cards.NUM_TYPES)


def onehot(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.asarray(counts)[cards.TYPE_OF_SLOT] > cards.COPY_OF_SLOT
