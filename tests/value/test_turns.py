"""Positions after choices, and networks' inputs, under rules with `has_turn_columns`, against the game."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from tests.helpers import after, counts_of, refusals, seated
from tests.value.positions import RULES, TURNS, legal_all, random_network, random_states, says
from training.config import Launch
from training.loop import train
from training.value.config import ValueConfig
from training.value.selfplay import SelfPlay
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent
from unojax.table import Account
from unojax.text import make_state, parse_action
from unojax.value import (
    COLOR_COLUMNS,
    SHARED_COLUMNS,
    Features,
    NetworkConfig,
    after_plays,
    features,
    load_network,
    load_pretrained,
    outlook_of_unseen,
    save_network,
    value_plays,
)
from unojax.value.features import COLOR_TURN_COLUMNS, SHARED_TURN_COLUMNS, about_to, has_turn_columns
from unojax.view import View, view_of, view_of_table

PROGRAMS = 100  # a run begins outside `jit`
OFFICIAL, HOUSE = Rules.official(), Rules.house()
NUM = 256
COMPARED = {
    # Each way to draw, to penalize and to add up; one field alone shows nothing that is not in one of these.
    "default": RULES,
    "turns": TURNS,
    "official": OFFICIAL,
    "house": HOUSE,
    "rlcard": Rules.rlcard(),
    "skips pass": Rules(skip_forfeits=False),
    "may draw": Rules(may_draw=True),
    "laid at once": Rules(play_drawn="auto", may_draw=True),
    "at will until playable": Rules(draw_until_playable=True, may_draw=True, play_drawn="may"),
    "no color": Rules(wild_draw_four="no_color", may_draw=True, play_drawn="may"),
}
OTHERS = {
    "play drawn": Rules(play_drawn="may"),
    "draw until playable": Rules(draw_until_playable=True),
    "challenge": Rules(wild_draw_four="challenge"),
    "stacking": Rules(stacking=True),
    "start effects": Rules(start_effects="keep_turn"),
}
WITHOUT_COLUMNS = ["default", "rlcard", "skips pass", "draw until playable", "start effects"]
MARKS = {"default": [], "turns": [], "official": [pytest.mark.slow]}


class Compared(NamedTuple):
    """Choices, [N]: `found` and `truth` are the mover's view of the position after each."""

    found: View
    is_won: jax.Array
    about: jax.Array
    before: View
    truth: View
    after: State
    of_tables: tuple[View, View]
    of_states: tuple[View, View]
    features: tuple[Features, Features]


@jax.jit
def compare(states: State, actions: jax.Array) -> Compared:
    rules, mover = states.rules, states.current_player.astype(jnp.int32)
    later = jax.vmap(game.step)(states, actions, jax.random.split(jax.random.key(0), len(actions)))
    # Before the step as the mover sees it, and after it as either player does.
    all_states = jax.tree.map(lambda old, new: jnp.concatenate([old, new, new]), states, later)
    players = jnp.concatenate([mover, jnp.zeros_like(mover), jnp.ones_like(mover)])
    view, *of_states = parts(view_of(jax.vmap(observe)(all_states, players)), 3)
    found, is_won = after_plays(view, actions)
    truth = jax.tree.map(lambda one, other: jnp.where(mover == 0, one, other), *of_states)
    tables = jax.vmap(game.to_table)(later)
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), tables)
    of_tables = parts(view_of_table(twice, players[len(mover) :].astype(jnp.uint32), rules), 2)
    seen = features(found, outlook_of_unseen(found)), features(truth, outlook_of_unseen(truth))
    about = about_to(view, actions)
    return Compared(found, is_won, about, view, truth, later, tuple(of_tables), tuple(of_states), seen)


def parts(tree, number: int) -> list:
    return [jax.tree.map(lambda leaf, i=i: jnp.split(leaf, number)[i], tree) for i in range(number)]


@pytest.fixture(scope="module")
def choices():
    """Return legal choices at random decisions, by rules: positions, actions, and the comparison with the game."""
    kept: dict[Rules, tuple[State, np.ndarray, Compared]] = {}

    def of(rules: Rules) -> tuple[State, np.ndarray, Compared]:
        if rules not in kept:
            states = random_states(17, 400, deciding=True, rules=rules)
            # Last cards and the highest penalties first; then one choice of each kind in turn.
            states = jax.tree.map(lambda leaf: leaf[np.argsort(-states.penalty, kind="stable")], states)
            last = [seated(seat, "R1", "Y0 Y1", "R2", rules=rules) for seat in (0, 1)]
            states = jax.tree.map(lambda leaf, *ends: np.concatenate([np.stack(ends), leaf]), states, *last)
            decision, action = np.nonzero(np.asarray(legal_all(states)))
            drawn, penalty = (getattr(states, name)[decision] for name in ("drawn", "penalty"))
            kind = np.where(action < cards.DRAW, np.where(penalty > 0, 100, action % 15), action + 100 * (drawn >= 0))
            turn = [np.count_nonzero(kind[:i] == of_choice) for i, of_choice in enumerate(kind)]
            order = np.argsort(turn, kind="stable")[np.arange(NUM) % len(action)]
            states = jax.tree.map(lambda leaf: leaf[decision[order]], states)
            kept[rules] = states, action[order], jax.device_get(compare(states, action[order].astype(np.int32)))
        return kept[rules]

    return of


@jax.jit
def unpack(view: View) -> tuple[list[jax.Array], Account]:
    """Return hand and pile as canonical one-hots, and the account of the turn."""
    return [bits.unpack(bits.canonical(words)) for words in (view.hand, view.pile)], view.unpack_account()


def assert_views_equal(found: View, truth: View, where: np.ndarray) -> None:
    for name in ("opponent_count", "rank", "color", "penalty", "is_own_turn"):
        np.testing.assert_array_equal(getattr(found, name)[where], getattr(truth, name)[where], err_msg=name)
    (sets, account), (true_sets, true_account) = jax.device_get((unpack(found), unpack(truth)))
    for name, one, other in zip(("hand", "pile"), sets, true_sets, strict=True):
        np.testing.assert_array_equal(counts_of(one)[where], counts_of(other)[where], err_msg=name)
    for name, one, other in zip(account._fields, account, true_account, strict=True):
        np.testing.assert_array_equal(one[where], other[where], err_msg=name)


@pytest.mark.parametrize("name", [pytest.param(n, marks=MARKS.get(n, [pytest.mark.slow, pytest.mark.long])) for n in COMPARED])
def test_the_position_after_a_choice_is_that_of_the_game(choices, name: str):
    """Views and features agree, from tables and from states."""
    states, action, made = choices(COMPARED[name])
    assert not (made.after.error ^ states.error).any() and set(states.current_player.tolist()) == {0, 1}
    # A draw depends on chance, and a challenge on the other hand. A player who has drawn passes.
    draws = (action == cards.DRAW) & (states.drawn < 0)
    by_chance = draws | (action == cards.CHALLENGE)
    np.testing.assert_array_equal(made.about, np.where(action == cards.CHALLENGE, 2, draws))
    assert_views_equal(made.found, made.truth, ~by_chance)
    assert_views_equal(made.found, made.before, by_chance)
    for one, other in zip(*made.features, strict=True):
        np.testing.assert_allclose(one[~by_chance], other[~by_chance], atol=1e-6)
    is_won = made.after.terminated & (made.after.winner == states.current_player)
    np.testing.assert_array_equal(made.is_won, is_won & ~by_chance)
    for of_table, of_state in zip(made.of_tables, made.of_states, strict=True):
        assert_views_equal(of_table, of_state, ~made.after.terminated)


def test_the_compared_choices_are_of_every_kind(choices):
    states, action, made = choices(TURNS)
    drawn = states.drawn >= 0
    for kind in (action < cards.DRAW, (action == cards.DRAW) & drawn, (action == cards.DRAW) & ~drawn, action == cards.CHALLENGE):
        assert kind.sum() >= 3
    assert (np.asarray(unpack(made.truth)[1].contested) > 0).sum() >= 3
    assert (made.truth.penalty > 4)[action < cards.DRAW].any(), "penalties have added up"
    _, action, made = choices(RULES)
    assert set(action % 15) == set(range(15)) and made.is_won.any(), "every rank, and wins"
    # The quick rule sets have no Skip that only passes the turn.
    after_skip = jax.jit(lambda state: after_plays(view_of(observe(state, 0)), jnp.int32(cards.SKIP))[0].is_own_turn)
    for rules in (RULES, Rules(skip_forfeits=False)):
        assert bool(after_skip(make_state("RS R1", "B1", "R2", rules=rules))) == rules.skip_forfeits


@jax.jit
def look(state: State, about: jax.Array, player: jax.Array) -> tuple[Account, Features, Features]:
    """Return a player's view of the account, features, and those of the same cards under the default rules."""
    view = view_of(observe(state, player))
    plain = replace(view, rules=Rules(), account=())
    seen = features(view, outlook_of_unseen(view), about)
    return view.unpack_account(), seen, features(plain, outlook_of_unseen(plain))


def turn_columns(state: State, player: int, about: int = 0) -> tuple[list[str], dict[str, float]]:
    """Return the colours marked as active before a Wild+4, and the further shared columns that are not 0."""
    _, made, plain = jax.device_get(look(state, np.uint32(about), np.int32(player)))
    for name in ("color", "shared"):
        both, base = getattr(made, name), getattr(plain, name)
        np.testing.assert_array_equal(both[..., : base.shape[-1]], base, err_msg=name)
    assert made.color.shape == (4, len(COLOR_COLUMNS + COLOR_TURN_COLUMNS))
    assert made.shared.shape == (len(SHARED_COLUMNS + SHARED_TURN_COLUMNS),)
    marked = [name for name, row in zip(cards.COLOR_NAMES, made.color, strict=True) if row[-1] == 1]
    assert set(made.color[:, -1]) <= {0, 1}
    of_turn = zip(SHARED_TURN_COLUMNS, made.shared[len(SHARED_COLUMNS) :].tolist(), strict=True)
    return marked, {name: pytest.approx(x) for name, x in of_turn if x}


STACKING = Rules.official(points=False, stacking=True)


def test_the_columns_of_turns_are_what_their_names_say():
    start = make_state("R1 R3 B3 W+4", "R7 Y7 B2 B1 Y1", "R2", rules=STACKING)
    contested = after(start, "W+4:G")
    # Guilty, with two red cards: the player of the Wild+4 draws it, and can't challenge.
    guilty = after(contested, "challenge")
    innocent = after(make_state("B3 W+4", "R7 Y7", "R2", rules=STACKING), "W+4:G", "challenge")
    drawn = make_state("R1 R5 B3", "B1 B2", "R2", drawn="R5", rules=STACKING)
    has_drawn, four = {"a card drawn in this turn": 1}, {"penalty / 10": 0.4}
    for state, player, about, expected in (
        (start, 0, 0, ([], {})),
        (start, 1, 0, ([], {})),
        (start, 0, 1, ([], {"about to draw": 1})),
        (contested, 0, 0, (["red"], four)),
        (contested, 1, 0, (["red"], four)),
        (contested, 1, 2, (["red"], four | {"about to challenge": 1})),
        (guilty, 0, 0, ([], four)),
        (innocent, 1, 0, ([], {"penalty / 10": 0.6})),
        (drawn, 0, 0, ([], has_drawn)),
        (drawn, 1, 0, ([], has_drawn)),
        (after(drawn, "draw"), 0, 0, ([], {})),
    ):
        assert turn_columns(state, player, about) == expected
    assert int(guilty.current_player) == 0
    state = make_state("R+2 G+2 R1", "B+2 Y+2 B1", "R5", rules=STACKING)
    for play, due in (("R+2", 0.2), ("B+2", 0.4), ("G+2", 0.6), ("Y+2", 0.8)):
        state = after(state, play)
        for player in (0, 1):
            assert turn_columns(state, player) == ([], {"penalty / 10": due})
    # Only the player who drew sees the card.
    for player, shown in ((0, (1, 0, 5)), (1, (1, 0, 0))):
        account = look(drawn, np.uint32(0), np.int32(player))[0]
        assert (int(account.has_drawn), int(account.drawn_color), int(account.drawn_rank)) == shown
    assert int(drawn.drawn) == parse_action("R5")
    assert [name for name, rules in (COMPARED | OTHERS).items() if not has_turn_columns(rules)] == WITHOUT_COLUMNS


@pytest.mark.slow
def test_a_wild_draw_four_without_a_challenge_leaves_no_colour_behind():
    start = make_state("R1 R3 B3 W+4", "R7 Y7 B2 B1 Y1", "R2", rules=HOUSE)
    assert turn_columns(after(start, "W+4:G"), 1) == ([], {"penalty / 10": 0.4})


NETWORK = random_network(config=NetworkConfig(width=8, rules=("official", "house")))


@jax.jit
def values_of(states: State, later: State, legal: jax.Array) -> tuple[jax.Array, Features, jax.Array]:
    """Return values of choices, features before them, and the values of the positions after them."""
    view, following = (view_of(jax.vmap(observe)(each, states.current_player)) for each in (states, later))
    outlook = outlook_of_unseen(view)
    truth = NETWORK(features(following, outlook_of_unseen(following))).value
    return value_plays(NETWORK, view, outlook, legal, chunk=64), features(view, outlook), truth


@pytest.mark.slow
def test_choices_have_the_values_of_the_positions_after_them_or_of_the_moment_before_chance(choices):
    states, action, made = choices(TURNS)
    legal = np.arange(TURNS.num_choices) == action[:, None]
    values, before, seen = jax.device_get(values_of(states, made.after, legal))
    assert values.shape == (NUM, 62) and (values[~legal] == -np.inf).all()
    truth = np.where(made.after.terminated & (made.after.winner == states.current_player), 1.0, seen)
    draws = (action == cards.DRAW) & (states.drawn < 0)
    at_rest = np.asarray(says(NETWORK, before).value)
    for name, rows in (("about to draw", draws), ("about to challenge", action == cards.CHALLENGE)):
        shared = before.shared.copy()
        shared[:, len(SHARED_COLUMNS) + SHARED_TURN_COLUMNS.index(name)] = 1
        truth = np.where(rows, says(NETWORK, before._replace(shared=shared)).value, truth)
        assert (np.abs(truth - at_rest)[rows] > 1e-3).any(), "the column makes a difference"
    np.testing.assert_allclose(values[legal], truth, atol=2e-5)
    assert np.ptp(values[legal]) > 0.1


def test_networks_play_only_by_turns_that_they_were_trained_for(tmp_path: Path):
    file = tmp_path / "turns.safetensors"
    save_network(file, NETWORK)
    assert load_network(file).config == NetworkConfig(width=8, rules=("official", "house"))
    assert not load_pretrained().config.turns
    dealt = {"hand_size": 5, "first_player": "random"}
    for rules in (OFFICIAL, HOUSE, Rules.official(**dealt, points=False), Rules.house(**dealt, start_effects="none")):
        for spec in ("value:network={}", "mc:leaf={}", "tree:leaf={}"):
            parse_agent(spec.format(file), rules=rules)
    untrained = Rules(may_draw=True), Rules(stacking=True), Rules(skip_forfeits=False), Rules.official(stacking=True)
    wrong = [(spec, rules) for rules in untrained for spec in ("value", "value:belief=unseen", "mc:leaf=pretrained")]
    wrong += [("tree:leaf=pretrained", untrained[0])]
    plainer = Rules(), Rules.rlcard(), Rules(skip_forfeits=False)
    wrong += [(f"{spec}={file}", rules) for rules in plainer for spec in ("value:network", "mc:leaf", "tree:leaf")]
    refusals(
        {f"rules and can't play with ({spec} {rules})": lambda s=spec, r=rules: parse_agent(s, rules=r) for spec, rules in wrong}
        | {
            "skip_forfeits=False (an agent)": lambda: parse_agent("value", rules=Rules(skip_forfeits=False)),
            "skip_forfeits=False (a network)": lambda: load_pretrained(Rules(skip_forfeits=False)),
            "policy head": lambda: parse_agent(f"policy:network={file}", rules=OFFICIAL),
            "rules=": lambda: train(
                ValueConfig(run=tmp_path, init=str(file), network=NetworkConfig(width=8)), Launch(quiet=True), Console(quiet=True)
            ),
        }
    )


def test_training_can_begin_with_a_network_of_plainer_turns():
    """Missing columns begin with zero weights, so values stay."""
    plainer = str(resources.files("unojax.value") / "value.safetensors")
    config = ValueConfig(init=plainer, network=replace(ValueConfig().network, width=192), play=SelfPlay(rules="house"))
    begun, shipped = config.network_of(config.start()), load_pretrained()
    assert begun.config.rules == ("house",) and shipped.config.rules == ("default", "rlcard")
    state = make_state("R1 R2 B9", "Y1 Y2", "R+2", penalty=2, rules=HOUSE)
    seen = jax.device_get(look(state, np.uint32(0), np.int32(0)))[1]
    plain = seen._replace(color=seen.color[..., : len(COLOR_COLUMNS)], shared=seen.shared[..., : len(SHARED_COLUMNS)])
    assert seen.shared.shape > plain.shared.shape
    np.testing.assert_allclose(says(begun, seen).value, says(shipped, plain).value, atol=1e-6)
