"""`rollout` plays the games of `simulate` and of `step`, shows what it is asked for, and nothing else is computed."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.extend.core import jaxprs_in_params

import unojax
from tests.helpers import run_on_devices
from unojax import Rules, Slots, State, Transitions, check_slots, rollout, simulate, start_slots
from unojax.cards import DRAW
from unojax.decks import small_deck
from unojax.game import GivenCards, from_table, rewards_at, step_with
from unojax.observation import Observation
from unojax.policies import RulePolicy
from unojax.simulation.rows import Field
from unojax.view import View

KEY = jax.random.key(3)
SMALL = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12)), hand_size=3)
"""Skips, penalties and reshuffles within a few steps."""
EVERYTHING: tuple[Field, ...] = (
    *("observation", "view", "legal_mask", "state", "action", "player", "reward", "terminated", "truncated", "game", "step"),
)
FEW: tuple[Field, ...] = ("action", "player", "reward", "terminated", "game", "step")


def any_legal(params: Any, key: Array, seen: Observation, legal_mask: Array) -> tuple[Array, dict[str, Array]]:
    """A policy by the protocol, with extras; `params` are logits."""
    log_probs = jax.nn.log_softmax(jnp.where(legal_mask, params, -1e9))
    action = jax.random.categorical(key, log_probs)
    return action, {"log_prob": log_probs[action], "cards": seen.hand.sum()}


def as_policy(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """The same for `simulate`."""
    return any_legal(jnp.zeros(legal_mask.shape), key, observation, legal_mask)[0]


def games_of(rows: Transitions, num_games: int) -> list[dict[str, np.ndarray]]:
    """The valid rows of each game, and the rewards and ends of all of its rows."""
    arrays = {name: np.asarray(getattr(rows, name)) for name in ("valid", *FEW)}
    of_game = []
    for number in range(num_games):
        at = arrays["game"] == number
        columns = np.flatnonzero(at.any(0))
        assert len(columns) == 1, "a game is played in one slot"
        of_slot = {name: values[at[:, columns[0]], columns[0]] for name, values in arrays.items()}
        rows_of = {name: of_slot[name][of_slot["valid"]] for name in ("action", "player", "step")}
        of_game.append(rows_of | {"reward": of_slot["reward"].sum(0), "ends": of_slot["terminated"].sum()})
    return of_game


@pytest.mark.parametrize("rules", [SMALL, Rules.official()], ids=["small", "official"])
@pytest.mark.parametrize("policy", ["packed", "by protocol"])
def test_games_are_those_of_simulate_whatever_the_slots_and_nodes(rules: Rules, policy: str):
    by_simulate: Any = ("linear", "uniform") if policy == "packed" else (as_policy, as_policy)
    by_rollout: Any = ("linear", "uniform") if policy == "packed" else any_legal
    params: Any = (None, None) if policy == "packed" else jnp.zeros(rules.num_actions)
    games, seen = simulate(KEY, 12, by_simulate, rules=rules), []
    rows_needed = 4 * int(games.num_steps.max())
    for num_slots, nodes in ((12, None), (5, None), (5, 1)):
        slots = start_slots(KEY, num_slots, rules=rules)
        slots, rows = rollout(
            KEY, by_rollout, params, slots, rows_needed * (-(-12 // num_slots)), fields=FEW, nodes_per_row=nodes
        )
        check_slots(slots)
        seen.append(games_of(rows, 12))
    for number, game in enumerate(seen[0]):
        assert len(game["action"]) == games.num_steps[number] and game["ends"] == 1
        np.testing.assert_array_equal(game["step"], np.arange(games.num_steps[number]))
        winner = games.winner[number]
        if not rules.points:
            np.testing.assert_array_equal(game["reward"], [0, 0] if winner < 0 else [1 - 2 * winner, 2 * winner - 1])
        for other in seen[1:]:
            for name, values in game.items():
                np.testing.assert_array_equal(values, other[number][name], err_msg=name)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(deck=SMALL.deck, hand_size=3, step_penalty=0.25),
        Rules(deck=SMALL.deck, hand_size=3, skip_forfeits=False, may_draw=True, points=True),
        Rules.official(),
    ],
    ids=["small", "choice to draw, points", "official"],
)
def test_every_row_is_a_step_of_the_contract(rules: Rules):
    """A row shows what `observe`, `legal_mask` and `step` say of the position, and the next position follows by `step`."""

    @jax.jit
    def one_row(slots: Slots) -> tuple[Slots, Transitions, dict[str, Array]]:
        after, rows = rollout(KEY, "uniform", None, slots, 1, fields=EVERYTHING)
        row = jax.tree.map(lambda x: x[0], rows)

        def check(before: Slots, after: Slots, row: Transitions) -> dict[str, Array]:
            assert row.action is not None and row.reward is not None
            state, reached = (
                from_table(s.table, rules, last_action=s.last_action, step_count=s.num_steps) for s in (before, after)
            )
            to_next = step_with(state, row.action, GivenCards(unojax.bits.pack(reached.deck), reached.color))
            to_end = unojax.step(state, row.action, jax.random.key(0))
            seen, mask = unojax.observe(state, state.current_player), unojax.legal_mask(state)
            goes_on = row.valid & ~row.terminated
            return {
                "observation": ~row.valid | equal(row.observation, seen),
                "view": ~row.valid | equal(canonical(row.view), unojax.view_of(seen)),
                "legal_mask": ~row.valid | equal(row.legal_mask, mask),
                "state": ~row.valid | equal(row.state, replace(state, step_count=jnp.int32(0))),
                "player": ~row.valid | (row.player == state.current_player),
                "next": ~goes_on | equal(bare(to_next), bare(reached)),
                "reward on the way": ~goes_on | equal(row.reward, to_next.rewards),
                "reward at the end": ~(row.valid & row.terminated) | equal(row.reward, to_end.rewards),
                "end": ~row.terminated | (row.valid & to_end.terminated),
                "legal": ~row.valid | (to_next.error == 0),
            }

        return after, row, jax.vmap(check)(slots, after, row)

    def canonical(view: View) -> View:
        return view.replace(hand=unojax.bits.canonical(view.hand), pile=unojax.bits.canonical(view.pile))

    def bare(state: State) -> State:
        return state.replace(rewards=jnp.zeros(2))

    def equal(a: Any, b: Any) -> Array:
        return jnp.stack([jnp.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]).all()

    slots, taken, ended = start_slots(KEY, 32, rules=rules), 0, 0
    keeps_turn = np.zeros(32, bool)
    for _ in range(40):
        slots, row, checks = one_row(slots)
        for name, right in checks.items():
            assert np.asarray(right).all(), name
        taken, ended = taken + int(row.valid.sum()), ended + int(row.terminated.sum())
        keeps_turn |= np.asarray(row.valid & ~row.terminated & (slots.player == row.player) & (row.action != DRAW))
    assert taken > 600 and ended > 0 and (keeps_turn.any() or not rules.skip_forfeits), "the example shows too little"


def test_choices_only_shows_the_choices_of_all_steps():
    def choices(choices_only: bool, nodes: int | None) -> list[np.ndarray]:
        slots, shown = start_slots(KEY, 6, rules=SMALL), []
        _, rows = rollout(
            KEY, any_legal, jnp.zeros(61), slots, 150, fields=("legal_mask", "action", "game", "step", "reward"),
            choices_only=choices_only, nodes_per_row=nodes,
        )  # fmt: skip
        several = np.asarray(rows.legal_mask).sum(-1) > 1
        valid = np.asarray(rows.valid)
        assert several[valid].all() or not choices_only
        for number in range(12):
            at = (np.asarray(rows.game) == number) & valid & several
            shown.append(np.stack([np.asarray(rows.step)[at], np.asarray(rows.action)[at]]))
        return shown

    steps = choices(False, None)
    assert sum(game.shape[1] for game in steps) > 40
    for nodes in (None, 1, 3):
        for game, other in zip(steps, choices(True, nodes), strict=True):
            np.testing.assert_array_equal(game, other)


def test_rewards_of_choices_come_in_later_rows_if_they_must():
    slots, rows = rollout(KEY, "uniform", None, start_slots(KEY, 6, rules=SMALL), 200, fields=FEW, choices_only=True)
    del slots
    games = simulate(KEY, 6, rules=SMALL)
    for number, game in enumerate(games_of(rows, 6)):
        assert game["reward"][0] == {0: 1, 1: -1, -1: 0}[int(games.winner[number])] and game["ends"] == 1


def test_slots_go_on_where_they_stopped():
    slots = start_slots(KEY, 8)
    play = partial(rollout, KEY, any_legal, jnp.zeros(61), fields=EVERYTHING)
    end, whole = play(slots, 30)
    half, first = play(slots, 14)
    resumed, second = play(half, 16)
    parts = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)
    for a, b in zip(jax.tree.leaves((end, whole)), jax.tree.leaves((resumed, parts)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_keys_are_of_chance_and_of_choices():
    other = jax.random.key(4)

    def first_actions(of_slots: Array, of_policy: Array) -> tuple[np.ndarray, np.ndarray]:
        slots = start_slots(of_slots, 16)
        _, rows = rollout(of_policy, "uniform", None, slots, 6, fields=("action", "observation"))
        return np.asarray(rows.action), np.asarray(rows.observation.hand[0])

    (a, dealt), (b, same_deal), (_, other_deal) = first_actions(KEY, KEY), first_actions(KEY, other), first_actions(other, KEY)
    np.testing.assert_array_equal(dealt, same_deal)
    assert (a != b).any() and (dealt != other_deal).any()


def test_two_policies_have_a_seat_and_params_each():
    def lowest(params: Array, key: Array, seen: View, legal_mask: Array) -> tuple[Array, Array]:
        del key
        assert isinstance(seen, View)
        return legal_mask.argmax(), params

    def highest(params: Array, key: Array, seen: View, legal_mask: Array) -> tuple[Array, Array]:
        del key, seen
        return 60 - legal_mask[::-1].argmax(), params

    params = jnp.float32(1), jnp.float32(2)
    shown: Any = ("action", "player", "legal_mask")
    _, rows = rollout(KEY, (lowest, highest), params, start_slots(KEY, 4), 20, fields=shown, sees="view")
    valid, first = np.asarray(rows.valid), np.asarray(rows.player) == 0
    mask, action = np.asarray(rows.legal_mask), np.asarray(rows.action)
    assert (valid & first).any() and (valid & ~first).any()
    np.testing.assert_array_equal(action[valid & first], mask.argmax(-1)[valid & first])
    np.testing.assert_array_equal(action[valid & ~first], 60 - mask[..., ::-1].argmax(-1)[valid & ~first])
    np.testing.assert_array_equal(rows.extras[valid], np.where(first, 1, 2)[valid])
    # Extras of the only policy that has any.
    _, rows = rollout(KEY, (lowest, "uniform"), (params[0], None), start_slots(KEY, 4), 3, sees="view")
    np.testing.assert_array_equal(rows.extras, np.ones((3, 4)))


def test_truncated_games_show_their_last_position():
    rules = Rules(max_steps=9)
    _, rows = rollout(KEY, any_legal, jnp.zeros(61), start_slots(KEY, 4, rules=rules), 60, fields=EVERYTHING)
    cut, valid, step, number = (np.asarray(x) for x in (rows.truncated, rows.valid, rows.step, rows.game))
    assert cut.sum() > 8 and not (cut & valid).any() and not np.asarray(rows.terminated).any()
    np.testing.assert_array_equal(step[cut], 9)
    assert step[valid].max() == 8
    hand = np.asarray(rows.observation.hand)
    for slot in range(4):
        for row in np.flatnonzero(cut[:, slot])[:-1]:
            assert number[row + 1, slot] == number[row, slot] + 4
            assert np.asarray(rows.extras["cards"])[row, slot] == hand[row, slot].sum()
    # The same first steps as without truncation.
    _, whole = rollout(KEY, any_legal, jnp.zeros(61), start_slots(KEY, 4), 9, fields=("action",))
    np.testing.assert_array_equal(rows.action[:9], whole.action)


@dataclass(frozen=True)
class Remembering:
    """Plays the lowest legal action, and remembers who it is, how many steps it saw, and what it saw wrong."""

    name: str = "remembering"

    def init(self, key: Array, observation: Observation) -> dict[str, Array]:
        return {
            "player": observation.player,
            "steps": jnp.int32(0),
            "wrong": observation.hand_count != 7,
            "key": jax.random.key_data(key),
            "hand": observation.hand,
        }

    def update(self, key: Array, memory: Any, before: Observation, action: Array, after: Observation) -> Any:
        drew = (action == DRAW) & (before.current_player == before.player)
        grew = after.hand_count - before.hand_count
        wrong = (before.player != memory["player"]) | (after.last_action != action) | (before.hand != memory["hand"]).any()
        wrong |= jnp.where(drew, ~after.terminated & (grew <= 0), grew > 0)
        return memory | {
            "steps": memory["steps"] + 1,
            "wrong": memory["wrong"] | wrong,
            "key": memory["key"] ^ jax.random.key_data(key),
            "hand": after.hand,
        }

    def act(self, key: Array, memory: Any, observation: Observation, legal_mask: Array) -> Array:
        del key
        fine = (memory["player"] == observation.player) & (memory["hand"] == observation.hand).all()
        return jnp.where(fine, legal_mask.argmax(), 99)


@pytest.mark.parametrize("both", [True, False])
def test_agents_remember_until_their_game_ends(both: bool):
    agent = Remembering()
    policy: Any = agent if both else ("uniform", agent)
    slots, ends = start_slots(KEY, 8, policy=policy), 0
    play = jax.jit(lambda slots: rollout(KEY, policy, None if both else (None, None), slots, 1, fields=("terminated",)))
    of_seat = 0 if both else 1
    for _ in range(80):
        number = np.asarray(slots.game)
        memory = slots.memory[of_seat]
        slots, rows = play(slots)
        ends += int(rows.terminated.sum())
        new = np.asarray(slots.game) != number
        counted = np.asarray(slots.memory[of_seat]["steps"])
        dealt = np.asarray(slots.num_steps) > 0
        np.testing.assert_array_equal(counted[dealt], np.asarray(slots.num_steps)[dealt])
        assert not np.asarray(slots.memory[of_seat]["wrong"])[~new].any()
        assert (np.asarray(memory["player"]) == of_seat).all()
    check_slots(slots)
    assert ends > 2
    if not both:
        assert slots.memory[0] == ()


def test_agents_need_slots_with_their_memory_and_whole_steps():
    agent = Remembering()
    with pytest.raises(ValueError, match="the slots hold no memory: give start_slots the same policy"):
        rollout(KEY, agent, None, start_slots(KEY, 2), 1)
    with pytest.raises(ValueError, match="nodes_per_row must be at least 5, got 2"):
        rollout(KEY, agent, None, start_slots(KEY, 2, policy=agent), 1, nodes_per_row=2)


def test_an_illegal_action_stops_its_slot_and_is_reported_once():
    def wrong_later(params: None, key: Array, seen: Observation, legal_mask: Array) -> Array:
        del params, key
        return jnp.where(seen.pile.sum() > 3, 77, legal_mask.argmax())

    slots, rows = rollout(KEY, wrong_later, None, start_slots(KEY, 8), 40, fields=("observation", "terminated"))
    valid = np.asarray(rows.valid)
    assert slots.illegal.all() and valid.any() and not valid[-1].any() and not np.asarray(rows.terminated).any()
    assert np.asarray(rows.observation.pile.sum(-1))[valid & (np.asarray(rows.observation.hand.sum(-1)) > 0)].max() <= 8
    again, later = rollout(KEY, "uniform", None, slots, 3)
    assert not later.valid.any() and again.illegal.all()
    with pytest.raises(ValueError, match=r"a policy chose an illegal action at step \d+ of game \d+, and in 8 slots in all"):
        check_slots(slots)
    strange = RulePolicy("strange", "adds cards", (lambda view, legal: unojax.bits.map_words(lambda w: w | 1, legal),))
    slots, _ = rollout(KEY, strange, None, start_slots(KEY, 8), 40)
    assert slots.illegal.any()
    check_slots(start_slots(KEY, 3))


def shapes_in(program: Any) -> set[str]:
    """The types of all values of a program, those of its loops included."""
    found: set[str] = set()

    def look(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            found.update(variable.aval.str_short() for variable in equation.outvars)
            for inner in jaxprs_in_params(equation.params):
                look(getattr(inner, "jaxpr", inner))

    look(program.jaxpr)
    return found


def in_the_loop(program: Any) -> tuple[int, list[str]]:
    """Operations in the loop over rows, and the types of what it stacks up."""
    found = []

    def look(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            if equation.primitive.name == "scan" and equation.params["length"] == 11:
                stacked = equation.outvars[equation.params["num_carry"] :]
                found.append((operations(equation), [variable.aval.str_short() for variable in stacked]))
            for inner in jaxprs_in_params(equation.params):
                look(getattr(inner, "jaxpr", inner))

    def operations(equation: Any) -> int:
        inside = [getattr(inner, "jaxpr", inner) for inner in jaxprs_in_params(equation.params)]
        return 1 + sum(operations(e) for jaxpr in inside for e in jaxpr.eqns)

    look(program.jaxpr)
    assert len(found) == 1
    return found[0]


def test_what_nobody_asked_for_is_not_computed():
    slots = start_slots(KEY, 13)

    def program(*names: Field) -> Any:
        return jax.make_jaxpr(lambda slots: rollout(KEY, "uniform", None, slots, 11, fields=names))(slots)

    one_hot = {"bool[11,13,108]", "bool[11,13,61]"}
    fewest, stacked = in_the_loop(program())
    assert stacked == ["uint32[11,1,13]"], "valid alone"
    words: dict[tuple[int, ...], tuple[Field, ...]] = {
        (1,): ("action", "player", "terminated", "truncated"),
        (3,): ("reward",),
        (1, 1): ("game", "step"),
        (9, 1): ("observation", "view", "legal_mask"),
    }
    for sizes, name in ((sizes, name) for sizes, names in words.items() for name in names):
        asked = program(name)
        operations, stacked = in_the_loop(asked)
        assert operations > fewest and stacked == [f"uint32[11,{size},13]" for size in sizes], name
        expected = {"observation": {"bool[11,13,108]"}, "legal_mask": {"bool[11,13,61]"}}.get(name, set())
        assert one_hot & shapes_in(asked) == expected, name
    _, rows = rollout(KEY, "uniform", None, slots, 2, fields=("action",))
    assert [field.name for field in fields(rows) if getattr(rows, field.name) is not None] == ["valid", "action"]


def test_gradients_flow_through_what_the_policy_returns():
    slots, params = start_slots(KEY, 6), jnp.linspace(-1, 1, 61)

    def total(params: Array) -> tuple[Array, Transitions]:
        _, rows = rollout(KEY, any_legal, params, slots, 12, fields=("legal_mask", "action"))
        return jnp.where(rows.valid, rows.extras["log_prob"], 0).sum(), rows

    (_, rows), gradient = jax.jit(jax.value_and_grad(total, has_aux=True))(params)

    def by_hand(params: Array) -> Array:
        log_probs = jax.nn.log_softmax(jnp.where(rows.legal_mask, params, -1e9))
        chosen = jnp.take_along_axis(log_probs, rows.action[..., None], -1)[..., 0]
        return jnp.where(rows.valid, chosen, 0).sum()

    np.testing.assert_allclose(gradient, jax.grad(by_hand)(params), rtol=1e-5, atol=1e-5)
    assert np.abs(gradient).max() > 0.1


def test_under_vmap_each_key_plays_its_own_games():
    keys = jax.random.split(KEY, 3)

    def play(key: Array, scale: Array) -> Transitions:
        return rollout(key, any_legal, scale * jnp.arange(61.0), start_slots(key, 4), 8, fields=FEW)[1]

    scales = jnp.arange(3.0)
    together = jax.jit(jax.vmap(play))(keys, scales)
    for index in range(3):
        alone = play(keys[index], scales[index])
        for name in ("valid", *FEW):
            np.testing.assert_array_equal(getattr(together, name)[index], getattr(alone, name))


def test_slots_show_what_their_players_see():
    slots, _ = rollout(KEY, "uniform", None, start_slots(KEY, 8), 5)
    _, rows = rollout(KEY, "uniform", None, slots, 1, fields=("observation", "view", "legal_mask", "player"))
    for name in ("observation", "view", "legal_mask", "player"):
        mine, shown = jax.tree.leaves(getattr(slots, name)), jax.tree.leaves(getattr(rows, name))
        for a, b in zip(mine, shown, strict=True):
            np.testing.assert_array_equal(a, b[0])
    assert len(slots) == 8 and rewards_at(slots.table, Rules()).shape == (2, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_steps": 0}, "num_steps must be an integer of at least 1, got 0"),
        ({"fields": ("hand",)}, "fields must be some of observation, view, .* got"),
        ({"fields": "action"}, "fields must be some of"),
        ({"sees": "everything"}, "sees must be one of observation, view, got 'everything'"),
        ({"nodes_per_row": 0}, "nodes_per_row must be None or an integer of at least 1, got 0"),
        ({"policy": "smart"}, "no policy is called 'smart'"),
        ({"policy": 3}, "a policy must be a name of .*, a function or an agent, got 3"),
        ({"policy": ("uniform",) * 3}, "policy must be one for both players or two, one for each, got 3"),
        ({"policy": ("uniform", "linear")}, "params must be a pair for two policies, one for each, got NoneType"),
        ({"policy": lambda params, key, seen, mask: mask}, r"a policy must return one integer, got bool\[61\]"),
        ({"policy": lambda params, key, seen, mask: 0.5}, r"a policy must return one integer, got float32\[\]"),
        ({"key": 3}, "rollout takes a random key such as jax.random.key"),
        ({"key": jax.random.split(KEY)}, "rollout takes a single key, got shape"),
        ({"slots": "slots"}, "slots must be those of start_slots or of an earlier rollout, got str"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict, message: str):
    usual = {"key": KEY, "policy": "uniform", "params": None, "slots": start_slots(KEY, 2), "num_steps": 2}
    with pytest.raises(ValueError, match=message):
        rollout(**(usual | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_slots": 0}, "num_slots must be an integer in"),
        ({"key": jax.random.split(KEY)}, "start_slots takes a single key, got shape"),
        ({"key": jax.random.key(0, impl="rbg")}, "single threefry2x32 key"),
        ({"rules": "ofical"}, "rules must be a unojax.Rules or one of"),
    ],
)
def test_bad_slots_are_refused(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        start_slots(**({"key": KEY, "num_slots": 2} | arguments))


def test_two_sets_of_extras_have_one_structure():
    def one(params: None, key: Array, seen: Observation, mask: Array) -> Any:
        return mask.argmax(), {"a": jnp.float32(0)}

    def other(params: None, key: Array, seen: Observation, mask: Array) -> Any:
        return mask.argmax(), {"b": jnp.float32(0)}

    with pytest.raises(ValueError, match="two policies must return extras of one structure"):
        rollout(KEY, (one, other), (None, None), start_slots(KEY, 2), 1)


ON_DEVICES = """
import json, jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from benchmarks.harness import digest
from unojax import rollout, simulate, start_slots
from unojax.simulation import Collector, Stream, count_games
key = jax.random.key(3)
fields = ("observation", "legal_mask", "action", "reward", "terminated", "game")
def play(slots):
    return rollout(key, "uniform", None, slots, 24, fields=fields)
slots = start_slots(key, 24)
found = {"rows": play(slots)[1]}
devices = [len(found["rows"].action.sharding.device_set)]
mesh = Mesh(np.array(jax.devices()), ("slots",))
in_shards = jax.shard_map(play, mesh=mesh, in_specs=P("slots"), out_specs=(P("slots"), P(None, "slots")))
found["rows in shard_map"] = jax.jit(in_shards)(slots)[1]
games = simulate(key, 203, on_device=True, max_steps=90, batch_size=56)
devices.append(len(games.winner.sharding.device_set))
found["games"] = games
streamed = Collector(203)
for finished in Stream(key, 203, max_steps=90, batch_size=56):
    streamed.add(finished)
found["streamed"] = streamed.prefix()
found["few"] = simulate(key, 203, max_steps=90)[:1]
found["one"] = simulate(key, 1, max_steps=90)
counts = count_games(key, 203, max_steps=90)
found["counts"] = [np.asarray(number) for number in vars(counts).values()]
with jax.default_device(jax.devices()[-1]):
    alone = simulate(key, 203, max_steps=90, on_device=True, batch_size=56)
    devices.append(len(alone.winner.sharding.device_set))
found["alone"] = alone
print(json.dumps([devices, {name: digest(map(np.asarray, jax.tree.leaves(of))) for name, of in found.items()}]))
"""


def test_the_same_rows_and_games_on_1_2_and_8_devices():
    """Without a word all devices are used; `jax.default_device` keeps to one."""

    expected = None
    for num_devices in (1, 2, 8):
        devices, digests = run_on_devices(ON_DEVICES, num_devices)
        assert devices == [num_devices, num_devices, 1]
        assert digests["rows"] == digests["rows in shard_map"]
        assert digests["games"] == digests["streamed"] == digests["alone"]
        assert digests["few"] == digests["one"]
        expected = digests if expected is None else expected
        assert digests == expected
