"""Rule policies: what they prefer, on crafted hands and against plain Python, and that all their forms agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers import actions, after, play
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import observe
from unojax.policies import POLICIES, get_policy, uniform
from unojax.policies.rule import RULE_POLICIES
from unojax.rules import Rules
from unojax.simulation import simulate
from unojax.text import format_action, make_state, parse_action
from unojax.view import view_of

ACTION_RANKS = (cards.SKIP, cards.REVERSE, cards.DRAW_TWO)


@partial(jax.jit, static_argnames="name")
def action_probs(state: State, *, name: str) -> tuple[jax.Array, jax.Array, jax.Array]:
    """What one policy does for the players to move in a batch of states: hands, masks, probabilities."""

    def one(state: State) -> tuple[jax.Array, jax.Array, jax.Array]:
        seen, mask = observe(state, state.current_player), game.legal_mask(state)
        return seen.hand, mask, POLICIES[name].action_probs(seen, mask)

    return jax.vmap(one)(state)


@cache
def random_states() -> State:
    """Positions of random games on the host, [640]."""
    games = play(0, num_steps=320, rules=Rules())
    return jax.tree.map(lambda leaf: leaf[:32, :20].reshape(-1, *leaf.shape[2:]), games.states)


def choices(name: str, hand: str, top: str, theirs: str = "B1 B2 B3 B4 B5") -> set[int]:
    """The actions that the policy may take."""
    # In a batch of the size of the others, which is compiled once.
    state = make_state(hand, theirs, top)
    states = jax.tree.map(lambda one, many: np.concatenate([np.asarray(one)[None], many[1:]]), state, random_states())
    probs = np.asarray(action_probs(states, name=name)[2][0])
    chosen = np.flatnonzero(probs)
    np.testing.assert_allclose(probs[chosen], 1 / len(chosen), rtol=1e-6)
    return set(chosen.tolist())


@pytest.mark.parametrize(
    ("name", "hand", "top", "expected"),
    [
        ("uniform", "R1 R1 RS W B9", "R7", "R1 RS W:R W:Y W:B W:G"),
        ("uniform", "B9 G2", "R7", "draw"),
        ("greedy", "R1 R1 RS W B9", "R7", "R1 RS W:R W:Y W:B W:G"),
        ("greedy", "B9 G2", "R7", "draw"),
        ("keep-wilds", "R1 RS W W+4 B9", "R7", "R1 RS"),
        ("keep-wilds", "W B9 B8 G2", "R7", "W:B"),
        ("keep-wilds", "W B9 G2", "R7", "W:B W:G"),
        ("wilds-first", "R1 W B9 B8", "R7", "W:B"),
        ("wilds-first", "R1 B9 B8", "R7", "R1"),
        ("actions-first", "R1 RS R+2 W W+4", "R7", "RS R+2 W:R W+4:R"),
        ("actions-last", "R1 RS W", "R7", "R1"),
        ("actions-last", "RS W B1", "R7", "RS"),
        ("scarcest-color", "R1 R2 R3 B7 B8 W", "R7", "B7"),
        ("scarcest-color", "R1 B7 W", "R7", "R1 B7"),
        ("scarcest-color", "W B7 B8 G1", "R9", "W:B"),
        ("commonest-color", "R1 R2 R3 B7 B8 W", "R7", "R1 R2 R3"),
        ("repeat-turns", "R1 RS RR W", "R7", "RS RR"),
        ("repeat-turns", "R1 R2 W", "R7", "R1 R2"),
        ("guard", "R1 RS W R+2", "R7", "R1"),
        ("guard", "RS R+2 W", "R7", "RS R+2"),
    ],
)
def test_preferences_on_crafted_hands(name: str, hand: str, top: str, expected: str):
    assert choices(name, hand, top) == actions(expected)


def test_guard_attacks_once_the_opponent_is_down_to_three():
    assert choices("guard", "R1 RS W R+2", "R7", theirs="B1 B2 B3") == {parse_action("R+2")}
    assert choices("guard", "R1 RS R2", "R7", theirs="B1") == {parse_action("RS")}


def _plain(name: str) -> list[Callable[[set[int], dict[int, int]], set[int]]]:
    """The same policies in plain Python: filters over legal actions, given the number of cards held of each colour."""

    def only(wanted: Callable[[int], bool]) -> Callable[[set[int], dict[int, int]], set[int]]:
        return lambda legal, held: {a for a in legal if wanted(a % 15)} or legal

    def declare(legal: set[int], held: dict[int, int]) -> set[int]:
        most = max(held.values())
        return {a for a in legal if a % 15 < cards.WILD or held[a // 15] == most}

    def by_color(sign: int) -> Callable[[set[int], dict[int, int]], set[int]]:
        def rule(legal: set[int], held: dict[int, int]) -> set[int]:
            colored = {a for a in legal if a % 15 < cards.WILD}
            if not colored:
                return legal
            best = max(sign * held[a // 15] for a in colored)
            return {a for a in colored if sign * held[a // 15] == best}

        return rule

    return {
        "uniform": [],
        "greedy": [],
        "keep-wilds": [only(lambda r: r < cards.WILD), declare],
        "wilds-first": [only(lambda r: r >= cards.WILD), declare],
        "actions-first": [only(lambda r: r >= cards.SKIP), declare],
        "actions-last": [only(lambda r: r < cards.SKIP), only(lambda r: r < cards.WILD), declare],
        "scarcest-color": [by_color(-1), declare],
        "commonest-color": [by_color(1), declare],
        "repeat-turns": [only(lambda r: r in (cards.SKIP, cards.REVERSE)), only(lambda r: r < cards.WILD), declare],
    }[name]


@pytest.mark.parametrize("name", [name for name in RULE_POLICIES if name != "guard"])
def test_action_probs_agree_with_plain_python(name: str):
    hands, masks, probs = map(np.asarray, action_probs(random_states(), name=name))
    hands = cards.count_types(hands)
    checked = 0
    for hand, mask, prob in zip(hands, masks, probs, strict=True):
        legal = set(np.flatnonzero(mask).tolist())
        if cards.DRAW not in legal:
            checked += 1
            held = {c: int(hand[13 * c : 13 * c + 13].sum()) for c in range(4)}
            for rule in _plain(name):
                legal = rule(legal, held)
        elif len(legal) > 1:
            continue  # a finished game
        expected = np.zeros(61)
        expected[sorted(legal)] = 1 / len(legal)
        np.testing.assert_allclose(prob, expected, atol=1e-6)
    assert checked > 50


@partial(jax.jit, static_argnames="name")
def calls_and_narrowed(keys: jax.Array, state: State, *, name: str) -> tuple[jax.Array, ...]:
    """Actions for many keys, the probabilities, and the options in the packed form."""
    policy, seen, mask = POLICIES[name], observe(state, 0), game.legal_mask(state)
    view = view_of(seen)
    narrowed = policy.narrow(view, bits.playable(view.hand, jnp.uint32(0), jnp.uint32(7)))
    called = jax.vmap(lambda key: policy(key, seen, mask))(keys)
    return called, policy.action_probs(seen, mask), game.options_to_mask(narrowed)


@pytest.mark.parametrize("name", POLICIES)
def test_calls_and_packed_choices_follow_the_action_probs(name: str):
    state = make_state("R1 R1 RS RR R+2 W W+4 B7 B9 G7", "Y1 Y2 Y3", "R7")
    keys = jax.random.split(jax.random.key(0), 2_000)
    actions, probs, narrowed = map(np.asarray, calls_and_narrowed(keys, state, name=name))
    called = np.bincount(actions, minlength=61)
    # Within 6 standard errors: false alarms below 1e-7.
    assert (np.abs(called / 2_000 - probs) <= 6 * np.sqrt(probs * (1 - probs) / 2_000)).all(), format_action(called.argmax())
    np.testing.assert_array_equal(narrowed, probs[:60] > 0)


@pytest.mark.parametrize("size", [1, 2])
def test_batches_are_refused_with_the_way_to_map(size: int):
    state, key = make_state("R1", "Y1", "R7"), jax.random.key(0)
    seen, mask = jax.jit(observe)(state, 0), jnp.ones(61, bool)
    many = jax.tree.map(lambda x: jnp.stack([x] * size), (seen, mask))
    for arguments in ((many[0], mask), (seen, many[1])):
        with pytest.raises(ValueError, match=r"takes a single .*jax\.vmap"):
            uniform(key, *arguments)
        with pytest.raises(ValueError, match=r"takes a single .*jax\.vmap"):
            uniform.action_probs(*arguments)
    with pytest.raises(ValueError, match=r"takes a single key.*jax\.vmap"):
        uniform(jax.random.split(key, size), seen, mask)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("uniform", "greedy")])
def test_each_policy_beats_uniform_play(name: str):
    policy = POLICIES[name]
    first, second = (simulate(jax.random.key(1), 8_000, pair, batch_size=256) for pair in ((policy, uniform), (uniform, policy)))
    # The weakest wins 54 %, the standard error is 0.4 points.
    assert ((first.winner == 0).mean() + (second.winner == 1).mean()) / 2 > 0.515


OFFICIAL = Rules.official()


def decisions_with_a_draw() -> list[tuple[State, str, str]]:
    """Positions, with what a player does that plays if it can, and what it may do instead."""
    return [
        (make_state("R1 R2 B9", "Y1 Y2", "R7", rules=OFFICIAL), "R1 R2", "draw"),
        (make_state("B1 B2", "Y1 Y2", "R7", rules=OFFICIAL), "draw", ""),
        (make_state("R1 B9", "Y1 Y2", "R7", drawn="R1", rules=OFFICIAL), "R1", "draw"),
        (after(make_state("W+4 B9", "Y1 Y2", "R7", rules=OFFICIAL), "W+4:B"), "draw", "challenge"),
    ]


@pytest.mark.parametrize("name", POLICIES)
def test_only_uniform_play_draws_passes_and_challenges_at_will(name: str):
    decisions = decisions_with_a_draw()
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(state for state, _, _ in decisions))
    _, mask, probs = map(np.asarray, action_probs(states, name=name))
    for (state, sane, at_will), legal, prob in zip(decisions, mask, probs, strict=True):
        taken = set(np.flatnonzero(prob).tolist())
        assert set(np.flatnonzero(legal).tolist()) == actions(f"{sane} {at_will}"), state
        assert taken <= actions(sane) if name != "uniform" else taken == actions(f"{sane} {at_will}")
        if name == "greedy":
            assert taken == actions(sane)


def test_an_unknown_name_is_refused_with_the_known_ones():
    assert get_policy("guard") is POLICIES["guard"]
    with pytest.raises(ValueError, match=r"no policy is called 'smart'; choose one of uniform, greedy, keep-wilds, .*guard"):
        get_policy("smart")


def test_policies_are_hashable_and_named_once():
    assert len({hash(policy) for policy in POLICIES.values()}) == len(POLICIES)
    assert all(name == policy.name and policy.summary for name, policy in POLICIES.items())
