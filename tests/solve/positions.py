"""Observations of the oracle's positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import numpy as np

from tests.oracle.game import COLORS, Game
from tests.solve.oracle import Behavior, Node, infosets
from unojax import cards
from unojax.game import NO_ACTION, legal_mask
from unojax.observation import Observation, observe
from unojax.rules import Rules
from unojax.text import make_state

ActionProbs = Callable[[Observation, jax.Array], jax.Array]
_look = jax.jit(lambda state, player: (observe(state, player), legal_mask(state)))


def shown(game: Game, rules: Rules, player: int | None = None) -> tuple[Observation, jax.Array]:
    """Return the observation of a player, by default the one to move, and the legal actions."""
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
    seen, legal = _look(state, np.int32(game.player if player is None else player))
    last_action = NO_ACTION if game.last_action is None else game.last_action
    return replace(seen, last_action=np.int8(last_action)), legal


def behavior_by(root: Node, rules: Rules, action_probs: ActionProbs) -> tuple[Behavior, Behavior]:
    """Return the behaviour of a policy at each information state, from one position in each."""
    probs_of = jax.jit(action_probs)

    def of_player(states: dict) -> Behavior:
        behavior: Behavior = {key: dict.fromkeys(nodes[0].children, 1.0) for key, nodes in states.items()}
        for node in (nodes[0] for nodes in states.values() if len(nodes[0].children) > 1):
            assert node.game is not None
            probs = np.asarray(probs_of(*shown(node.game, rules)), float)
            total = sum(probs[action] for action in node.children)
            behavior[node.key] = {action: probs[action] / total for action in node.children}
        return behavior

    first, second = map(of_player, infosets(root))
    return first, second
