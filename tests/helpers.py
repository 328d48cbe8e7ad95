"""Helpers of several directories: crafted positions, random games, rejections, the oracle's form of rules, a statistical test."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.typing import ArrayLike

from tests.oracle import game as oracle
from unojax import cards, game
from unojax.belief import color_bounds
from unojax.game import State
from unojax.rules import Rules, field_types
from unojax.text import format_cards, make_state, parse_action

ERROR_PROBABILITY = 1e-6
"""Probability that a right program fails a single statistical test, over the choice of its seed."""

ROOT = Path(__file__).parents[1]

jitted_step = jax.jit(game.step)
jitted_mask = jax.jit(game.legal_mask)
fold_in_all = jax.jit(jax.vmap(jax.random.fold_in, (0, None)))
"""Keys of one step of many runs, by the key of each run and the number of the step."""


def run_on_devices(program: str, num_devices: int) -> Any:
    """Run a program with `num_devices` CPU devices, and return the JSON on its last line."""
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": str(num_devices), "JAX_PLATFORMS": "cpu"}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


def free_address() -> str:
    """Return a free address on this machine."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def slow_but(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return parameters of a test: `make test` runs the quick ones, and the slow part the others."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def long_but(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return parameters of a slow test: continuous integration runs the quick ones, and `make test-all` all."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.long) for case in cases]


def deck_of(text: str) -> tuple[int, ...]:
    """Return the `Rules.deck` with exactly these cards."""
    names = text.split()
    return tuple(names.count(name) for name in cards.TYPE_NAMES)


def seated(seat: int, mine: str, theirs: str, top: str, **others) -> State:
    """Call `make_state` with the hands of the player to move and of the other one."""
    hands = (mine, theirs) if seat == 0 else (theirs, mine)
    return make_state(*hands, top, player=seat, **others)


def after(state: State, *actions: str, seed: int = 0) -> State:
    """Return the state after legal actions, given as text."""
    for index, action in enumerate(actions):
        key = jax.random.fold_in(jax.random.key(seed), index)
        state = jitted_step(state, np.int32(parse_action(action)), key)
        assert state.error == 0, f"{action} is not legal"
    return state


def legal(state: State) -> set[int]:
    return set(np.flatnonzero(jitted_mask(state)).tolist())


def actions(text: str) -> set[int]:
    return {parse_action(word) for word in text.split()}


def hand(state: State, player: int) -> str:
    """Return a player's cards as text."""
    return format_cards(state.hands[player])


def counts_of(onehots: ArrayLike) -> np.ndarray:
    """bool[..., 108] -> int[..., 54], on the host and without `cards.counts`."""
    of_slot = np.eye(cards.NUM_TYPES, dtype=np.float32)[cards.TYPE_OF_SLOT]
    return (np.asarray(onehots, np.float32) @ of_slot).astype(int)


def by_kind(counts: ArrayLike) -> np.ndarray:
    """Return the number of cards of each colour and wilds: int[..., 54] -> int[..., 5]."""
    kind_of_type = np.where(cards.COLOR_OF_TYPE < 0, color_bounds.WILDS, cards.COLOR_OF_TYPE)
    return np.asarray(counts) @ (kind_of_type[:, None] == np.arange(color_bounds.NUM_KINDS)).astype(int)


def counter(counts: np.ndarray) -> Counter[str]:
    """int[54] -> multiset of card names."""
    return Counter({oracle.CARDS[t]: int(counts[t]) for t in np.flatnonzero(counts)})


def variant(rules: Rules) -> oracle.Variant:
    """Return the oracle's form of the rules."""
    same = {field.name for field in fields(oracle.Variant)} & set(field_types())
    return oracle.Variant(
        **{name: getattr(rules, name) for name in same - {"deck"}},
        deck=counter(np.array(rules.deck)),
        wild_may_start=rules.start_card != "non_wild",
        draw_four_may_start=rules.start_card == "any",
        anyone_may_start=rules.first_player == "random",
    )


def refusals(calls: Mapping[str, Callable[[], object]]) -> None:
    """Check that each call raises a ValueError whose message contains the call's key, the name of an argument.

    All calls run, and failures are listed together. A key may end in text in round brackets, which distinguishes calls:
    "hand_size (negative)".
    """
    failures = []
    for key, call in calls.items():
        try:
            result = call()
        except ValueError as error:
            if key.partition(" (")[0] not in str(error):
                failures.append(f"{key}: raised {str(error)!r}")
        else:
            failures.append(f"{key}: returned {result!r}")
    assert not failures, "\n".join(failures)


def refused_texts(read: Callable[[str], object], texts: Mapping[str, Collection[str]]) -> None:
    """Check that `read` raises a ValueError for each text, with the word that it is listed under in the message."""
    refusals({f"{word} ({text})": partial(read, text) for word, listed in texts.items() for text in listed})


class Played(NamedTuple):
    """G random games of T steps, NumPy: states [G, T + 1, ...], masks [G, T + 1, 61], actions [G, T]."""

    states: State
    masks: np.ndarray
    actions: np.ndarray


NUM_GAMES = 100
"""Games that `play` plays by default: of one size, so that files share the compiled programs."""


@lru_cache(maxsize=2)
def play(seed: int, *, num_games: int = NUM_GAMES, num_steps: int, rules: Rules) -> Played:
    """Play random games in one call; the last ones are cached for the next test.

    Actions are uniform over the legal ones, except that one in thirty is any number from -30 to 99.
    """
    keys = jax.random.split(jax.random.key(seed), num_games)
    return Played(*jax.device_get(_compiled(num_games, num_steps, rules)(keys)))


@lru_cache(maxsize=4)
def _compiled(num_games: int, num_steps: int, rules: Rules) -> jax.stages.Compiled:
    """Compile the program of `play`, and keep it: JAX's own caches are cleared between files."""
    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), num_games))
    return _play.lower(keys, num_steps=num_steps, rules=rules).compile()


@partial(jax.jit, static_argnames=("num_steps", "rules"))
def _play(keys: jax.Array, *, num_steps: int, rules: Rules) -> tuple[State, jax.Array, jax.Array]:
    def one_step(state: State, key: jax.Array):
        key_legal, key_any, key_which, key_draw = jax.random.split(key, 4)
        mask = game.legal_mask(state)
        legal = jax.random.categorical(key_legal, jnp.where(mask, 0.0, -jnp.inf))
        anything = jax.random.randint(key_any, (), -30, 100)
        action = jnp.where(jax.random.bernoulli(key_which, 1 / 30), anything, legal)
        return game.step(state, action, key_draw), (state, mask, action)

    key_init, key_steps = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    start = jax.vmap(partial(game.init, rules=rules))(key_init)
    # Batched inside the loop: a loop that is batched as a whole is traced again and again.
    keys_of_steps = jnp.moveaxis(jax.vmap(lambda key: jax.random.split(key, num_steps))(key_steps), 1, 0)
    last, (states, masks, actions) = jax.lax.scan(jax.vmap(one_step), start, keys_of_steps)
    ends = (last, jax.vmap(game.legal_mask)(last))
    states, masks = jax.tree.map(lambda before, end: jnp.concatenate([before, end[None]]), (states, masks), ends)
    return jax.tree.map(lambda rows: jnp.moveaxis(rows, 1, 0), (states, masks, actions))


def assert_distributed(observed: Sequence[int] | np.ndarray, probabilities: Sequence[float] | np.ndarray) -> None:
    """Test frequencies by chi-square, with the error probability `ERROR_PROBABILITY`.

    Outcomes of probability 0 must not occur. The others must be expected 5 times or more.
    """
    observed, probabilities = np.asarray(observed), np.asarray(probabilities, float)
    possible = probabilities > 0
    assert observed[~possible].sum() == 0
    expected = probabilities[possible] * observed.sum()
    assert expected.min() >= 5, "too few samples"
    assert scipy.stats.chisquare(observed[possible], expected).pvalue > ERROR_PROBABILITY


def assert_trees_equal(one, other) -> None:
    """Check for equal structure, leaves and dtypes."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def num_turns(rounds: np.ndarray, chunk: int, sizes: np.ndarray | None = None, room: int = 0) -> int:
    """Return the number of iterations of `batching.Agenda.do` for rounds int[B]: all elements get a round before any the next."""
    order, turns = np.argsort(-rounds, kind="stable"), 0
    sizes = np.zeros_like(rounds) if sizes is None else sizes
    for index in range(rounds.max()):
        left = sizes[order][rounds[order] > index]
        while len(left):
            left = left[np.count_nonzero(np.cumsum(left[:chunk]) <= room) :]
            turns += 1
    return turns
