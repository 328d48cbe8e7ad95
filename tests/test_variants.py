"""The rules that people play, on crafted positions: each rule, and the pairs of rules that touch each other.

A position reads hand0/hand1/pile/deck top player penalty steps last result; `0+R2`: player 0 has drawn R2 and its turn goes on;
`4?R`: a Wild+4 played when red was active can be challenged; `~` before the top card: it is in the deck.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np
import pytest

from tests.helpers import actions, deck_of, legal
from unojax.games.replay import replay
from unojax.rules import Rules
from unojax.text import format_position, parse_position

MAY = Rules(may_draw=True, play_drawn="may")
AUTO = Rules(play_drawn="auto")
UNTIL = Rules(draw_until_playable=True)
NO_COLOR = Rules(wild_draw_four="no_color", may_draw=True, play_drawn="may")
LAST = Rules(wild_draw_four="last", play_drawn="may")
CHALLENGE = Rules(wild_draw_four="challenge")
STACKING = Rules(stacking=True)
BOTH = Rules(stacking=True, wild_draw_four="challenge")
STACKING_NO_COLOR = Rules(stacking=True, wild_draw_four="no_color")
HOUSE = Rules.house()
OFFICIAL = Rules.official()
RLCARD = Rules.rlcard()
FEW = {"deck": deck_of("R5 B1 G1 R9 G2"), "hand_size": 1}
ALL = Rules.official(stacking=True)
# Rules that leave all that the rows of others show as it is, so that fewer are compiled; the slow part has each alone.
TOGETHER = {
    MAY: ALL,
    Rules(may_draw=True): ALL,
    Rules.official(points=False, start_effects="none"): ALL,
    OFFICIAL: ALL,
    Rules(stacking=True, may_draw=True): ALL,
    AUTO: RLCARD,
    STACKING: HOUSE,
    CHALLENGE: BOTH,
    Rules(**FEW): Rules(may_draw=True, **FEW),
}


class Row(NamedTuple):
    """From `start`, where these actions are legal, to `end` by actions."""

    rules: Rules
    start: str
    legal: str
    played: str
    end: str


WILDS = "W:R W:Y W:B W:G"
FOURS = "W+4:R W+4:Y W+4:B W+4:G"
ROWS = {
    "at will: a draw instead of a play": Row(
        Rules(may_draw=True),
        "R5,B1/G1/-/* R9 0 0 0 - *",
        "R5 draw",
        "draw(G7)",
        "R5,B1,G7/G1/-/* R9 1 0 1 draw *",
    ),
    "at will: not without a card to draw": Row(
        Rules(may_draw=True, **FEW), "R5,B1/G1,G2/-/0 R9 0 0 0 - *", "R5", "R5", "B1/G1,G2/R9/0 R5 1 0 1 R5 *"
    ),
    "at will: a penalty can't be refused": Row(
        MAY, "R5/G1/-/* R+2 0 2 0 - *", "draw", "draw(G7,R4)", "R5,G7,R4/G1/-/* R+2 1 0 1 draw *"
    ),
    "drawn card: the turn goes on": Row(MAY, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(R2)", "B1,R2/G1/-/* R9 0+R2 0 1 draw *"),
    "drawn card: and no other may be played": Row(
        MAY, "R5,R2/G1/-/* R9 0+R2 0 1 draw *", "R2 draw", "R2", "R5/G1/R9/* R2 1 0 2 R2 *"
    ),
    "drawn card: it may be kept": Row(MAY, "B1,R2/G1/-/* R9 0+R2 0 1 draw *", "R2 draw", "draw", "B1,R2/G1/-/* R9 1 0 2 draw *"),
    "drawn card: one that does not fit ends the turn": Row(
        MAY, "R5/G1/-/* R9 0 0 0 - *", "R5 draw", "draw(B2)", "R5,B2/G1/-/* R9 1 0 1 draw *"
    ),
    "drawn card: a wild takes any colour": Row(
        MAY, "B1,W/G1/-/* R9 0+W 0 1 draw *", f"{WILDS} draw", "W:B", "B1/G1/R9/* W:B 1 0 2 W:B *"
    ),
    "drawn card: a Skip keeps the turn, without a card drawn": Row(
        MAY, "B1,RS/G1/-/* R9 0+RS 0 1 draw *", "RS draw", "RS", "B1/G1/R9/* RS 0 0 2 RS *"
    ),
    "drawn card: the last card wins": Row(
        Rules.official(points=False, start_effects="none"),
        "R2/G1/-/* R9 0 0 0 - *",
        "R2 draw",
        "R2",
        "-/G1/R9/* R2 0 0 1 R2 0",
    ),
    "auto: a card of the colour is laid": Row(AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(R2)", "B1/G1/R9/* R2 1 0 1 draw *"),
    "auto: an equal rank is not enough": Row(AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(B9)", "B1,B9/G1/-/* R9 1 0 1 draw *"),
    "auto: a Wild with a colour of chance": Row(
        AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(W:B)", "B1/G1/R9/* W:B 1 0 1 draw *"
    ),
    "auto: a Wild+4 makes nobody draw": Row(
        AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(W+4:G)", "B1/G1/R9/* W+4:G 1 0 1 draw *"
    ),
    "auto: a +2 does": Row(AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(R+2)", "B1/G1/R9/* R+2 1 2 1 draw *"),
    "auto: a Skip keeps the turn": Row(AUTO, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(RS)", "B1/G1/R9/* RS 0 0 1 draw *"),
    "auto: a penalty is kept": Row(AUTO, "B1/G1/-/* R+2 0 2 0 - *", "draw", "draw(R1,R2)", "B1,R1,R2/G1/-/* R+2 1 0 1 draw *"),
    "until: the turn goes on with a card that does not fit": Row(
        UNTIL, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(B2) draw(G3)", "B1,B2,G3/G1/-/* R9 0+G3 0 2 draw *"
    ),
    "until: and ends with one that fits": Row(
        UNTIL, "B1,B2/G1/-/* R9 0+B2 0 1 draw *", "draw", "draw(R3)", "B1,B2,R3/G1/-/* R9 1 0 2 draw *"
    ),
    "until: penalties are drawn as ever": Row(
        UNTIL, "B1/G1/-/* R+2 0 2 0 - *", "draw", "draw(B2,B3)", "B1,B2,B3/G1/-/* R+2 1 0 1 draw *"
    ),
    "until and drawn card: drawn again": Row(
        HOUSE, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(B2) draw(R3)", "B1,B2,R3/G1/-/* R9 0+R3 0 2 draw *"
    ),
    "until and drawn card: played": Row(
        HOUSE, "B1,B2,R+2/G1/-/* R9 0+R+2 0 2 draw *", "R+2 draw", "R+2", "B1,B2/G1/R9/* R+2 1 2 3 R+2 *"
    ),
    "no colour: not beside a card of the colour": Row(
        NO_COLOR, "R1,W+4/G1/-/* R9 0 0 0 - *", "R1 draw", "R1", "W+4/G1/R9/* R1 1 0 1 R1 *"
    ),
    "no colour: beside an equal rank": Row(
        NO_COLOR, "B9,W+4/G1/-/* R9 0 0 0 - *", f"B9 {FOURS} draw", "W+4:Y", "B9/G1/R9/* W+4:Y 1 4 1 W+4:Y *"
    ),
    "no colour, at will, drawn card: a Wild+4 beside the colour is kept": Row(
        NO_COLOR, "R1/G1/-/* R9 0 0 0 - *", "R1 draw", "draw(W+4)", "R1,W+4/G1/-/* R9 1 0 1 draw *"
    ),
    "no colour, at will, drawn card: else the turn goes on": Row(
        NO_COLOR, "B9/G1/-/* R9 0 0 0 - *", "B9 draw", "draw(W+4)", "B9,W+4/G1/-/* R9 0+W+4 0 1 draw *"
    ),
    "no colour: a drawn card of the colour may be played": Row(
        NO_COLOR, "W+4/G1/-/* R9 0 0 0 - *", f"{FOURS} draw", "draw(R1)", "W+4,R1/G1/-/* R9 0+R1 0 1 draw *"
    ),
    "last: not beside an equal rank": Row(LAST, "B9,W+4/G1/-/* R9 0 0 0 - *", "B9", "B9", "W+4/G1/R9/* B9 1 0 1 B9 *"),
    "last: not beside a Wild": Row(LAST, "W,W+4/G1/-/* R9 0 0 0 - *", WILDS, "W:G", "W+4/G1/R9/* W:G 1 0 1 W:G *"),
    "last: beside what can't be played": Row(
        LAST, "B1,W+4/G1/-/* R9 0 0 0 - *", FOURS, "W+4:R", "B1/G1/R9/* W+4:R 1 4 1 W+4:R *"
    ),
    "last and drawn card: a Wild+4 drawn for want of a card": Row(
        LAST, "B1/G1/-/* R9 0 0 0 - *", "draw", "draw(W+4) W+4:B", "B1/G1/R9/* W+4:B 1 4 2 W+4:B *"
    ),
    "challenge: may be made": Row(
        CHALLENGE, "R1,W+4,B2/G1,G2/-/* R9 0 0 0 - *", f"R1 {FOURS}", "W+4:G", "R1,B2/G1,G2/R9/* W+4:G 1 4?R 1 W+4:G *"
    ),
    "challenge: guilty of a card of the colour": Row(
        CHALLENGE,
        "R1,B2/G1,G2/R9/* W+4:G 1 4?R 1 W+4:G *",
        "draw challenge",
        "challenge draw(Y1,Y2,Y3,Y4)",
        "R1,B2,Y1,Y2,Y3,Y4/G1,G2/R9/* W+4:G 1 0 3 draw *",
    ),
    "challenge: an equal rank is no guilt": Row(
        CHALLENGE,
        "B9/G1,G2/R9/* W+4:G 1 4?R 1 W+4:G *",
        "draw challenge",
        "challenge",
        "B9/G1,G2/R9/* W+4:G 1 6 2 challenge *",
    ),
    "challenge: six cards for the innocent's challenger": Row(
        CHALLENGE,
        "B9/G1,G2/R9/* W+4:G 1 6 2 challenge *",
        "draw",
        "draw(Y1,Y2,Y3,Y4,Y5,Y6)",
        "B9/G1,G2,Y1,Y2,Y3,Y4,Y5,Y6/R9/* W+4:G 0 0 3 draw *",
    ),
    "challenge: not taken up": Row(
        CHALLENGE,
        "R1/G1/R9/* W+4:G 1 4?R 1 W+4:G *",
        "draw challenge",
        "draw(Y1,Y2,Y3,Y4)",
        "R1/G1,Y1,Y2,Y3,Y4/R9/* W+4:G 0 0 2 draw *",
    ),
    "challenge: a last Wild+4 wins": Row(CHALLENGE, "W+4/G1/-/* R9 0 0 0 - *", FOURS, "W+4:G", "-/G1/R9/* W+4:G 0 0 1 W+4:G 0"),
    "challenge, drawn card: a Wild+4 that was drawn": Row(
        OFFICIAL,
        "R1,W+4/G1/-/* R9 0+W+4 0 1 draw *",
        f"{FOURS} draw",
        "W+4:B challenge",
        "R1/G1/R9/* W+4:B 0 4 3 challenge *",
    ),
    "stacking: a +2 must be answered": Row(
        STACKING, "R1/B+2,G1/R9/* R+2 1 2 1 R+2 *", "B+2", "B+2", "R1/G1/R9,R+2/* B+2 0 4 2 B+2 *"
    ),
    "stacking: penalties add up": Row(
        STACKING,
        "R1/G1/R9,R+2/* B+2 0 4 2 B+2 *",
        "draw",
        "draw(Y1,Y2,Y3,Y4)",
        "R1,Y1,Y2,Y3,Y4/G1/R9,R+2/* B+2 1 0 3 draw *",
    ),
    "stacking: a Wild+4 is no answer to a +2": Row(
        STACKING, "R1/W+4,G1/R9/* R+2 1 2 1 R+2 *", "draw", "draw(Y1,Y2)", "R1/W+4,G1,Y1,Y2/R9/* R+2 0 0 2 draw *"
    ),
    "stacking: nor a +2 to a Wild+4": Row(
        STACKING,
        "R1/G+2,G1/R9/* W+4:G 1 4 1 W+4:G *",
        "draw",
        "draw(Y1,Y2,Y3,Y4)",
        "R1/G+2,G1,Y1,Y2,Y3,Y4/R9/* W+4:G 0 0 2 draw *",
    ),
    "stacking: a Wild+4 on a Wild+4": Row(
        STACKING, "R1/W+4,G1/R9/* W+4:G 1 4 1 W+4:G *", FOURS, "W+4:B", "R1/G1/R9,W+4/* W+4:B 0 8 2 W+4:B *"
    ),
    "stacking: a last +2 wins": Row(STACKING, "R1,Y5/B+2/R9/* R+2 1 2 1 R+2 *", "B+2", "B+2", "R1,Y5/-/R9,R+2/* B+2 1 0 2 B+2 1"),
    "stacking at will: an answer or the penalty": Row(
        Rules(stacking=True, may_draw=True),
        "R1/B+2,G1/R9/* R+2 1 2 1 R+2 *",
        "B+2 draw",
        "draw(Y1,Y2)",
        "R1/B+2,G1,Y1,Y2/R9/* R+2 0 0 2 draw *",
    ),
    "stacking, drawn card: penalties go past it": Row(
        HOUSE, "R1/G1/R9/* R+2 1 2 1 R+2 *", "draw", "draw(R3,B+2)", "R1/G1,R3,B+2/R9/* R+2 0 0 2 draw *"
    ),
    "stacking, no colour: no answer beside the colour": Row(
        STACKING_NO_COLOR,
        "R1/W+4,G1/R9/* W+4:G 1 4 1 W+4:G *",
        "draw",
        "draw(Y1,Y2,Y3,Y4)",
        "R1/W+4,G1,Y1,Y2,Y3,Y4/R9/* W+4:G 0 0 2 draw *",
    ),
    "stacking, no colour: an answer without": Row(
        STACKING_NO_COLOR, "R1/W+4,B1/R9/* W+4:G 1 4 1 W+4:G *", FOURS, "W+4:R", "R1/B1/R9,W+4/* W+4:R 0 8 2 W+4:R *"
    ),
    "stacking, challenge: an answer, a draw or a challenge": Row(
        BOTH,
        "R1/W+4,G1/R9/* W+4:G 1 4?R 1 W+4:G *",
        f"{FOURS} draw challenge",
        "W+4:B",
        "R1/G1/R9,W+4/* W+4:B 0 8?G 2 W+4:B *",
    ),
    "stacking, challenge: the guilty draws all of it": Row(
        BOTH, "R1/G1/R9,W+4/* W+4:B 0 8?G 2 W+4:B *", "draw challenge", "challenge", "R1/G1/R9,W+4/* W+4:B 1 8 3 challenge *"
    ),
    "stacking, challenge: no answer after it": Row(
        BOTH,
        "W+4,B2/G1,W+4/R9/* W+4:G 1 6 2 challenge *",
        "draw",
        "draw(Y1,Y2,Y3,Y4,Y5,Y6)",
        "W+4,B2/G1,W+4,Y1,Y2,Y3,Y4,Y5,Y6/R9/* W+4:G 0 0 3 draw *",
    ),
    "Reverse passes and Skip does not": Row(
        RLCARD, "RR,RS,R1/G1/-/* R9 0 0 0 - *", "RR RS R1", "RS RR", "R1/G1/R9,RS/* RR 1 0 2 RR *"
    ),
    "the top card goes back as well": Row(
        Rules(reshuffle_top=True, **FEW), "B1/G1,G2/R5/0 R9 0 0 0 - *", "draw", "draw(R9)", "B1,R9/G1,G2/-/1 ~R9 1 0 1 draw *"
    ),
    "else it stays": Row(Rules(**FEW), "B1/G1,G2/R5/0 R9 0 0 0 - *", "draw", "draw(R5)", "B1,R5/G1,G2/-/0 R9 1 0 1 draw *"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_crafted_position(name: str):
    check(ROWS[name], TOGETHER.get(ROWS[name].rules, ROWS[name].rules))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.rules in TOGETHER])
def test_a_crafted_position_under_its_rule_alone(name: str):
    check(ROWS[name], ROWS[name].rules)


def check(row: Row, rules: Rules) -> None:
    start = parse_position(row.start, rules=rules)
    assert legal(start) == actions(row.legal)
    end = replay(start, row.played, jax.random.key(0)).end
    assert format_position(end) == format_position(parse_position(row.end, rules=rules))
    assert not end.error


def test_a_round_is_worth_the_cards_left():
    start = parse_position("R1/G+2,W,B9,Y0/-/* R9 0 0 0 - *", rules=ALL)
    end = replay(start, "R1", jax.random.key(0)).end
    np.testing.assert_allclose(end.rewards, np.array([1, -1]) * (20 + 50 + 9) / 500)
