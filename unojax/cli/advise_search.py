"""What `unojax advise` finds out: the game as one player saw it, the belief from that, and what each play is worth.

The player's own view is all that goes in. To play a list of actions through, the hidden hand is imagined anew at each step, as
any that makes the action possible: what the player sees after a step does not depend on which.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from unojax import bits, cards, game, text
from unojax.agents import Memory, parse_agent
from unojax.belief import Info, belief_init, belief_update, resample, summary
from unojax.belief.history import Prior, playable_types
from unojax.cli import replay
from unojax.cli.advise import MIN_ROUNDS
from unojax.cli.belief_turns import is_deal
from unojax.cli.replay import Replay
from unojax.game import State
from unojax.observation import Observation
from unojax.rules import Rules
from unojax.search.agents import Hands, SearchAgent, _opponent_model
from unojax.search.monte_carlo import Estimate, choose
from unojax.search.rollouts import place_cards


@dataclass(frozen=True)
class Path:
    """A game so far as one player saw it.

    Attributes:
        observations: at the start and after each action, as NumPy.
        actions: 0..60.
        notation: the actions as they are read.
    """

    observations: tuple[Observation, ...]
    actions: tuple[int, ...]
    notation: str

    @property
    def end(self) -> Observation:
        """The last position."""
        return self.observations[-1]


class Belief(NamedTuple):
    """What is shown of a belief; see the functions of `unojax.belief.summary` of the same names. NumPy.

    Attributes:
        prob_holds, prob_color, num_distinct: see there.
        ess: effective sample size.
        num_hands: N.
    """

    prob_holds: np.ndarray
    prob_color: np.ndarray
    num_distinct: int
    ess: float
    num_hands: int


class Play(NamedTuple):
    """What is known of one legal play. All but the last two are probabilities, a drawn game counting half.

    Attributes:
        action: 0..60.
        win, win_error: the win probability and its standard error.
        behind, behind_error: the highest win probability less this one, and the standard error of the difference.
        gain, gain_error: this win probability less that of the rollout policy's own play, and its standard error.
        rollouts: games that it was tried in.
    """

    action: int
    win: float
    win_error: float
    behind: float
    behind_error: float
    gain: float
    gain_error: float
    rollouts: int


class Advice(NamedTuple):
    """What a search says.

    Attributes:
        plays: the best first.
        recommended: the action to play.
        own: what the rollout policy plays by itself.
        rounds, seconds: of the search, without compiling.
    """

    plays: tuple[Play, ...]
    recommended: int
    own: int
    rounds: int
    seconds: float


def read_agent(spec: str, rules: Rules) -> SearchAgent:
    """The search that a spec describes.

    Raises:
        ValueError: there is no such agent, or it does not say how likely a play is to win from what a player sees.
    """
    agent = parse_agent(spec, rules=rules)
    if not isinstance(agent, SearchAgent):
        raise ValueError(f"agent {spec!r} has no estimates; choose a search, mc or tree")
    if agent.belief == "truth":
        raise ValueError(f"agent {spec!r}: belief=truth needs the hidden hand; choose belief=particles or belief=unseen")
    if agent.discount != 1.0:
        raise ValueError(f"agent {spec!r}: discounted returns are no win probabilities; leave discount out")
    return agent


def read_path(position: str, history: str, player: int | None, rules: Rules) -> Path:
    """The game so far.

    Args:
        position: what a player sees, as `text.parse_observation` reads it, or a whole position, of which only one player's view
            is used.
        history: what was played from there; cards drawn by the player are named, `draw(R5,W)`, those of the other are not.
        player: 0 or 1; None: whose view is given, or else who moves at the end.
        rules: the rules.

    Raises:
        ValueError: the position or the history can't be, or the player is not to move at the end.
    """
    if has_hidden_hand(position):
        seen = text.parse_observation(position, rules=rules)
        if player not in (None, int(seen.player)):
            raise ValueError(f"--player {player}: the position shows the hand of player {int(seen.player)}")
        return _check_end(follow(seen, history, rules))
    state = text.parse_position(position, rules=rules)
    if state.is_over:
        raise ValueError(f"position {position!r}: the game is over; there is nothing to advise")
    views = Replay(jax.device_get(state), ()).observations
    if player is not None:
        return _check_end(follow(views(player, rules)[0], history, rules))
    # Whose view the history is, is told by whose cards it names, and if none are drawn by who moves at the end.
    paths, errors = [], []
    for seat in (int(state.current_player), 1 - int(state.current_player)):
        try:
            paths.append(follow(views(seat, rules)[0], history, rules))
        except ImpossibleActionError as error:
            errors.append(error)
    if not paths:
        raise max(errors, key=lambda error: error.number)
    return _check_end(next((path for path in paths if path.end.is_my_turn), paths[0]))


def has_hidden_hand(position: str) -> bool:
    """Whether a position is one player's view and not a whole one."""
    places = position.strip().split("/")
    return places[0].startswith("player") or any(place.isdigit() for place in places[:2])


class ImpossibleActionError(ValueError):
    """An action that can't be, with its number in the list."""

    def __init__(self, number: int, why: object):
        super().__init__(f"--history: action {number}: {why}")
        self.number = number


def follow(start: Observation, history: str, rules: Rules) -> Path:
    """The game that a list of actions makes, as one player sees it.

    Raises:
        ImpossibleActionError: an action can't be read, or no hidden hand makes it possible.
    """
    observations, actions, notation = [jax.device_get(start)], [], []
    for number, token in enumerate(replay._TOKEN.findall(history), 1):
        seen = observations[-1]
        try:
            state = _imagine(seen, _hidden_hand(seen, token.strip()), rules)
            # Which cards the other player draws is not seen, so any key will do.
            step = replay._follow(state, token.strip(), jax.random.key(0), rules)
            if seen.is_my_turn and step.drawn and "(" not in token:
                raise ValueError(f"name the cards that player {step.mover} drew, as in draw(R5)")
        except ValueError as error:
            raise ImpossibleActionError(number, error) from error
        observations.append(Replay(state, (step,)).observations(int(seen.player), rules)[1])
        actions.append(step.action)
        notation.append(step.notation(with_cards=step.mover == seen.player))
    return Path(tuple(observations), tuple(actions), " ".join(notation))


def believe(path: Path, agent: SearchAgent, key: Array, on_step: Callable[[int], None]) -> Memory:
    """What the agent remembers at the end of a path.

    Args:
        path: the game.
        agent: whose belief it is.
        key: consumed.
        on_step: called with the number of each action before it is taken in.

    Raises:
        ImpossibleActionError: no hand explains what was seen.
    """
    start = path.observations[0]
    if agent.belief != "particles":
        return agent.init(key, start)
    state = _imagine(start, _some(_unseen(start), int(start.opponent_count)), agent.rules)
    prior: Prior = "deal" if is_deal(state, agent.rules) else "uniform"
    memory = _init(jax.random.fold_in(key, 0), start, agent=agent, prior=prior)
    for number, (action, (before, after)) in enumerate(zip(path.actions, pairwise(path.observations), strict=True), 1):
        on_step(number)
        memory, info = _update(jax.random.fold_in(key, number), memory, before, np.int32(action), after, agent=agent)
        if info.depleted:
            other = 1 - int(start.player)
            raise ImpossibleActionError(
                number,
                f"no hand of player {other} explains this after what came before; check the history, or take more particles "
                f"than {agent.particles}",
            )
    return memory


def look(memory: Memory, seen: Observation, agent: SearchAgent, key: Array) -> Belief:
    """What is to be shown of a memory; `key` is consumed."""
    holds, color, distinct, ess, num_hands = jax.device_get(_look(key, memory, seen, agent=agent))
    return Belief(holds, color, int(distinct), float(ess), int(num_hands))


def search(
    memory: Memory,
    seen: Observation,
    legal: np.ndarray,
    agent: SearchAgent,
    key: Array,
    *,
    num_rounds: int | None,
    seconds: float,
    on_round: Callable[[int], None],
) -> Advice:
    """Try all legal plays in rounds with fresh samples, and pool them.

    Args:
        memory: the agent's.
        seen: the position, of the player to move.
        legal: bool[60], one or more plays.
        agent: the search.
        key: round i uses `fold_in(key, i)`.
        num_rounds: at least MIN_ROUNDS; None: as many as `seconds` allow, but no fewer than that.
        seconds: of the search, after compiling.
        on_round: called with the number of rounds done.
    """
    first = jax.random.fold_in(key, 0)
    program = _round.lower(first, memory, seen, legal, agent=agent).compile()
    rounds: list[Estimate] = []
    began = time.perf_counter()
    for number in count() if num_rounds is None else range(num_rounds):
        on_round(number)
        rounds.append(jax.device_get(program(jax.random.fold_in(key, number), memory, seen, legal)))
        spent = time.perf_counter() - began
        if num_rounds is None and len(rounds) >= MIN_ROUNDS and spent * (1 + 1 / len(rounds)) > seconds:
            break
    return pool(rounds, legal, agent.keep, time.perf_counter() - began)


def pool(rounds: Sequence[Estimate], legal: np.ndarray, keep: float, seconds: float) -> Advice:
    """The mean of independent estimates of one decision over all their samples.

    A search that gives plays up does so where they look bad, so that a mean of the rounds' means would be too low for them; the
    ratio of sums over rounds is not, but for a bias of order 1 / rounds (Wald's identity). Standard errors are those of a ratio,
    from the differences between the rounds, in which all plays share samples.

    Args:
        rounds: two or more, as NumPy.
        legal: bool[60].
        keep: see `choose`.
        seconds: that the search took.
    """
    # Returns are in [-1, 1].
    wins = np.stack([(1 + one.value) / 2 for one in rounds], dtype=np.float64)
    samples = np.stack([one.num_samples for one in rounds])
    weights = samples / np.maximum(samples.mean(0), 1)
    win = (weights * wins).mean(0)
    residuals = weights * (wins - win)

    def error(residuals: np.ndarray) -> np.ndarray:
        return np.sqrt((residuals**2).sum(0) / (len(rounds) * (len(rounds) - 1)))

    # A policy that is indifferent between plays may pick another one in each round.
    own = Counter(int(one.base) for one in rounds).most_common(1)[0][0]
    best = int(np.argmax(np.where(legal, win, -np.inf)))
    win_error = error(residuals)
    gain, gain_error = win - win[own], error(residuals - residuals[:, [own]])
    behind, behind_error = win[best] - win, error(residuals - residuals[:, [best]])
    columns = (win, win_error, behind, behind_error, gain, gain_error, samples.sum(0))
    plays = [Play(a, *(column[a].item() for column in columns)) for a in np.flatnonzero(legal).tolist()]
    plays.sort(key=lambda play: play.behind)
    pooled = Estimate(*map(jnp.asarray, (win, gain, win_error, gain_error, samples.sum(0), np.int32(own))))
    recommended = int(choose(pooled, jnp.asarray(legal), keep))
    return Advice(tuple(plays), recommended, own, len(rounds), seconds)


def _check_end(path: Path) -> Path:
    end = path.end
    if end.terminated:
        raise ValueError("--history: the game is over at its end; there is nothing to advise")
    if not end.is_my_turn:
        when = " at the end of --history" if path.actions else ""
        raise ValueError(
            f"player {int(end.current_player)} is to move{when}, but the view is that of player {int(end.player)}; advice is for "
            "the player to move"
        )
    return path


def _hidden_hand(seen: Observation, token: str) -> np.ndarray:
    """int[54]: some hand of the other player with which an action is possible.

    Raises:
        ValueError: there is none.
    """
    draw = replay._DRAW.fullmatch(token)
    action = cards.DRAW if draw else text.parse_action(token)
    if seen.terminated:
        raise ValueError(f"{token!r} comes after the end of the game")
    if seen.is_my_turn:
        named = replay._counts(text.parse_cards(draw[1])) if draw else np.zeros(cards.NUM_TYPES, int)
        return _hand_besides(seen, named)
    if draw:
        raise ValueError(f"player {int(seen.player)} does not see what player {int(seen.current_player)} draws; write draw")
    return _hand_for(seen, action)


def _hand_besides(seen: Observation, named: np.ndarray) -> np.ndarray:
    """A hidden hand that leaves these cards (int[54]) to draw."""
    unseen = _unseen(seen)
    if seen.deck_count < max(seen.penalty, 1):
        # What is in the pile under its top can be drawn too.
        named = named - replay._counts(seen.pile)
        named[int(cards.type_of(seen.color, seen.top_rank))] += 1
    kept = np.clip(named, 0, None)
    if (missing := np.flatnonzero(kept > unseen)).size:
        name = cards.TYPE_NAMES[missing[0]]
        raise ValueError(f"{named[missing[0]]} x {name} can't be drawn: {unseen[missing[0]]} x {name} is not seen elsewhere")
    if kept.sum() > seen.deck_count:
        raise ValueError(f"the deck holds {int(seen.deck_count)} cards, and {kept.sum()} of those drawn can't come from the pile")
    return _some(unseen - kept, int(seen.opponent_count))


def _hand_for(seen: Observation, action: int) -> np.ndarray:
    """A hidden hand with which the other player, who is to move, may act like this."""
    unseen, number = _unseen(seen), int(seen.opponent_count)
    who, name = f"player {int(seen.current_player)}", text.format_action(action)
    top = text.format_action(int(seen.color) * cards.NUM_RANKS + int(seen.top_rank))
    if seen.penalty:
        if action != cards.DRAW:
            raise ValueError(f"{name!r} is not legal for {who}, who must draw {int(seen.penalty)}")
        return _some(unseen, number)
    playable = np.asarray(_playable_types(seen.color, seen.top_rank))
    if action == cards.DRAW:
        others = np.where(playable, 0, unseen)
        if others.sum() < number:
            raise ValueError(
                f"'draw' is not legal for {who}, who holds {number} cards and so one that can be played on {top}: no more than "
                f"{others.sum()} of the cards not seen can't"
            )
        return _some(others, number)
    played = np.arange(cards.NUM_TYPES) == int(cards.type_of(*divmod(action, cards.NUM_RANKS)))
    if not playable[played]:
        raise ValueError(f"{name!r} is not legal for {who}: it can't be played on {top}")
    if not unseen[played]:
        raise ValueError(f"{name!r} can't be: {who} has no such card, since player {int(seen.player)} sees all of them elsewhere")
    return played + _some(unseen - played, number - 1)


def _unseen(seen: Observation) -> np.ndarray:
    """int[54]: on the host."""
    return np.asarray(seen.composition) - replay._counts(seen.hand) - replay._counts(seen.pile)


def _some(counts: np.ndarray, number: int) -> np.ndarray:
    """int[54]: the first so many cards."""
    return np.clip(number - (np.cumsum(counts) - counts), 0, counts)


def _imagine(seen: Observation, hidden: np.ndarray, rules: Rules) -> State:
    """The whole position if the other player held these cards (int[54]), as NumPy."""
    return jax.device_get(_place(seen, replay._onehot(hidden), rules=rules))


@partial(jax.jit, static_argnames="rules")
def _place(seen: Observation, hidden: Array, *, rules: Rules) -> State:
    return game.from_table(
        place_cards(seen, bits.pack(hidden)),
        rewards=jnp.zeros(2, jnp.float32),
        truncated=jnp.bool_(False),
        step_count=jnp.int32(0),
        error=jnp.uint8(0),
        last_action=seen.last_action,
        rules=rules,
    )


_playable_types = jax.jit(playable_types)


@partial(jax.jit, static_argnames=("agent", "prior"))
def _init(key: Array, seen: Observation, *, agent: SearchAgent, prior: Prior) -> Memory:
    return belief_init(seen, key, num_particles=agent.particles, rules=agent.rules, prior=prior)


@partial(jax.jit, static_argnames="agent")
def _update(
    key: Array, memory: Memory, before: Observation, action: Array, after: Observation, *, agent: SearchAgent
) -> tuple[Memory, Info]:
    return belief_update(memory, before, action, after, key, opponent=_opponent_model(agent.model), rules=agent.rules)


@partial(jax.jit, static_argnames="agent")
def _look(key: Array, memory: Memory, seen: Observation, *, agent: SearchAgent) -> tuple[Array, ...]:
    hands = agent.hands(key, memory, seen)
    return (
        summary.prob_holds(hands),
        summary.prob_color(hands),
        summary.num_distinct(hands),
        resample.effective_sample_size(hands.log_weights),
        jnp.int32(len(hands.log_weights)),
    )


@partial(jax.jit, static_argnames="agent")
def _round(key: Array, memory: Memory, seen: Observation, legal: Array, *, agent: SearchAgent) -> Estimate:
    # Not `agent.think`, which leaves a single legal play out.
    key_hands, key_search = jax.random.split(key)
    hands: Hands = agent.hands(key_hands, memory, seen)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None], (key_search, seen, hands, legal))
    return jax.tree.map(lambda x: x[0], agent.estimate(*one))
