"""Rule policies: their preferences on crafted hands and in plain Python, and the agreement of their forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import corpus
from tests.helpers import actions, after, refusals
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import observe
from unojax.policies import POLICIES, get_policy, uniform
from unojax.policies.rule import RULE_POLICIES
from unojax.rules import Rules
from unojax.simulation import simulate
from unojax.text import make_observation, make_state
from unojax.view import view_of

OFFICIAL = Rules.official()
NUM_RANDOM = 600
CRAFTED = {
    # Policy, hand, top, number of the opponent's cards: the actions that the policy may take where drawing is a choice.
    ("uniform", "R1 R1 RS W B9", "R7", 5): "R1 RS W:R W:Y W:B W:G draw",
    ("greedy", "R1 R1 RS W B9", "R7", 5): "R1 RS W:R W:Y W:B W:G",
    ("uniform", "B9 G2", "R7", 5): "draw",
    ("keep-wilds", "R1 RS W W+4 B9", "R7", 5): "R1 RS",
    ("keep-wilds", "W B9 B8 G2", "R7", 5): "W:B",
    ("keep-wilds", "W B9 G2", "R7", 5): "W:B W:G",
    ("wilds-first", "R1 W B9 B8", "R7", 5): "W:B",
    ("wilds-first", "R1 B9 B8", "R7", 5): "R1",
    ("actions-first", "R1 RS R+2 W W+4", "R7", 5): "RS R+2 W:R W+4:R",
    ("actions-last", "R1 RS W", "R7", 5): "R1",
    ("actions-last", "RS W B1", "R7", 5): "RS",
    ("scarcest-color", "R1 R2 R3 B7 B8 W", "R7", 5): "B7",
    ("scarcest-color", "R1 B7 W", "R7", 5): "R1 B7",
    ("scarcest-color", "W B7 B8 G1", "R9", 5): "W:B",
    ("commonest-color", "R1 R2 R3 B7 B8 W", "R7", 5): "R1 R2 R3",
    ("repeat-turns", "R1 RS RR W", "R7", 5): "RS RR",
    ("repeat-turns", "R1 R2 W", "R7", 5): "R1 R2",
    ("guard", "R1 RS W R+2", "R7", 5): "R1",
    ("guard", "RS R+2 W", "R7", 5): "RS R+2",
    # It attacks once the opponent is down to three cards.
    ("guard", "R1 RS W R+2", "R7", 3): "R+2",
    ("guard", "R1 RS R2", "R7", 1): "RS",
}


@jax.jit
def probs_of_all(states: State) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    """Return hands, masks, and every policy's action probabilities for the players to move."""

    def one(state: State) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
        seen, mask = observe(state, state.current_player), game.legal_mask(state)
        return seen.hand, mask, {name: policy.action_probs(seen, mask) for name, policy in POLICIES.items()}

    return jax.vmap(one)(states)


def decisions_at_will() -> list[tuple[State, str, str]]:
    """Return positions with their usual actions, and those of a player who draws, passes or challenges at will."""
    return [
        (make_state("R1 R2 B9", "Y1 Y2", "R7", rules=OFFICIAL), "R1 R2", "draw"),
        (make_state("B1 B2", "Y1 Y2", "R7", rules=OFFICIAL), "draw", ""),
        (make_state("R1 B9", "Y1 Y2", "R7", drawn="R1", rules=OFFICIAL), "R1", "draw"),
        (after(make_state("W+4 B9", "Y1 Y2", "R7", rules=OFFICIAL), "W+4:B"), "draw", "challenge"),
    ]


@pytest.fixture(scope="module")
def found() -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return hands, masks and probabilities for crafted hands, decisions at will, and random positions."""
    crafted = [
        make_state(hand, " ".join(f"Y{n}" for n in range(1, number + 1)), top, rules=OFFICIAL) for _, hand, top, number in CRAFTED
    ]
    crafted += [state for state, *_ in decisions_at_will()]
    games, steps = np.array(corpus.positions("official", NUM_RANDOM)).T
    random = jax.tree.map(lambda leaf: leaf[games, steps], corpus.games("official").states)
    states = jax.tree.map(lambda many, *each: np.concatenate([np.stack(each), many]), random, *jax.device_get(crafted))
    return jax.device_get(probs_of_all(states))


def test_preferences_on_crafted_hands(found):
    for row, ((name, hand, *_), expected) in enumerate(CRAFTED.items()):
        probs = found[2][name][row]
        chosen = np.flatnonzero(probs)
        assert set(chosen.tolist()) == actions(expected), (name, hand)
        np.testing.assert_allclose(probs[chosen], 1 / len(chosen), rtol=1e-6)


def test_only_uniform_play_draws_passes_and_challenges_at_will(found):
    for row, (_, sane, at_will) in enumerate(decisions_at_will(), start=len(CRAFTED)):
        legal = actions(f"{sane} {at_will}")
        assert set(np.flatnonzero(found[1][row]).tolist()) == legal
        for name in POLICIES:
            taken = set(np.flatnonzero(found[2][name][row]).tolist())
            assert taken == legal if name == "uniform" else taken <= actions(sane), name
            assert name != "greedy" or taken == actions(sane)


def _plain(name: str) -> list[Callable[[set[int], dict[int, int]], set[int]]]:
    """Return a policy in plain Python: filters over legal actions, given the cards held of each colour."""

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


def test_action_probs_agree_with_plain_python(found):
    hands, masks, probs = (jax.tree.map(lambda rows: rows[-NUM_RANDOM:], part) for part in found)
    hands, checked = cards.count_types(hands), 0
    for name in set(RULE_POLICIES) - {"guard"}:
        for hand, mask, prob in zip(hands, masks, probs[name], strict=True):
            legal = set(np.flatnonzero(mask).tolist())
            plays = legal - {cards.DRAW, cards.CHALLENGE}
            if name != "uniform":
                # It plays if it can, and draws or passes otherwise.
                legal = plays or {cards.DRAW}
            if plays:
                checked += 1
                held = {c: int(hand[13 * c : 13 * c + 13].sum()) for c in range(4)}
                for rule in _plain(name):
                    legal = rule(legal, held)
            expected = np.zeros(len(mask))
            expected[sorted(legal)] = 1 / len(legal)
            np.testing.assert_allclose(prob, expected, atol=1e-6)
    assert checked > 8 * 50


@jax.jit
def calls_and_narrowed(keys: jax.Array, state: State) -> dict[str, tuple[jax.Array, ...]]:
    """Return each policy's actions for many keys, its probabilities, and its packed options."""
    seen, mask = observe(state, 0), game.legal_mask(state)
    view = view_of(seen)

    def of_policy(policy) -> tuple[jax.Array, ...]:
        narrowed = policy.narrow(view, bits.playable(view.hand, jnp.uint32(0), jnp.uint32(7)))
        called = jax.vmap(lambda key: policy(key, seen, mask))(keys)
        return called, policy.action_probs(seen, mask), game.options_to_mask(narrowed)

    return {name: of_policy(policy) for name, policy in POLICIES.items()}


def test_calls_and_packed_choices_follow_the_action_probs():
    """Contract: a policy is `policy(key, observation, legal_mask) -> action`.

    Within 6 standard errors, an error probability below 1e-7.
    """
    state = make_state("R1 R1 RS RR R+2 W W+4 B7 B9 G7", "Y1 Y2 Y3", "R7")
    for name, results in calls_and_narrowed(jax.random.split(jax.random.key(0), 2_000), state).items():
        chosen, probs, narrowed = map(np.asarray, results)
        shares = np.bincount(chosen, minlength=61) / 2_000
        assert (np.abs(shares - probs) <= 6 * np.sqrt(probs * (1 - probs) / 2_000)).all(), name
        np.testing.assert_array_equal(narrowed, probs[:60] > 0, err_msg=name)


def test_batches_and_unknown_names_are_refused():
    """Contract: a batch passed without `vmap` is a `ValueError`."""
    seen, key = make_observation("R1 R2", "R5", 3), jax.random.key(0)
    mask = np.ones(61, bool)
    for size in (1, 2):
        seen_many, masks = jax.tree.map(lambda x, size=size: np.stack([x] * size), (seen, mask))
        for arguments in ((seen_many, mask), (seen, masks)):
            for call in (partial(uniform, key), uniform.action_probs):
                with pytest.raises(ValueError, match=r"takes a single .*jax\.vmap"):
                    call(*arguments)
        with pytest.raises(ValueError, match=r"takes a single key.*jax\.vmap"):
            uniform(jax.random.split(key, size), seen, mask)
    assert get_policy("guard") is POLICIES["guard"]
    refusals({"no policy is called 'smart'; choose one of uniform, greedy": lambda: get_policy("smart")})
    assert len({hash(policy) for policy in POLICIES.values()}) == len(POLICIES)
    assert all(name == policy.name and policy.summary for name, policy in POLICIES.items())


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POLICIES if name not in ("uniform", "greedy")])
def test_each_policy_beats_uniform_play(name: str):
    policy = POLICIES[name]
    first, second = (simulate(jax.random.key(1), 8_000, pair, batch_size=256) for pair in ((policy, uniform), (uniform, policy)))
    # The weakest wins 54 %, the standard error is 0.4 points.
    assert ((first.winner == 0).mean() + (second.winner == 1).mean()) / 2 > 0.515
