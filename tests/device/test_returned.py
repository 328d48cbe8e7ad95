"""What a function of the caller's returned is checked where it returns: models, policies, agents and filters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import unojax
from tests.helpers import after, deck_of
from unojax import analysis, solve
from unojax.agents import next_game
from unojax.belief import bootstrap, exact
from unojax.belief.opponents import PolicyOpponent
from unojax.belief.updaters import UniformFilter
from unojax.games.session import OpponentError, Session
from unojax.policies import PackedPolicy
from unojax.rules import Rules

KEY = jax.random.key(0)
SMALL = deck_of("R1 R2 R3 Y1 Y2 Y3 RS W W+4")
RULES = {"plain": Rules(deck=SMALL, hand_size=2), "official": Rules.official(deck=SMALL, hand_size=2)}
WRONG = {
    "one": (lambda observation, legal: jnp.ones(1), r"float32\[1\]"),
    "short": (lambda observation, legal: legal[:-1] / 60, r"float32\[6[01]\]"),
    "long": (lambda observation, legal: jnp.ones(100), r"float32\[100\]"),
    "complex": (lambda observation, legal: legal * 1j, r"complex64\[6[12]\]"),
    "nothing": (lambda observation, legal: None, "NoneType None"),
}


def play_by_opponent(rules: Rules) -> tuple[Any, Any, Any]:
    """Player 0's observations around a play of player 1, and that action."""
    start = unojax.make_state("R1 Y3", "R2 W+4", "R3", deck="Y1 Y2 RS W", rules=rules)
    before = after(start, "R1")
    return unojax.observe(before, 0), unojax.parse_action("R2"), unojax.observe(after(before, "R2"), 0)


def particle(opponent: Any, rules: Rules) -> None:
    before, action, seen = play_by_opponent(rules)
    unojax.belief_update(
        unojax.belief_init(before, KEY, num_particles=8, prior="uniform"), before, action, seen, KEY, opponent=opponent
    )


def bootstrapped(opponent: Any, rules: Rules) -> None:
    before, action, seen = play_by_opponent(rules)
    belief = bootstrap.bootstrap_init(before, KEY, num_particles=8)
    bootstrap.bootstrap_update(belief, before, action, seen, KEY, opponent=opponent)


def exactly(opponent: Any, rules: Rules) -> None:
    before, action, seen = play_by_opponent(rules)
    exact.exact_update(exact.exact_init(before), before, action, seen, opponent=opponent)


@pytest.mark.parametrize(
    ("wrong", "update", "rules"),
    [(wrong, particle, "plain") for wrong in WRONG]
    + [("long", update, rules) for update in (particle, bootstrapped, exactly) for rules in RULES],
)
def test_an_opponent_model_must_return_a_number_for_each_action(wrong: str, update: Any, rules: str):
    model, got = WRONG[wrong]
    num_actions = RULES[rules].num_actions
    with pytest.raises(ValueError, match=rf"opponent model .*must return float32\[{num_actions}\], .*got {got}"):
        update(model, RULES[rules])


def test_a_model_of_the_length_of_other_rules_is_refused():
    """Under official rules there is one action more: the index of a challenge was clamped."""
    with pytest.raises(ValueError, match=r"must return float32\[62\].*got float32\[61\]"):
        particle(lambda observation, legal: jnp.ones(61) / 61, RULES["official"])


@dataclass(frozen=True)
class Fault(PackedPolicy):
    """A packed policy that returns three words, or words that don't belong to the options."""

    kind: str
    name: str = "fault"
    summary: str = "wrong"

    def narrow(self, view: Any, legal: Any) -> Any:
        if self.kind == "three":
            return legal[:3]
        return tuple(word.astype(jnp.int32) if self.kind == "type" else word[..., None] for word in legal)


def simulated(policy: PackedPolicy) -> None:
    unojax.simulate(KEY, 4, (policy, "uniform"))


def followed(policy: PackedPolicy) -> None:
    particle(PolicyOpponent(policy), RULES["plain"])


def called(policy: PackedPolicy) -> None:
    state = unojax.init(KEY)
    policy(KEY, unojax.observe(state, 0), unojax.legal_mask(state))


@pytest.mark.parametrize("kind", ["three", "type", "shape"])
@pytest.mark.parametrize("ask", [simulated, followed, called])
def test_a_packed_policy_must_return_options(kind: str, ask: Any):
    with pytest.raises(ValueError, match=r"fault\.narrow must return packed options"):
        ask(Fault(kind))


class PackedModel:
    """A packed opponent model with one likelihood for all hands."""

    def __call__(self, observation: Any, legal_mask: Any) -> Any:
        return legal_mask

    def likelihood(self, view: Any, legal: Any, played: Any) -> Any:
        return jnp.ones((1, 1))


@pytest.mark.parametrize("rules", RULES)
def test_a_packed_model_must_return_a_number_for_each_hand(rules: str):
    with pytest.raises(ValueError, match=r"PackedModel\.likelihood must return float32\[8\], .*got float32\[1, 1\]"):
        particle(PackedModel(), RULES[rules])


def test_probabilities_of_a_strategy_have_the_length_of_the_rules():
    tree = solve.enumerate_game(Rules(deck=deck_of("R1 R2 Y1 W"), hand_size=1, max_steps=4))
    with pytest.raises(ValueError, match=r"policy must return float32\[61\], .*got float32\[100\]"):
        solve.of_policy(tree, lambda observation, legal: jnp.append(legal / legal.sum(), jnp.zeros(39)))


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


def test_a_memory_keeps_its_shape_in_a_session():
    session = Session(Forgetful(), seat=0, seed=0, rules=Rules())
    session.play(int(session.legal.argmax()))
    with pytest.raises(OpponentError, match=r"update must return a memory like the one it gets, .*\[3\].*returned .*\[2\]"):
        _ = session.memory


def test_a_memory_keeps_its_shape_on_a_tree():
    tree = solve.enumerate_game(Rules(deck=deck_of("R1 R2 Y1 W"), hand_size=1, max_steps=4))
    with pytest.raises(ValueError, match="update must return a memory like the one it gets"):
        solve.of_agent(tree, Forgetful())


def test_a_memory_keeps_its_type_in_the_next_game():
    observation = unojax.observe(unojax.init(KEY), 0)
    with pytest.raises(ValueError, match=r"next_game must return a memory like the one it gets, .*float32\[3\].*bool\[3\]"):
        next_game(Forgetful(), KEY, jnp.zeros(3), observation)


@dataclass(frozen=True)
class ShortFilter(UniformFilter):
    """A filter that leaves out the fourth copy of each card."""

    name: str = field(default="short", init=False)

    def count_probs(self, belief: Any, observation: Any) -> Any:
        return super().count_probs(belief, observation)[:, :4]


def test_a_filter_tells_of_each_number_of_copies():
    games = analysis.record(KEY, 2, max_steps=3)
    with pytest.raises(ValueError, match=r"short\.count_probs must return float32\[54, 5\], .*got float32\[54, 4\]"):
        analysis.track(KEY, games, ShortFilter())
