"""Results of user functions are checked: models, policies, agents and filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unojax
from tests.helpers import after, deck_of, refusals
from unojax import analysis, solve
from unojax.agents import next_game
from unojax.belief import bootstrap, exact
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.updaters import UniformFilter
from unojax.games.session import OpponentError, Session
from unojax.policies import PackedPolicy
from unojax.rules import Rules

PROGRAMS: Final = 60  # two sets of rules, and three kinds of beliefs
KEY = jax.random.key(0)
SMALL = {"deck": deck_of("R1 R2 R3 Y1 Y2 Y3 RS W W+4"), "hand_size": 2}
RULES = {"plain": Rules(**SMALL), "official": Rules.official(**SMALL)}
observe = jax.jit(unojax.observe, static_argnums=1)


@cache
def play_by_opponent(rules: str) -> tuple[Any, Any, Any]:
    """Return player 0's observations around a play of player 1, and the action."""
    start = unojax.make_state("R1 Y3", "R2 W+4", "R3", deck="Y1 Y2 RS W", rules=RULES[rules])
    before = after(start, "R1")
    return observe(before, 0), np.int32(unojax.parse_action("R2")), observe(after(before, "R2"), 0)


def particle(opponent: Any, rules: str = "plain") -> None:
    """Trace an update: wrong shapes or types raise before compilation."""
    before, action, seen = play_by_opponent(rules)
    belief = jax.eval_shape(lambda: unojax.belief_init(before, KEY, num_particles=8, prior="uniform"))
    jax.eval_shape(lambda belief: unojax.belief_update(belief, before, action, seen, KEY, opponent=opponent), belief)


def bootstrapped(opponent: Any, rules: str) -> None:
    before, action, seen = play_by_opponent(rules)
    belief = jax.eval_shape(lambda: bootstrap.bootstrap_init(before, KEY, num_particles=8))
    jax.eval_shape(lambda belief: bootstrap.bootstrap_update(belief, before, action, seen, KEY, opponent=opponent), belief)


def exactly(opponent: Any, rules: str) -> None:
    before, action, seen = play_by_opponent(rules)
    exact.exact_update(exact.exact_init(before), before, action, seen, opponent=opponent)


def test_an_opponent_model_must_return_a_number_for_each_action():
    """Official rules have one more action."""
    wrong = {
        "float32[1]": lambda observation, legal: jnp.ones(1),
        "float32[60]": lambda observation, legal: legal[:-1] / 60,
        "complex64[61]": lambda observation, legal: legal * 1j,
        "NoneType None": lambda observation, legal: None,
    }
    refusals({f"got {got}": lambda model=model: particle(model) for got, model in wrong.items()})

    def long(observation, legal):
        return jnp.ones(100)

    for update, rules, number in (
        (particle, "plain", 61),
        (particle, "official", 62),
        (bootstrapped, "official", 62),
        (exactly, "official", 62),
    ):
        with pytest.raises(ValueError, match=rf"opponent model .*must return float32\[{number}\], .*got float32\[100\]"):
            update(long, rules)
    with pytest.raises(ValueError, match=r"must return float32\[62\].*got float32\[61\]"):
        particle(lambda observation, legal: jnp.ones(61) / 61, "official")
    tree = solve.enumerate_game(Rules(deck=deck_of("R1 R2 Y1 W"), hand_size=1, max_steps=4))
    with pytest.raises(ValueError, match=r"policy must return float32\[61\], .*got float32\[100\]"):
        solve.of_policy(tree, lambda observation, legal: jnp.append(legal / legal.sum(), jnp.zeros(39)))


@dataclass(frozen=True)
class Fault(PackedPolicy):
    """A packed policy that returns three words, or words outside the options."""

    kind: str
    name: str = "fault"
    summary: str = "wrong"

    def narrow(self, view: Any, legal: Any) -> Any:
        if self.kind == "three":
            return legal[:3]
        return tuple(word.astype(jnp.int32) if self.kind == "type" else word[..., None] for word in legal)


def called(policy: PackedPolicy) -> None:
    jax.eval_shape(lambda: policy(KEY, play_by_opponent("plain")[0], jnp.ones(61, bool)))


def test_a_packed_policy_must_return_options():
    calls = {
        "simulated": lambda policy: unojax.simulate(KEY, 4, (policy, "uniform")),
        "as a model": lambda policy: particle(PolicyOpponent(policy)),
        "called": called,
    }
    refusals(
        {
            f"fault.narrow must return packed options ({kind}, {name})": lambda call=call, kind=kind: call(Fault(kind))
            for kind in ("three", "type", "shape")
            for name, call in calls.items()
        }
    )


class PackedModel:
    """A packed opponent model with one likelihood for all hands."""

    def __call__(self, observation: Any, legal_mask: Any) -> Any:
        return legal_mask

    def likelihood(self, view: Any, legal: Any, played: Any) -> Any:
        return jnp.ones((1, 1))


def test_a_packed_model_must_return_a_number_for_each_hand():
    for rules in RULES:
        with pytest.raises(ValueError, match=r"PackedModel\.likelihood must return float32\[8\], .*got float32\[1, 1\]"):
            particle(PackedModel(), rules)


@dataclass(frozen=True)
class Forgetful:
    """An agent whose memory gets shorter."""

    name: str = "forgetful"

    def init(self, key: Any, observation: Any) -> Any:
        return jnp.zeros(3)

    def update(self, key: Any, memory: Any, before: Any, action: Any, after: Any) -> Any:
        return memory[:-1]

    def next_game(self, key: Any, memory: Any, observation: Any) -> Any:
        return memory.astype(bool)

    def act(self, key: Any, memory: Any, observation: Any, legal_mask: Any) -> Any:
        return legal_mask.argmax()


def test_a_memory_keeps_its_shape_and_type():
    """Contract: an agent with memory adds `init` and `update`. In a session, on a tree, and in the next game."""
    session = Session(Forgetful(), seat=0, seed=0, rules=Rules())
    session.play(int(np.argmax(session.legal)))
    with pytest.raises(OpponentError, match=r"update must return a memory like the one it gets, .*\[3\].*returned .*\[2\]"):
        _ = session.memory
    tree = solve.enumerate_game(Rules(deck=deck_of("R1 R2 Y1 W"), hand_size=1, max_steps=4))
    with pytest.raises(ValueError, match="update must return a memory like the one it gets"):
        solve.of_agent(tree, Forgetful())
    with pytest.raises(ValueError, match=r"next_game must return a memory like the one it gets, .*float32\[3\].*bool\[3\]"):
        next_game(Forgetful(), KEY, np.zeros(3, np.float32), play_by_opponent("plain")[0])


@dataclass(frozen=True)
class ShortFilter(UniformFilter):
    """A filter without the fourth copy of each card."""

    name: str = field(default="short", init=False)

    def count_probs(self, belief: Any, observation: Any) -> Any:
        return super().count_probs(belief, observation)[:, :4]


def test_a_filter_counts_every_number_of_copies():
    games = analysis.record(KEY, 2, max_steps=3)
    with pytest.raises(ValueError, match=r"short\.count_probs must return float32\[54, 5\], .*got float32\[54, 4\]"):
        analysis.track(KEY, games, ShortFilter())
