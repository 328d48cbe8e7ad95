"""What networks see under rules where drawing is a choice or penalties add up, against the game itself.

The rules that depend on more than the top card are those of `unojax.value.features.has_turn_columns`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from tests.helpers import after, counts_of
from tests.value.positions import TURNS, legal_all, random_network, random_states, says
from training.config import Launch
from training.loop import train
from training.value.config import ValueConfig
from training.value.selfplay import SelfPlay
from unojax import bits, cards, game
from unojax.game import State
from unojax.observation import observe
from unojax.rules import Rules
from unojax.specs import parse_agent
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

OFFICIAL, HOUSE = Rules.official(), Rules.house()
NUM = 256
QUICK = {"all that there is": TURNS}
OTHERS = {
    "official": OFFICIAL,
    "house": HOUSE,
    "default": Rules(),
    "rlcard": Rules.rlcard(),
    "may draw": Rules(may_draw=True),
    "play drawn": Rules(play_drawn="may"),
    "laid at once": Rules(play_drawn="auto", may_draw=True),
    "draw until playable": Rules(draw_until_playable=True),
    "at will until playable": Rules(draw_until_playable=True, may_draw=True, play_drawn="may"),
    "challenge": Rules(wild_draw_four="challenge"),
    "no color": Rules(wild_draw_four="no_color", may_draw=True, play_drawn="may"),
    "stacking": Rules(stacking=True),
    "start effects": Rules(start_effects="keep_turn"),
}
PARAMS = [pytest.param(rules, id=name) for name, rules in QUICK.items()] + [
    # Each way to draw, to penalise and to add up; one field alone shows nothing that is not in one of these.
    pytest.param(OTHERS[name], id=name, marks=[pytest.mark.slow, *([] if name == "official" else [pytest.mark.long])])
    for name in ("official", "house", "default", "rlcard", "may draw", "laid at once", "at will until playable", "no color")
]


class Compared(NamedTuple):
    """What is said of choices, [N], and the game's own word: `found` and `truth` of the position after each."""

    found: View
    is_won: jax.Array
    about: jax.Array
    before: View
    truth: View
    after: State
    of_tables: tuple[View, View]
    of_states: tuple[View, View]


@jax.jit
def compare(states: State, actions: jax.Array) -> Compared:
    rules = states.rules
    mover = states.current_player.astype(jnp.int32)
    later = jax.vmap(game.step)(states, actions, jax.random.split(jax.random.key(0), len(actions)))
    # Before the step as the mover sees it, and after it as either player does.
    all_states = jax.tree.map(lambda old, new: jnp.concatenate([old, new, new]), states, later)
    players = jnp.concatenate([mover, jnp.zeros_like(mover), jnp.ones_like(mover)])
    view, *of_states = parts(view_of(jax.vmap(observe)(all_states, players)), 3)
    found, is_won = after_plays(view, actions)
    truth = jax.tree.map(partial(jnp.where, mover == 0), *of_states)
    tables = jax.vmap(game.to_table)(later)
    twice = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), tables)
    of_tables = parts(view_of_table(twice, players[len(mover) :].astype(jnp.uint32), rules), 2)
    return Compared(found, is_won, about_to(view, actions), view, truth, later, tuple(of_tables), tuple(of_states))


def parts(tree, number: int) -> list:
    """Equal parts of the leading axis."""
    return [jax.tree.map(lambda leaf, i=i: jnp.split(leaf, number)[i], tree) for i in range(number)]


@pytest.fixture(scope="module")
def choices():
    """Legal choices at random decisions, by rules: the positions, the actions, and what is said of them."""
    kept: dict[Rules, tuple[State, np.ndarray, Compared]] = {}

    def of(rules: Rules) -> tuple[State, np.ndarray, Compared]:
        if rules not in kept:
            states = random_states(17, 112, deciding=True, rules=rules)
            legal = np.asarray(legal_all(states))
            decision, action = np.nonzero(legal)
            # Draws, passes and challenges first: they are few.
            order = np.argsort(action < cards.DRAW, kind="stable")[np.arange(NUM) % len(action)]
            states = jax.tree.map(lambda leaf: leaf[decision[order]], states)
            kept[rules] = states, action[order], jax.device_get(compare(states, action[order].astype(np.int32)))
        return kept[rules]

    return of


def assert_views_equal(found: View, truth: View, where: np.ndarray) -> None:
    for name in ("opponent_count", "rank", "color", "penalty", "is_own_turn"):
        np.testing.assert_array_equal(getattr(found, name)[where], getattr(truth, name)[where], err_msg=name)
    for name in ("hand", "pile"):
        one, other = (np.asarray(bits.unpack(bits.canonical(getattr(view, name))))[where] for view in (found, truth))
        np.testing.assert_array_equal(counts_of(one), counts_of(other), err_msg=name)
    accounts = (jax.device_get(view.unpack_account()) for view in (found, truth))
    for name, one, other in zip(found.unpack_account()._fields, *accounts, strict=True):
        np.testing.assert_array_equal(one[where], other[where], err_msg=name)


@pytest.mark.parametrize("rules", PARAMS)
def test_the_position_after_a_choice_is_that_of_the_game(choices, rules: Rules):
    states, action, made = choices(rules)
    assert not (made.after.error ^ states.error).any()
    # A draw depends on chance, and a challenge on the other hand. A player who has drawn passes.
    draws = (action == cards.DRAW) & (states.drawn < 0)
    by_chance = draws | (action == cards.CHALLENGE)
    np.testing.assert_array_equal(made.about, np.where(action == cards.CHALLENGE, 2, draws))
    assert_views_equal(made.found, made.truth, ~by_chance)
    assert_views_equal(made.found, made.before, by_chance)
    is_won = made.after.terminated & (made.after.winner == states.current_player)
    np.testing.assert_array_equal(made.is_won & ~by_chance, is_won & ~by_chance)
    assert not made.is_won[by_chance].any()


def test_the_choices_compared_are_of_every_kind(choices):
    states, action, made = choices(TURNS)
    drawn = states.drawn >= 0
    for kind in (action < cards.DRAW, (action == cards.DRAW) & drawn, (action == cards.DRAW) & ~drawn, action == cards.CHALLENGE):
        assert kind.sum() >= 3
    assert (made.truth.unpack_account().contested > 0).sum() >= 3
    assert (made.truth.penalty > 4)[action < cards.DRAW].any(), "penalties have added up"


@pytest.mark.parametrize("rules", PARAMS)
def test_what_a_player_sees_of_a_table_is_the_position_it_observes(choices, rules: Rules):
    _, _, made = choices(rules)
    for of_table, of_state in zip(made.of_tables, made.of_states, strict=True):
        assert_views_equal(of_table, of_state, ~made.after.terminated)


def test_only_the_player_who_drew_sees_the_card():
    state = make_state("R1 R5 B3", "B1 B2", "R2", drawn="R5", rules=OFFICIAL)
    assert int(state.drawn) == parse_action("R5") == 5
    mine, theirs = (view_of(observe(state, player)).unpack_account() for player in (0, 1))
    assert (int(mine.has_drawn), int(mine.drawn_color), int(mine.drawn_rank)) == (1, 0, 5)
    assert (int(theirs.has_drawn), int(theirs.drawn_color), int(theirs.drawn_rank)) == (1, 0, 0)


@jax.jit
def look(state: State, about: jax.Array, player: jax.Array) -> tuple[Features, Features]:
    """Features of a position, and those of the same cards under the default rules."""
    view = view_of(observe(state, player))
    plain = replace(view, rules=Rules(), account=())
    return features(view, outlook_of_unseen(view), about), features(plain, outlook_of_unseen(plain))


def turn_columns(state: State, player: int, about: int = 0) -> tuple[list[str], dict[str, float]]:
    """Colours marked as those before a Wild+4, and the further shared columns that are not 0, by their names."""
    made, plain = jax.device_get(look(state, np.uint32(about), np.int32(player)))
    for name in ("color", "shared"):
        both, base = getattr(made, name), getattr(plain, name)
        np.testing.assert_array_equal(both[..., : base.shape[-1]], base, err_msg=name)
    assert made.color.shape == (4, len(COLOR_COLUMNS + COLOR_TURN_COLUMNS)) and made.color.dtype == np.float32
    assert made.shared.shape == (len(SHARED_COLUMNS + SHARED_TURN_COLUMNS),) and made.shared.dtype == np.float32
    marked = [name for name, row in zip(cards.COLOR_NAMES, made.color, strict=True) if row[-1] == 1]
    assert set(made.color[:, -1]) <= {0, 1}
    of_turn = zip(SHARED_TURN_COLUMNS, made.shared[len(SHARED_COLUMNS) :].tolist(), strict=True)
    return marked, {name: pytest.approx(x) for name, x in of_turn if x}


def test_the_columns_of_turns_are_what_their_names_say():
    deal = ("R1 R3 B3 W+4", "R7 Y7 B2 B1 Y1", "R2")
    start = make_state(*deal, rules=TURNS)
    for player in (0, 1):
        assert turn_columns(start, player) == ([], {})
    assert turn_columns(start, 0, about=1) == ([], {"about to draw": 1})

    contested = after(start, "W+4:G")
    for player in (0, 1):
        assert turn_columns(contested, player) == (["red"], {"penalty / 10": 0.4})
    assert turn_columns(contested, 1, about=2) == (["red"], {"penalty / 10": 0.4, "about to challenge": 1})
    # Guilty, with two red cards: the player of the Wild+4 draws it, and can't challenge.
    guilty = after(contested, "challenge")
    assert int(guilty.current_player) == 0 and turn_columns(guilty, 0) == ([], {"penalty / 10": 0.4})
    innocent = after(make_state("B3 W+4", "R7 Y7", "R2", rules=TURNS), "W+4:G", "challenge")
    assert turn_columns(innocent, 1) == ([], {"penalty / 10": 0.6})

    drawn = make_state("R1 R5 B3", "B1 B2", "R2", drawn="R5", rules=TURNS)
    for player in (0, 1):
        assert turn_columns(drawn, player) == ([], {"a card drawn in this turn": 1})
    assert turn_columns(after(drawn, "draw"), 0) == ([], {})

    state = make_state("R+2 G+2 R1", "B+2 Y+2 B1", "R5", rules=TURNS)
    for play, due in (("R+2", 0.2), ("B+2", 0.4), ("G+2", 0.6), ("Y+2", 0.8)):
        state = after(state, play)
        for player in (0, 1):
            assert turn_columns(state, player) == ([], {"penalty / 10": due})


@pytest.mark.slow
def test_a_wild_draw_four_that_can_not_be_challenged_leaves_no_colour_behind():
    start = make_state("R1 R3 B3 W+4", "R7 Y7 B2 B1 Y1", "R2", rules=HOUSE)
    assert turn_columns(after(start, "W+4:G"), 1) == ([], {"penalty / 10": 0.4})


def test_which_rules_have_the_columns():
    assert [name for name, rules in (QUICK | OTHERS).items() if not has_turn_columns(rules)] == [
        "default",
        "rlcard",
        "draw until playable",
        "start effects",
    ]


NETWORK = random_network(config=NetworkConfig(width=8, rules=("official", "house")))


@jax.jit
def values_of(states: State, legal: jax.Array) -> tuple[jax.Array, Features]:
    view = view_of(jax.vmap(observe)(states, states.current_player))
    outlook = outlook_of_unseen(view)
    return value_plays(NETWORK, view, outlook, legal, chunk=64), features(view, outlook)


@jax.jit
def value_seen(states: State, player: jax.Array) -> jax.Array:
    view = view_of(jax.vmap(observe)(states, player))
    return NETWORK(features(view, outlook_of_unseen(view))).value


@pytest.mark.slow
def test_choices_are_worth_what_the_positions_after_them_are_or_the_moment_before_chance(choices):
    states, action, made = choices(TURNS)
    legal = np.arange(TURNS.num_choices) == action[:, None]
    values, before = jax.device_get(values_of(states, legal))
    assert values.shape == (NUM, 62) and (values[~legal] == -np.inf).all()
    seen = np.asarray(value_seen(made.after, states.current_player))
    truth = np.where(made.after.terminated & (made.after.winner == states.current_player), 1.0, seen)
    draws = (action == cards.DRAW) & (states.drawn < 0)
    at_rest = np.asarray(says(NETWORK, before).value)
    for name, rows in (("about to draw", draws), ("about to challenge", action == cards.CHALLENGE)):
        shared = before.shared.copy()
        shared[:, len(SHARED_COLUMNS) + SHARED_TURN_COLUMNS.index(name)] = 1
        truth = np.where(rows, says(NETWORK, before._replace(shared=shared)).value, truth)
        assert (np.abs(truth - at_rest)[rows] > 1e-3).any(), "being about to is a difference"
    np.testing.assert_allclose(values[legal], truth, atol=2e-5)
    assert np.ptp(values[legal]) > 0.1


@pytest.fixture
def saved(tmp_path: Path) -> str:
    save_network(tmp_path / "turns.safetensors", NETWORK)
    return str(tmp_path / "turns.safetensors")


def test_a_network_with_columns_of_turns_in_a_file(saved: str):
    assert load_network(saved).config == NetworkConfig(width=8, rules=("official", "house"))
    assert not load_pretrained().config.turns


UNTRAINED = [Rules(may_draw=True), Rules(stacking=True), Rules(skip_forfeits=False), Rules.official(stacking=True)]
SPECS = ["value", "value:belief=unseen", "mc:leaf=pretrained", "tree:leaf=pretrained"]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("rules", UNTRAINED, ids=repr)
def test_the_shipped_networks_reject_turns_that_none_was_trained_for(spec: str, rules: Rules):
    with pytest.raises(ValueError, match=r"network pretrained was trained for .* rules and can't play with .*: take"):
        parse_agent(spec, rules=rules)


def test_the_rejection_names_the_fields_that_differ():
    with pytest.raises(ValueError, match=r"can't play with skip_forfeits=False: take another agent, such as mc, or train"):
        parse_agent("value", rules=Rules(skip_forfeits=False))
    with pytest.raises(ValueError, match=r"skip_forfeits=False"):
        load_pretrained(Rules(skip_forfeits=False))


@pytest.mark.parametrize("rules", [Rules(), Rules.rlcard(), Rules(skip_forfeits=False)], ids=repr)
def test_a_network_of_other_turns_is_rejected(saved: str, rules: Rules):
    for spec in ("value:network={}", "mc:leaf={}", "tree:leaf={}"):
        with pytest.raises(ValueError, match=r"turns.safetensors was trained for official and house rules and can't play with "):
            parse_agent(spec.format(saved), rules=rules)


def test_a_network_plays_by_the_turns_of_its_rules(saved: str):
    dealt = {"hand_size": 5, "first_player": "random"}
    for rules in (OFFICIAL, HOUSE, Rules.official(**dealt, points=False), Rules.house(**dealt, start_effects="none")):
        for spec in ("value:network={}", "mc:leaf={}", "tree:leaf={}"):
            parse_agent(spec.format(saved), rules=rules)
    with pytest.raises(ValueError, match=r"has no policy head; use head=value"):
        parse_agent(f"value:network={saved},head=policy", rules=OFFICIAL)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ((), "rules must name at least one game"),
        (("mine",), "rules must be a unojax.Rules or one of default, .*, got 'mine'"),
        (("default", "official"), r"\('default', 'official'\) need two networks"),
    ],
)
def test_rules_of_no_network(rules: tuple[str, ...], message: str):
    with pytest.raises(ValueError, match=message):
        NetworkConfig(rules=rules)


def test_training_can_begin_with_a_network_of_plainer_turns():
    """The columns that it lacks begin with weights of zero, so that it says what it said."""
    config = ValueConfig(init="pretrained", network=replace(ValueConfig().network, width=192), play=SelfPlay(rules="house"))
    begun, shipped = config.network_of(config.start()), load_pretrained()
    assert begun.config.rules == ("house",) and shipped.config.rules == ("default", "rlcard")
    view = view_of(observe(make_state("R1 R2 B9", "Y1 Y2", "R+2", penalty=2, rules=HOUSE), 0))
    seen = features(view, outlook_of_unseen(view))
    plain = seen._replace(color=seen.color[..., : len(COLOR_COLUMNS)], shared=seen.shared[..., : len(SHARED_COLUMNS)])
    assert seen.shared.shape > plain.shared.shape
    np.testing.assert_allclose(says(begun, seen).value, says(shipped, plain).value, atol=1e-6)


def test_training_does_not_begin_with_a_network_of_more_columns(saved: str, tmp_path: Path):
    config = ValueConfig(run=tmp_path, init=saved, network=NetworkConfig(width=8))
    with pytest.raises(ValueError, match=r"is a network of shape .*rules=.*, asked for is .*rules="):
        train(config, Launch(quiet=True), Console(quiet=True))
