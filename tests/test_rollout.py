"""`rollout` plays the games of `simulate` and of `step`, and computes the requested fields only.

Contract: rollout.
"""

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
from tests.helpers import assert_trees_equal, refusals, run_on_devices, slow_but
from unojax import Rules, Slots, State, Transitions, check_slots, rollout, simulate, start_slots
from unojax.cards import DRAW
from unojax.decks import small_deck
from unojax.game import GivenCards, from_table, rewards_at, step_with
from unojax.observation import Observation
from unojax.policies import RulePolicy
from unojax.simulation.rows import Field
from unojax.view import View

PROGRAMS = 190  # Each policy, number of rows and set of fields is a program of its own.

KEY = jax.random.key(3)
SMALL = Rules(deck=small_deck(colors=2, ranks=(1, 2, 10, 12)), hand_size=3)
"""Skips, penalties and reshuffles within a few steps."""
EVERYTHING: tuple[Field, ...] = (
    *("observation", "view", "legal_mask", "state", "action", "player", "reward", "terminated", "truncated", "game", "step"),
)
FEW: tuple[Field, ...] = ("action", "player", "reward", "terminated", "game", "step")


def any_legal(params: Any, key: Array, seen: Observation, legal_mask: Array) -> tuple[Array, dict[str, Array]]:
    """Policy with extras; `params` are logits. Each field of the observation changes the choice."""
    log_probs = jax.nn.log_softmax(jnp.where(legal_mask, params, -1e9))
    fields = jnp.concatenate([jnp.ravel(leaf).astype(jnp.int32) for leaf in jax.tree.leaves(seen)])
    action = jax.random.categorical(jax.random.fold_in(key, fields @ jnp.arange(1, fields.size + 1)), log_probs)
    return action, {"log_prob": log_probs[action], "cards": seen.hand.sum()}


def as_policy(key: Array, observation: Observation, legal_mask: Array) -> Array:
    """The same policy for `simulate`."""
    return any_legal(jnp.zeros(legal_mask.shape), key, observation, legal_mask)[0]


def games_of(rows: Transitions, num_games: int) -> list[dict[str, np.ndarray]]:
    """Return the valid rows of each game, and the rewards and ends of all rows."""
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


GAMES = {"packed, small": SMALL, "by protocol, small": SMALL, "packed, official": "official", "by protocol, official": "official"}


@pytest.mark.parametrize("case", slow_but(["packed, small", "by protocol, small"], GAMES))
def test_games_are_those_of_simulate_whatever_the_slots_and_nodes(case: str):
    rules = unojax.rules.as_rules(GAMES[case])
    by_simulate: Any = ("linear", "uniform") if "packed" in case else (as_policy, as_policy)
    by_rollout: Any = ("linear", "uniform") if "packed" in case else any_legal
    params: Any = (None, None) if "packed" in case else np.zeros(rules.num_actions, np.float32)
    games, seen = simulate(KEY, 12, by_simulate, rules=rules), []
    rows_needed = 4 * int(games.num_steps.max())
    for num_slots, nodes in ((12, None), (5, 1)):
        slots = start_slots(KEY, num_slots, rules=rules)
        num_rows = rows_needed * -(-12 // num_slots)
        slots, rows = rollout(KEY, by_rollout, params, slots, num_rows, fields=("legal_mask", *FEW), nodes_per_row=nodes)
        check_slots(slots)
        seen.append(games_of(rows, 12))
        is_choice = np.asarray(rows.valid) & (np.asarray(rows.legal_mask).sum(-1) > 1)
        num_choices = [(is_choice & (np.asarray(rows.game) == number)).sum() for number in range(12)]
        np.testing.assert_array_equal(num_choices, games.num_choices)
    for number, (game, other) in enumerate(zip(*seen, strict=True)):
        assert len(game["action"]) == games.num_steps[number] and game["ends"] == 1
        np.testing.assert_array_equal(game["step"], np.arange(games.num_steps[number]))
        winner = games.winner[number]
        if not rules.points:
            np.testing.assert_array_equal(game["reward"], [0, 0] if winner < 0 else [1 - 2 * winner, 2 * winner - 1])
        for name, values in game.items():
            np.testing.assert_array_equal(values, other[name], err_msg=name)


STEPS = {
    "small": Rules(deck=SMALL.deck, hand_size=3, step_penalty=0.25),
    "choice to draw, points": Rules(deck=SMALL.deck, hand_size=3, skip_forfeits=False, may_draw=True, points=True),
    "official": Rules.official(deck=SMALL.deck, hand_size=3, step_penalty=0.125),
}


@pytest.mark.parametrize("case", slow_but(["official"], STEPS))
def test_every_row_is_a_step_of_the_contract(case: str):
    """A row is that of `observe`, `legal_mask` and `step`, which gives the next position."""
    rules = STEPS[case]

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
        valid, terminated, player, action = map(np.asarray, (row.valid, row.terminated, row.player, row.action))
        taken, ended = taken + valid.sum(), ended + terminated.sum()
        keeps_turn |= valid & ~terminated & (np.asarray(slots.player) == player) & (action != DRAW)
    assert taken > 600 and ended > 0 and (keeps_turn.any() or not rules.skip_forfeits), "the example shows too little"


def test_choices_only_shows_the_choices_of_all_steps_and_all_rewards():
    """Rewards may come in a later row."""
    games = simulate(KEY, 6, (as_policy, as_policy), rules=SMALL)

    def choices(choices_only: bool, nodes: int | None) -> list[np.ndarray]:
        options: Any = {"fields": ("legal_mask", *FEW), "choices_only": choices_only, "nodes_per_row": nodes}
        _, rows = rollout(KEY, any_legal, np.zeros(61, np.float32), start_slots(KEY, 6, rules=SMALL), 150, **options)
        several, valid = np.asarray(rows.legal_mask).sum(-1) > 1, np.asarray(rows.valid)
        assert several[valid].all() or not choices_only
        for game, winner in zip(games_of(rows, 6), games.winner, strict=True):
            assert game["reward"][0] == {0: 1, 1: -1, -1: 0}[int(winner)] and game["ends"] == 1
        of_games = [(np.asarray(rows.game) == number) & valid & several for number in range(6)]
        return [np.stack([np.asarray(rows.step)[at], np.asarray(rows.action)[at]]) for at in of_games]

    steps = choices(False, None)
    assert sum(game.shape[1] for game in steps) > 20
    for nodes in (None, 1):
        for game, other in zip(steps, choices(True, nodes), strict=True):
            np.testing.assert_array_equal(game, other)


def test_slots_resume_and_show_the_views_of_their_players():
    slots = start_slots(KEY, 8)
    play = partial(rollout, KEY, any_legal, np.zeros(61, np.float32), fields=EVERYTHING)
    end, whole = play(slots, 24)
    half, first = play(slots, 12)
    resumed, second = play(half, 12)
    parts = jax.tree.map(lambda a, b: np.concatenate([a, b]), first, second)
    assert_trees_equal((resumed, parts), jax.device_get((end, whole)))
    for name in ("observation", "view", "legal_mask", "player"):
        mine = jax.jit(lambda slots, name=name: getattr(slots, name))(half)
        assert_trees_equal(mine, jax.tree.map(lambda x: x[0], jax.device_get(getattr(second, name))))
    assert len(slots) == 8 and rewards_at(slots.table, Rules()).shape == (2, 8)


def test_the_keys_are_of_chance_and_of_choices():
    other = jax.random.key(4)

    def first_actions(of_slots: Array, of_policy: Array) -> tuple[np.ndarray, np.ndarray]:
        slots = start_slots(of_slots, 16)
        _, rows = rollout(of_policy, "uniform", None, slots, 6, fields=("action", "observation"))
        return np.asarray(rows.action), np.asarray(rows.observation.hand)[0]

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

    params = np.float32(1), np.float32(2)
    shown: Any = ("action", "player", "legal_mask")
    slots = start_slots(KEY, 4)
    _, rows = rollout(KEY, (lowest, highest), params, slots, 20, fields=shown, sees="view")
    valid, first = np.asarray(rows.valid), np.asarray(rows.player) == 0
    mask, action, extras = np.asarray(rows.legal_mask), np.asarray(rows.action), np.asarray(rows.extras)
    assert (valid & first).any() and (valid & ~first).any()
    np.testing.assert_array_equal(action[valid & first], mask.argmax(-1)[valid & first])
    np.testing.assert_array_equal(action[valid & ~first], 60 - mask[..., ::-1].argmax(-1)[valid & ~first])
    np.testing.assert_array_equal(extras[valid], np.where(first, 1, 2)[valid])
    # Extras of the only policy that has any.
    _, rows = rollout(KEY, (lowest, "uniform"), (params[0], None), slots, 3, sees="view")
    np.testing.assert_array_equal(rows.extras, np.ones((3, 4)))


def test_truncated_games_show_their_last_position():
    play = partial(rollout, KEY, any_legal, np.zeros(61, np.float32))
    _, rows = play(start_slots(KEY, 4, rules=Rules(max_steps=9)), 60, fields=("observation", "truncated", *FEW))
    cut, valid, step, number = (np.asarray(x) for x in (rows.truncated, rows.valid, rows.step, rows.game))
    assert cut.sum() > 8 and not (cut & valid).any() and not np.asarray(rows.terminated).any()
    np.testing.assert_array_equal(step[cut], 9)
    assert step[valid].max() == 8
    hand, held = np.asarray(rows.observation.hand), np.asarray(rows.extras["cards"])
    for slot in range(4):
        for row in np.flatnonzero(cut[:, slot])[:-1]:
            assert number[row + 1, slot] == number[row, slot] + 4
            assert held[row, slot] == hand[row, slot].sum()
    # The same first steps as without truncation.
    _, whole = play(start_slots(KEY, 4), 9, fields=("action",))
    np.testing.assert_array_equal(np.asarray(rows.action)[:9], whole.action)


@dataclass(frozen=True)
class Remembering:
    """Plays the lowest legal action, and remembers its seat, its steps, and contradictions between them."""

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


@pytest.mark.parametrize("both", [False, pytest.param(True, marks=pytest.mark.slow)])
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
        ends += np.asarray(rows.terminated).sum()
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


def test_an_illegal_action_stops_its_slot_and_is_reported_once():
    def wrong_later(params: None, key: Array, seen: Observation, legal_mask: Array) -> Array:
        del params, key
        return jnp.where(seen.pile.sum() > 3, 77, legal_mask.argmax())

    start = start_slots(KEY, 8)
    slots, rows = rollout(KEY, wrong_later, None, start, 40, fields=("observation", "terminated"))
    valid, pile, hand = (np.asarray(x) for x in (rows.valid, rows.observation.pile, rows.observation.hand))
    assert np.asarray(slots.illegal).all() and valid.any() and not valid[-1].any() and not np.asarray(rows.terminated).any()
    assert pile.sum(-1)[valid & (hand.sum(-1) > 0)].max() <= 8
    again, later = rollout(KEY, "uniform", None, slots, 3)
    assert not np.asarray(later.valid).any() and np.asarray(again.illegal).all()
    with pytest.raises(ValueError, match=r"a policy chose an illegal action at step \d+ of game \d+, and in 8 slots in all"):
        check_slots(slots)
    strange = RulePolicy("strange", "adds cards", (lambda view, legal: unojax.bits.map_words(lambda w: w | 1, legal),))
    slots, _ = rollout(KEY, strange, None, start, 40)
    assert np.asarray(slots.illegal).any()
    check_slots(start)


def equations_in(jaxpr: Any) -> list[Any]:
    """Return the operations of a program, including those in its loops."""
    found = []
    for equation in jaxpr.eqns:
        found.append(equation)
        for inner in jaxprs_in_params(equation.params):
            found += equations_in(getattr(inner, "jaxpr", inner))
    return found


def types_of(variables: Any) -> list[str]:
    return [variable.aval.str_short() for variable in variables]


def test_fields_that_are_not_requested_are_not_computed():
    slots = start_slots(KEY, 13)

    def program(*names: Field) -> tuple[set[str], int, list[str]]:
        """Return all types, the operations in the loop over rows, and the types of its outputs."""
        traced = jax.make_jaxpr(lambda slots: rollout(KEY, "uniform", None, slots, 11, fields=names))(slots)
        every = equations_in(traced.jaxpr)
        (loop,) = (each for each in every if each.primitive.name == "scan" and each.params["length"] == 11)
        inside = equations_in(loop.params["jaxpr"].jaxpr)
        types = {name for each in every for name in types_of(each.outvars)}
        return types, len(inside), types_of(loop.outvars[loop.params["num_carry"] :])

    _, fewest, stacked = program()
    assert stacked == ["uint32[11,1,13]"], "valid alone"
    one_hot = {"observation": "bool[11,13,108]", "legal_mask": "bool[11,13,61]"}
    words: dict[tuple[int, ...], tuple[Field, ...]] = {
        (1,): ("action", "player", "terminated", "truncated"),
        (3,): ("reward",),
        (1, 1): ("game", "step"),
        (9, 1): ("observation", "view", "legal_mask"),
    }
    for sizes, name in ((sizes, name) for sizes, names in words.items() for name in names):
        types, operations, stacked = program(name)
        assert operations > fewest and stacked == [f"uint32[11,{size},13]" for size in sizes], name
        assert set(one_hot.values()) & types == ({one_hot[name]} if name in one_hot else set()), name
    _, rows = rollout(KEY, "uniform", None, slots, 2, fields=("action",))
    assert [field.name for field in fields(rows) if getattr(rows, field.name) is not None] == ["valid", "action"]


def test_gradients_flow_and_under_vmap_each_key_plays_its_own_games():
    slots, logits = start_slots(KEY, 6), np.linspace(-1, 1, 61, dtype=np.float32)

    def total(params: Array, key: Array) -> tuple[Array, Transitions]:
        _, rows = rollout(key, any_legal, params, slots, 8, fields=("legal_mask", *FEW))
        return jnp.where(rows.valid, rows.extras["log_prob"], 0).sum(), rows

    def by_hand(params: Array, rows: Transitions) -> Array:
        log_probs = jax.nn.log_softmax(jnp.where(rows.legal_mask, params, -1e9))
        chosen = jnp.take_along_axis(log_probs, rows.action[..., None], -1)[..., 0]
        return jnp.where(rows.valid, chosen, 0).sum()

    play = jax.value_and_grad(total, has_aux=True)
    keys, scales = jax.random.split(KEY, 3), np.arange(3, dtype=np.float32)
    (_, together), gradients = jax.jit(jax.vmap(lambda key, scale: play(scale * logits, key)))(keys, scales)
    together, gradients = jax.device_get((together, gradients))
    alone, compare = jax.jit(total), jax.jit(jax.grad(by_hand))
    for index in range(3):
        rows = jax.device_get(alone(scales[index] * logits, keys[index])[1])
        for name in ("valid", *FEW):
            np.testing.assert_array_equal(getattr(together, name)[index], getattr(rows, name))
        np.testing.assert_allclose(gradients[index], compare(scales[index] * logits, rows), rtol=1e-5, atol=1e-5)
    assert np.abs(gradients).max() > 0.1 and (together.action[0] != together.action[1]).any()


def test_bad_arguments_are_refused():
    def extras_by(name: str) -> Any:
        return lambda params, key, seen, mask: (mask.argmax(), {name: jnp.float32(0)})

    usual: Any = {"key": KEY, "policy": "uniform", "params": None, "slots": start_slots(KEY, 2), "num_steps": 2}
    arguments: dict[str, dict[str, Any]] = {
        "num_steps": {"num_steps": 0},
        "fields": {"fields": ("hand",)},
        "fields (text)": {"fields": "action"},
        "sees": {"sees": "everything"},
        "nodes_per_row": {"nodes_per_row": 0},
        "nodes_per_row (of an agent)": {
            "policy": Remembering(),
            "slots": start_slots(KEY, 2, policy=Remembering()),
            "nodes_per_row": 2,
        },
        "no policy is called 'smart'": {"policy": "smart"},
        "a policy must be a name": {"policy": 3},
        "a policy of a rollout takes params": {"policy": as_policy},
        "policy": {"policy": ("uniform",) * 3},
        "params": {"policy": ("uniform", "linear")},
        "got bool[61]": {"policy": lambda params, key, seen, mask: mask},
        "got float32[]": {"policy": lambda params, key, seen, mask: 0.5},
        "extras of one structure": {"policy": (extras_by("a"), extras_by("b")), "params": (None, None)},
        "random key": {"key": 3},
        "a single key": {"key": jax.random.split(KEY)},
        "slots": {"slots": "slots"},
        "start_slots (no memory)": {"policy": Remembering()},
    }
    refusals({name: partial(rollout, **usual | given) for name, given in arguments.items()})
    of_slots: dict[str, dict[str, Any]] = {
        "num_slots": {"num_slots": 0},
        "a single key": {"key": jax.random.split(KEY)},
        "threefry2x32": {"key": jax.random.key(0, impl="rbg")},
        "rules": {"rules": "ofical"},
    }
    refusals({name: partial(start_slots, **{"key": KEY, "num_slots": 2} | given) for name, given in of_slots.items()})


ON_DEVICES = """
import json, jax, numpy as np
from jax.sharding import Mesh, PartitionSpec as P
from benchmarks.harness import digest
from unojax import rollout, simulate, start_slots
from unojax.simulation import Stream, count_games
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
parts = list(Stream(key, 203, max_steps=90, batch_size=56))
order = np.argsort(np.concatenate([finished.index for finished in parts]))
found["streamed"] = [np.concatenate(field)[order] for field in zip(*[jax.tree.leaves(finished.games) for finished in parts])]
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


@pytest.mark.parametrize("numbers", [[2], pytest.param([1, 8], marks=pytest.mark.slow)], ids=str)
def test_the_same_rows_and_games_on_all_numbers_of_devices(numbers: list[int]):
    """All devices are used unless `jax.default_device` selects one."""
    found = []
    for num_devices in numbers:
        devices, digests = run_on_devices(ON_DEVICES, num_devices)
        assert devices == [num_devices, num_devices, 1]
        assert digests["rows"] == digests["rows in shard_map"]
        assert digests["games"] == digests["streamed"] == digests["alone"]
        assert digests["few"] == digests["one"]
        found.append(digests)
    assert all(digests == found[0] for digests in found)
