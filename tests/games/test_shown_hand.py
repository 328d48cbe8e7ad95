"""A hand shown at a challenge: entered, corrected, taken back, saved and resumed, and the belief after it."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.helpers import assert_trees_equal, refused_texts
from unojax import cards, parse_cards
from unojax.analysis.reviewing import review
from unojax.analysis.turns import track_turns
from unojax.belief.tracking import given_hand, track
from unojax.games.advising import improve
from unojax.games.at_table import Table
from unojax.games.seen import ImpossibleActionError, SeenGame, play_seen
from unojax.search import MIN_REPLICATES
from unojax.terminal.table import event as event_words
from unojax.terminal.table_conversation import words_of

PROGRAMS = 100  # Particle filters, advice and reviews.

AGENT = {"agent": "mc:rollouts=16,particles=64,policy=uniform,model=uniform|scarcest-color", "seed": 3}
HAND = "R1 R5 Y2 YS B7 G+2 W"
BEFORE = "r5 w4b"
"""They play a Wild+4 on the red 5, and declare blue."""
GUILTY, INNOCENT = "R2 R3 R4 Y1 G7 W", "Y1 Y3 Y4 G7 W W+4"


def table(line: str = BEFORE) -> Table:
    made = Table(HAND, "R0", rules="official", **AGENT)
    made.play(line)
    return made


@pytest.fixture(scope="module")
def challenged() -> Table:
    """Return a table after a won challenge with a shown hand."""
    return table(f"{BEFORE} challenge({GUILTY})")


SHORT_FORMS = {
    "challenge(won,R2,R3,R4,Y1,G7,W)": [
        *("c r2 r3 r4 y1 g7 w", "c won w g7 y1 r4 r3 r2", "c+ r2 r3 r4 y1 g7 w", "challenge won (red 2, red 3, R4 Y1 G7 wild)"),
    ],
    "challenge(lost,Y1,Y3,Y4,G7,W,W+4)": [
        *("c y1 y3 y4 g7 w w4", "c- (y1 y3 y4 g7 w w+4)", "challenge(lost,Y1,Y3,Y4,G7,W,W+4)"),
    ],
    "challenge(won)": ["c won"],
}


def test_short_forms_round_trip() -> None:
    """The canonical text is read as the same event, alone and before a draw."""
    game = table().game
    for event, lines in SHORT_FORMS.items():
        for line in lines:
            assert str(game.play(line).events[-1]) == event
            for draws in ("", " draw" if "won" in event else " draw(R6,R6,R7,R7,R8,R8)"):
                after = game.play(line + draws)
                again = play_seen(game.start, after.notation)
                assert again.events == after.events
                assert [e.shown for e in again.events] == [e.shown for e in after.events]


def test_impossible_hands_are_refused_in_words() -> None:
    game = table()
    before = game.game
    refused_texts(
        game.play,
        {
            "action 3: the hand shown must have 6 cards": ["c r2", "c r2 r3 r4 r6 y1 g7 w"],
            "the hand shown can't hold R0": ["c r0 r3 r4 y1 g7 w"],
            "the hand shown can't hold 2 x R5": ["c r5 r5 r4 y1 g7 w"],
            "the hand shown can't hold 2 x G+2": ["c g+2 g+2 r4 y1 g7 w"],
            "the challenge can't be won": ["c won y1 y3 y4 g7 w w4"],
            "the challenge can't be lost": ["c lost r2 r3 r4 y1 g7 w", "c- r2 y3 y4 y1 g7 w"],
            "3 x R2 in the hand shown": ["c r2 r2 r2 y1 g7 w"],
            "got 'q'": ["c won (r2 q)"],
            "got 'lost'": ["c won lost r2 r3 r4 y1 g7 w"],
            "unknown card 'W:B' in the hand shown": ["c w:b r3 r4 y1 g7 w"],
            "say how the challenge ended": ["c"],
        },
    )
    assert game.game is before


def test_the_other_player_is_not_shown_a_hand() -> None:
    game = Table("R1 R5 Y2 YS B7 G+2 W+4", "R0", rules="official").game.play("w4b")
    with pytest.raises(ImpossibleActionError, match="write challenge alone"):
        game.play("c won r1 r5 y2 ys b7 g+2")
    with pytest.raises(ImpossibleActionError, match="you can't challenge"):
        table("r5 d").play("c r2 r3")


def test_completion_offers_the_unseen_cards() -> None:
    words = set(words_of(table()))
    assert {"draw", "challenge", "won", "lost", "R2", "W+4", "W"} <= words and not {"R0", "W:B"} & words
    assert words_of(table("r5")) == table("r5").possible()


def test_the_event_in_words() -> None:
    game = table().game.play(f"c {GUILTY.lower()}")
    assert str(event_words(game, 3)).endswith("They showed R2 R3 R4 Y1 G7 W.")


def test_the_belief_is_the_hand(challenged: Table) -> None:
    """All particles hold it, the types stay, and advice and win probability follow from it."""
    hand = parse_cards(GUILTY)
    assert (np.asarray(challenged.belief.particles) == hand).all() and challenged.is_explained
    looked = challenged.look()
    np.testing.assert_array_equal(np.asarray(looked.belief.expected_counts).round(5), cards.count_types(hand))
    assert sum(looked.types.values()) == pytest.approx(1.0, abs=1e-4)
    assert challenged.learned is not None and np.isfinite(challenged.learned).all()
    # It is also evidence about the type: the updater's own function says how much.
    unaware = table(f"{BEFORE} c won")
    assert unaware.learned is not None and np.abs(challenged.learned - unaware.learned).max() > 1e-6
    assert 0 < looked.win_probability < 1


def test_later_events_continue_from_the_hand(challenged: Table) -> None:
    """After four unseen draws each particle holds the hand and four more cards."""
    later = challenged.after("draw")
    counts = np.asarray(cards.counts(later.belief.particles))
    assert (counts >= cards.count_types(parse_cards(GUILTY))).all() and (counts.sum(1) == 10).all()
    assert len(np.unique(counts, axis=0)) > 1 and later.is_explained
    assert later.advise() is not None
    more = later.after("b7 b8")
    held = cards.count_types(parse_cards(GUILTY))
    assert (np.asarray(cards.counts(more.belief.particles)) >= held).all()
    # The belief of the session is the updater's: begun before the showing, conditioned, and updated from there.
    views, key = later.game.observations, jax.random.fold_in(jax.random.fold_in(jax.random.key(3), 0), 0)
    *_, (belief, _) = track(later.search.updater, key, views[:4])
    shown_key = jax.random.split(jax.random.fold_in(jax.random.fold_in(jax.random.key(3), 4), 3), 1)[0]
    belief, _ = given_hand(later.search.updater, shown_key, belief, views[3], parse_cards(GUILTY))
    assert_trees_equal(jax.device_get(belief), jax.device_get(challenged.belief))


def test_contradictions_with_the_hand_are_reported(challenged: Table) -> None:
    """The opponent plays a blue card after a lost challenge, without a blue card in the shown hand."""
    lost = table(f"{BEFORE} challenge({INNOCENT}) draw(R6,R6,R7,R7,R8,R8)")
    assert lost.is_explained
    assert lost.after("d").is_explained
    assert not lost.after("b8").is_explained
    assert not lost.after("b8").belief.public.known.any()


def test_undo_correction_save_and_resume(challenged: Table, tmp_path: Path) -> None:
    """The hand belongs to its event and is in the file; a resumed table gives the same belief and advice."""
    file = tmp_path / "table.json"
    played = challenged.after("draw")
    played.save(file)
    assert json.loads(file.read_text())["actions"][2] == "challenge(won,R2,R3,R4,Y1,G7,W)"
    again = Table.resume(file, agent=AGENT["agent"])
    assert again.events == played.events
    assert_trees_equal(jax.device_get(again.belief), jax.device_get(played.belief))

    again.correct(3, "c r2 r3 r4 y1 g7 g8")
    assert [str(event) for event in again.events[2:]] == ["challenge(won,R2,R3,R4,Y1,G7,G8)", "draw"]
    assert (np.asarray(cards.counts(again.belief.particles)) >= cards.count_types(parse_cards("R2 R3 R4 Y1 G7 G8"))).all()
    # An earlier event is corrected, and the later ones are replayed with the hand.
    again.correct(1, "r1")
    assert again.events[2].shown == "R2 R3 R4 Y1 G7 G8"
    with pytest.raises(ImpossibleActionError, match="action 4: name the 6 cards that you drew"):
        again.correct(3, f"challenge({INNOCENT})")
    again.undo(2)
    assert again.game.num_settled == 0
    again.play("c won draw")
    assert again.game.num_settled == 0 and again.game.num_forgotten == 0


def test_a_count_after_the_hand_keeps_the_types(challenged: Table) -> None:
    counted = challenged.after("=9")
    assert counted.game.num_settled == counted.game.num_forgotten == 4
    assert counted.learned is not None
    np.testing.assert_allclose(counted.learned, challenged.learned, atol=1e-5)
    assert len(np.unique(np.asarray(counted.belief.particles), axis=0)) > 1


def test_advice_reviews_and_beliefs_of_a_record_use_the_hand(challenged: Table) -> None:
    """From the challenge on, and not before; they have all turns of the record."""
    game, held = challenged.after("draw").game, cards.count_types(parse_cards(GUILTY))
    assert isinstance(game, SeenGame) and game.num_settled == 3 and list(game.hands) == [3]
    advised = list(improve(game, challenged.search, replicates=MIN_REPLICATES))[-1]
    reviewed = list(review(game, 0, challenged.search, replicates=MIN_REPLICATES))
    turns = list(track_turns(game, 0, jax.random.key(0), challenged.search.updater))
    assert len(reviewed) == len(turns) == 5 and not any(turn.begun_anew for turn in turns)
    for row in (reviewed[3], turns[3]):
        np.testing.assert_allclose(row.belief.expected_counts, held, atol=1e-5)
    for belief in (advised.belief, reviewed[4].belief, turns[4].belief):
        assert (np.asarray(belief.expected_counts) >= held - 1e-5).all()
        assert float(np.sum(belief.expected_counts)) == pytest.approx(10, abs=1e-3)
    for row in (reviewed[2], turns[2]):
        assert (np.asarray(row.belief.expected_counts)[held > 0] < held[held > 0]).all()
    assert turns[3].log_evidence is not None and turns[3].log_evidence < turns[1].log_evidence - 5
    assert reviewed[3].choice is not None
