"""From the oracle's positions to what policies see of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from tests.oracle.game import COLORS, Game
from tests.solve.oracle import Behavior, Node, infosets
from unojax import cards
from unojax.game import NO_ACTION, legal_mask
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

ActionProbs = Callable[[Observation, jax.Array], jax.Array]


def shown(game: Game, rules: Rules, player: int | None = None) -> tuple[Observation, jax.Array]:
    """What a player sees, the one to move if none is named, and the legal actions."""
    mine, theirs = (" ".join(hand.elements()) for hand in game.hands)
    pile = game.pile.copy()
    pile[game.top] -= 1
    state = make_state(
        mine,
        theirs,
        game.top,
        color=cards.COLOR_NAMES[COLORS.index(game.color)],
        pile=" ".join(pile.elements()),
        player=game.player,
        penalty=game.penalty,
        rules=rules,
    )
    last_action = jnp.int8(NO_ACTION if game.last_action is None else game.last_action)
    return replace(observe(state, game.player if player is None else player), last_action=last_action), legal_mask(state)


def behavior_by(
    root: Node, rules: Rules, action_probs: Callable[[Observation, jax.Array], jax.Array]
) -> tuple[Behavior, Behavior]:
    """What a policy does at each information state, from one position in each."""

    def of_player(states: dict) -> Behavior:
        behavior: Behavior = {key: dict.fromkeys(nodes[0].children, 1.0) for key, nodes in states.items()}
        nodes = [nodes[0] for nodes in states.values() if len(nodes[0].children) > 1]
        observations, masks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(shown(node.game, rules) for node in nodes))
        probs = np.asarray(jax.vmap(action_probs)(observations, masks), float)
        for node, row in zip(nodes, probs, strict=True):
            total = sum(row[action] for action in node.children)
            behavior[node.key] = {action: row[action] / total for action in node.children}
        return behavior

    first, second = map(of_player, infosets(root))
    return first, second
