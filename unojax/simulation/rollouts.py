"""`rollout`: a batch of auto-resetting games as a pure function, for use under `jit`, `vmap`, `shard_map` and `grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from unojax import agents, bits, game, table
from unojax.agents import Agent, reveal
from unojax.decks import is_int
from unojax.device.mesh import spread
from unojax.device.platform import platform
from unojax.device.random_bits import check_key, key_words, threefry, wrap
from unojax.device.returned import one_integer, takes
from unojax.device.shares import ALL, check_share
from unojax.device.static import Argument
from unojax.game.steps import max_nodes
from unojax.observation import Observation
from unojax.policies import POLICIES, PackedPolicy, get_policy
from unojax.rules import Rules, as_rules
from unojax.simulation.rows import Field, Row, Transitions, pack_row, unpack_rows
from unojax.simulation.slots import (
    ILLEGAL,
    Decision,
    Slots,
    Words,
    action_of_move,
    deal,
    fresh_slots,
    is_cut_off,
    is_turn,
    move_by,
    observe_tables,
    pass_forced,
    pick_action,
    pick_packed,
    play_rows,
    restart,
    words_at,
)
from unojax.table import Node, Picked
from unojax.view import view_at_node

Sees = Literal["observation", "view"]
"""Input of policies: an `Observation`, one-hot, or a `View`, packed."""
RolloutPolicy = str | PackedPolicy | Agent | Callable[[Any, Array, Any, Array], Any]
"""A named or packed policy, an agent, or `policy(params, key, observation or view, legal_mask)`."""

NODES_PER_CHOICE: Final = 9
"""Largest number of nodes of a row from one choice to the next; uniform play needs fewer in seven of eight cases."""
MOST_SLOTS: Final = 2**31
_PLAYERS: Final = (0, 1)
_INIT, _UPDATE = 1, 3
"""Uses of a player's key other than acting."""


def start_slots(
    key: Array,
    num_slots: int,
    *,
    rules: Rules | str = Rules(),
    policy: RolloutPolicy | Sequence[RolloutPolicy] | None = None,
    share: tuple[int, int] = ALL,
) -> Slots:
    """Deal the games 0 .. num_slots - 1, one in each env slot, on all local devices if they can share the slots equally.

    Args:
        key: A threefry2x32 key (the default kind) for all deals and draws of all games in these slots.
        num_slots: Number of slots, at least 1.
        rules: Static, or the name of a preset.
        policy: The `rollout` policy, if it is an agent with memory; else not needed.
        share: (part, parts): play only the games whose number is `part` modulo `parts`, for one of several processes.

    Raises:
        ValueError: If an argument is out of range, or the key is a batch or of another kind.
    """
    check_key(key, "start_slots")
    if not (is_int(num_slots) and 1 <= num_slots <= MOST_SLOTS):
        raise ValueError(f"num_slots must be an integer in [1, {MOST_SLOTS}], got {num_slots!r}")
    policies = Argument(() if policy is None else _as_policies(policy))
    part, parts = check_share(share)
    fixed = {"num_slots": int(num_slots), "parts": parts, "rules": as_rules(rules)}
    slots = _start(key_words(key), policies, jnp.uint32(part), **fixed)
    return spread(slots, int(num_slots))


@partial(jax.jit, static_argnames=("num_slots", "parts", "rules"))
def _start(key: Words, policies: Argument, part: Array, *, num_slots: int, parts: int, rules: Rules) -> Slots:
    number = jnp.arange(num_slots, dtype=jnp.uint32) * np.uint32(parts) + part
    words = jnp.broadcast_to(key[0], number.shape), jnp.broadcast_to(key[1], number.shape)
    last_action = jnp.full_like(number, game.NO_ACTION, jnp.int8)
    slots = fresh_slots(number, rules, stride=num_slots * parts, last_action=last_action, key=words)

    num_nodes = 2 * rules.hand_size + 1
    if rules.start_effects == "keep_turn":
        # A reshuffle and the cards of a start card.
        num_nodes += 1 + rules.max_draw
    slots = deal(slots, words, num_nodes)
    return _begin_memory(slots, key, policies.value) if _remember(policies.value) else slots


def rollout(
    key: Array,
    policy: RolloutPolicy | Sequence[RolloutPolicy],
    params: Any,
    slots: Slots,
    num_steps: int,
    *,
    fields: Sequence[Field] = ("observation", "legal_mask", "action", "player", "reward", "terminated", "truncated"),
    sees: Sees = "observation",
    choices_only: bool = False,
    nodes_per_row: int | None = None,
) -> tuple[Slots, Transitions]:
    """Play `num_steps` rows in every slot; when a slot's game ends, it deals the next one.

    Pure: use it under `jit`, `vmap`, `shard_map`, and under `grad` for the policy's extras. Give every call the same key, so that
    games do not depend on the number of rows.

    Args:
        key: A threefry2x32 key of the policies' choices. Game g at node t uses Threefry(key, (g, t)), as in `simulate`, which
            plays the same games if this is also the key of the slots.
        policy: One policy for both players, or one for each. A name of `unojax.POLICIES` or a `PackedPolicy` runs packed, in the
            same kernel as the rules; an agent (`unojax.agents.Agent`) has memory. Any other policy is called, unbatched, as
            `policy(params, key, observation, legal_mask)`, and returns an action, or an action and a pytree of extras.
        params: Parameters of the policy, or a pair for two policies; None for a policy without.
        slots: Slots from `start_slots` or an earlier call.
        num_steps: Number of rows T of the trajectory, static. A row shows at most one decision.
        fields: Fields of the trajectory, static; `valid` and the extras are always included. Other fields are not computed.
        sees: Input of policies, an `Observation` or a `View`; static.
        choices_only: Show only decisions between two or more legal actions, static; other steps take no row.
        nodes_per_row: Most nodes that a slot passes in a row, static: fewer are faster but make more invalid rows. By default a
            row holds a whole step, or 9 nodes with `choices_only`. Packed policies are fastest with 1 on a CPU and 1 to 3 on a
            GPU; 2 is slow on a CPU.

    Returns:
        The slots after T rows, and the trajectory. After an illegal action (`Slots.illegal`, `check_slots`) a slot stops and has
        no more valid rows.

    Raises:
        ValueError: If an argument is out of range, the slots hold no memory for an agent, or a policy returns something else.
    """
    check_key(key, "rollout")
    policies = _as_policies(policy)
    params = (params,) if len(policies) == 1 else params
    if not (isinstance(params, tuple | list) and len(params) == len(policies)):
        raise ValueError(f"params must be a pair for two policies, one for each, got {type(params).__name__}")
    plan = _plan(policies, slots, num_steps, fields, sees, choices_only, nodes_per_row)
    words, params = key_words(key), tuple(params)
    if isinstance(slots.game, Tracer):
        return _play(words, policies, params, slots, plan)
    return _play_jitted(words, Argument(policies), params, slots, plan=plan)


def check_slots(slots: Slots, num_games: int | None = None) -> None:
    """Check on the host that no policy has chosen an illegal action, in the first `num_games` games or in any.

    Raises:
        ValueError: If one has; the message names a game and the step.
    """
    illegal = np.asarray(slots.illegal)
    wrong = np.flatnonzero(illegal if num_games is None else illegal & (np.asarray(slots.game) < num_games))
    if len(wrong):
        number, step = (int(np.asarray(of).ravel()[wrong[0]]) for of in (slots.game, slots.num_steps))
        raise ValueError(
            f"a policy chose an illegal action at step {step} of game {number}, and in {len(wrong)} slots in all; return an "
            "action whose legal_mask is True"
        )


class _Plan(NamedTuple):
    """Static arguments of a compiled rollout."""

    num_rows: int
    fields: tuple[Field, ...]
    sees: Sees
    choices_only: bool
    num_nodes: int


def _plan(
    policies: tuple[RolloutPolicy, ...],
    slots: Slots,
    num_steps: int,
    fields: Sequence[Field],
    sees: Sees,
    choices_only: bool,
    nodes_per_row: int | None,
) -> _Plan:
    if not isinstance(slots, Slots):
        raise ValueError(f"slots must be those of start_slots or of an earlier rollout, got {type(slots).__name__}")
    if np.ndim(slots.game) != 1:
        raise ValueError(f"rollout takes one batch of slots, got shape {np.shape(slots.game)}; map over more with jax.vmap")
    if slots.key is None or slots.last_action is None:
        raise ValueError("slots must be those of start_slots or of an earlier rollout: these hold no key")
    if not (is_int(num_steps) and num_steps >= 1):
        raise ValueError(f"num_steps must be an integer of at least 1, got {num_steps!r}")
    unknown = [field for field in fields if field not in get_args(Field)]
    if isinstance(fields, str) or unknown:
        raise ValueError(f"fields must be some of {', '.join(get_args(Field))}, got {fields!r}")
    if sees not in get_args(Sees):
        raise ValueError(f"sees must be one of {', '.join(get_args(Sees))}, got {sees!r}")
    whole_step = max_nodes(slots.rules)
    num_nodes = nodes_per_row
    if num_nodes is None:
        num_nodes = NODES_PER_CHOICE if choices_only and not _remember(policies) else whole_step
    if not (is_int(num_nodes) and num_nodes >= 1):
        raise ValueError(f"nodes_per_row must be None or an integer of at least 1, got {num_nodes!r}")
    if _remember(policies):
        if slots.memory is None:
            raise ValueError("the slots hold no memory: give start_slots the same policy")
        if num_nodes < whole_step:
            raise ValueError(f"agents look at whole steps: nodes_per_row must be at least {whole_step}, got {num_nodes}")
    return _Plan(int(num_steps), tuple(fields), sees, bool(choices_only), int(num_nodes))


def _as_policies(policy: RolloutPolicy | Sequence[RolloutPolicy]) -> tuple[Any, ...]:
    both: tuple[Any, ...] = (policy,)
    if isinstance(policy, tuple | list) and not _is_agent(policy):
        both = tuple(policy)
    if len(both) not in (1, 2):
        raise ValueError(f"policy must be one for both players or two, one for each, got {len(both)}")
    policies = tuple(get_policy(one) if isinstance(one, str) else one for one in both)
    for one in policies:
        if not (callable(one) or _is_agent(one)):
            raise ValueError(f"a policy must be a name of {', '.join(POLICIES)}, a function or an agent, got {one!r}")
        if not (isinstance(one, PackedPolicy) or _is_agent(one) or takes(one, 4)):
            raise ValueError(
                f"a policy of a rollout takes params, key, observation and legal mask, and {one!r} takes other arguments; wrap a "
                "policy without parameters as lambda params, *seen: policy(*seen)"
            )
    return policies


def _is_agent(policy: Any) -> bool:
    return hasattr(policy, "act")


def _remember(policies: Sequence[Any]) -> bool:
    return any(map(_is_agent, policies))


@partial(jax.jit, static_argnames="plan")
def _play_jitted(
    key: Words, policies: Argument, params: tuple[Any, ...], slots: Slots, *, plan: _Plan
) -> tuple[Slots, Transitions]:
    return _play(key, policies.value, params, slots, plan)


class _Asked(NamedTuple):
    """Flags of a row's decision until the row ends: bool[B] each, and the extras.

    Attributes:
        acts: A player is to act.
        cut_off: The game is cut off here.
    """

    acts: Array
    cut_off: Array
    extras: Any


def _play(key: Words, policies: tuple[Any, ...], params: tuple[Any, ...], slots: Slots, plan: _Plan) -> tuple[Slots, Transitions]:
    rules = slots.rules
    is_packed = all(isinstance(policy, PackedPolicy) for policy in policies)
    assert slots.key is not None, "checked before"

    def begin(slots: Slots) -> Decision:
        assert slots.key is not None, "kept outside of the walk"
        node = table.find_node(slots.table, rules)
        extras = None
        if is_packed:
            # One draw for both kinds of nodes, by the key of the kind.
            chosen_by = [jnp.where(node.is_decision, a, b) for a, b in zip(key, slots.key, strict=True)]
            word, coins = words_at((chosen_by[0], chosen_by[1]), slots)
            pick, is_illegal = pick_packed(policies, slots, node, word)
        else:
            word, coins = words_at(slots.key, slots)
            action, extras = _ask(policies, params, slots, node, words_at(key, slots), plan.sees)
            pick, is_illegal = pick_action(action, node, word, rules)
        acts = is_turn(slots) & ~slots.illegal
        if plan.choices_only:
            is_choice = node.is_choice
            acts &= is_choice
            if is_illegal is not None:
                # The only legal action is taken, whatever the policy returns.
                only = Picked(*bits.choose(node.legal, word))
                forced = node.is_decision & ~is_choice
                pick = Picked(*(jnp.where(forced, a, b) for a, b in zip(only, pick, strict=True)))
                is_illegal &= is_choice
        cut_off = jnp.zeros_like(acts) if rules.max_steps is None else is_cut_off(slots, rules.max_steps) & ~slots.illegal
        move = move_by(slots, node, pick, coins, is_illegal, stands_still=cut_off)
        return Decision(move, _Asked(acts & ~cut_off & (move < ILLEGAL), cut_off, extras))

    def finish(before: Slots, decision: Decision, after: Slots, rest: None) -> tuple[Slots, None, tuple[Row, Any]]:
        asked: _Asked = decision.seen
        terminated = after.table.unpack_meta().is_over
        packed = pack_row(plan.fields, before, decision.move, asked.acts, asked.cut_off, after)
        if _remember(policies):
            after = replace(after, memory=_update_memory(before, after, decision.move, asked.acts, key, policies))
        after = restart(after, terminated | asked.cut_off, after.game + np.uint32(slots.stride))
        if _remember(policies):
            after = _begin_memory(after, key, policies)
        return after, rest, (packed, asked.extras)

    ahead = is_packed and plan.num_nodes == 1 and platform() == "cpu"
    forced = partial(pass_forced, key=slots.key, choices_only=plan.choices_only)
    slots, _, (rows, extras) = play_rows(
        slots, None, begin, forced, finish, num_nodes=plan.num_nodes, num_rows=plan.num_rows, ahead=ahead
    )
    return slots, unpack_rows(rows, extras, plan.fields, rules)


def _ask(
    policies: tuple[Any, ...], params: tuple[Any, ...], slots: Slots, node: Node, words: Words, sees: Sees
) -> tuple[Array, Any]:
    """Call the policies at each slot: the actions of the players to move, int32[B], and the extras."""
    rules, player = slots.rules, node.meta.player.astype(jnp.int8)
    # Separate buffers: XLA on a CPU would otherwise recompute the node for each action.
    options = lax.optimization_barrier(node.options)
    mask = game.options_to_actions(options, rules=rules)
    view = view_at_node(slots.table, node, rules)
    seen = view if sees == "view" else observe_tables(slots.table, slots.last_action, player, rules)
    keys = jax.vmap(lambda *words: wrap(words))(*words)
    answers = []
    for index, (policy, own) in enumerate(zip(policies, params, strict=True)):
        if isinstance(policy, PackedPolicy):
            answer = jax.vmap(policy.choose)(keys, view, options)
        elif _is_agent(policy):
            answer = _ask_agent(policy, index if len(policies) > 1 else None, slots, keys, player, mask)
        else:
            answer = jax.vmap(partial(_call, policy, own))(keys, seen, mask)
        answers.append(answer if isinstance(answer, tuple) else (answer, None))
    actions, extras = zip(*answers, strict=True)
    action = jnp.where(player == 0, actions[0], actions[-1])
    given = [extra for extra in extras if extra is not None]
    if len(given) < 2:
        return action, given[0] if given else None
    if jax.tree.structure(given[0]) != jax.tree.structure(given[1]):
        raise ValueError(
            f"two policies must return extras of one structure, got {jax.tree.structure(given[0])} and "
            f"{jax.tree.structure(given[1])}"
        )
    return action, jax.tree.map(lambda a, b: jnp.where(_along(player == 0, a), a, b), *given)


def _call(policy: Callable[[Any, Array, Any, Array], Any], params: Any, key: Array, seen: Any, mask: Array) -> tuple[Array, Any]:
    """Call a policy in one slot: the action, int32[], and the extras."""
    answer = policy(params, key, seen, mask)
    action, extras = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    return one_integer(action, "a policy").astype(jnp.int32), jax.tree.map(jnp.asarray, extras)


def _along(chosen: Array, leaf: Array) -> Array:
    return chosen.reshape(-1, *[1] * (leaf.ndim - 1))


def _ask_agent(agent: Any, seat: int | None, slots: Slots, keys: Array, player: Array, mask: Array) -> Array:
    """Call an agent as the player of its seat, or as either player to move (None)."""
    if seat is None:
        memory = jax.tree.map(lambda a, b: jnp.where(_along(player == 0, a), a, b), *slots.memory)
        acting = player
    else:
        memory, acting = slots.memory[seat], jnp.full_like(player, seat)

    def act(key: Array, memory: Any, one: Slots, player: Array, mask: Array) -> Array:
        assert one.last_action is not None, "kept in the slots of rollouts"
        memory = reveal(agent, memory, game.begin_packed(one.table, one.rules, last_action=one.last_action), player)
        return agents.act(agent, key, memory, observe_tables(one.table, one.last_action, player, one.rules), mask)

    return jax.vmap(act)(keys, memory, replace(slots, key=None, memory=None), acting, mask)


def _agent_of(policies: Sequence[Any], player: int) -> Any:
    return policies[player if len(policies) > 1 else 0]


def _keys_for(key: Words, slots: Slots, purpose: int) -> Array:
    """Make a key of each slot's node for a purpose, [B]."""
    of_node, which = words_at(key, slots), jnp.full_like(slots.game, purpose)
    return jax.vmap(lambda *words: wrap(words))(*threefry(of_node, (jnp.zeros_like(which), which)))


def _seen_by(slots: Slots, player: int) -> Observation:
    return observe_tables(slots.table, slots.last_action, jnp.full_like(slots.player, player), slots.rules)


def _begin_memory(slots: Slots, key: Words, policies: Sequence[Any]) -> Slots:
    """Begin the memories of both players in slots whose game is about to begin."""
    begins = is_turn(slots) & (slots.num_steps == 0)
    memories = []
    for player in _PLAYERS:
        agent = _agent_of(policies, player)
        if not _is_agent(agent):
            memories.append(())
            continue
        fresh = jax.vmap(agent.init)(_keys_for(key, slots, _INIT + player), _seen_by(slots, player))
        fresh = jax.tree.map(jnp.asarray, fresh)
        old = fresh if slots.memory is None else slots.memory[player]
        memories.append(jax.tree.map(lambda new, old: jnp.where(_along(begins, new), new, old), fresh, old))
    return replace(slots, memory=tuple(memories))


def _update_memory(before: Slots, after: Slots, move: Array, acts: Array, key: Words, policies: Sequence[Any]) -> tuple[Any, Any]:
    """Update the memories of both players in slots that made a step."""
    action, memories = action_of_move(before.table, move).astype(jnp.int32), []
    for player in _PLAYERS:
        agent, old = _agent_of(policies, player), before.memory[player]
        if not jax.tree.leaves(old):
            memories.append(old)
            continue
        keys = _keys_for(key, before, _UPDATE + player)
        new = jax.vmap(partial(agents.update, agent))(keys, old, _seen_by(before, player), action, _seen_by(after, player))
        memories.append(jax.tree.map(lambda new, old: jnp.where(_along(acts, old), new, old), new, old))
    return memories[0], memories[1]
