"""Cards, actions and whole positions as text. Host only: strings and NumPy arrays, and `ValueError` for what can't be read.

Cards are written `R5`, `YS` (skip), `BR` (reverse), `G+2`, `W`, `W+4`. An action is written as the card played, for `W` and
`W+4` with the declared colour (`W:R`, `W+4:B`), or `draw` or `challenge`. Reading ignores case.

A position is one line of seven fields, in the spirit of chess's FEN:

    position = places " " top " " player " " penalty " " steps " " last " " result
    places   = cards "/" cards "/" cards "/" deck    hands, pile under its top card, deck
    cards    = card { "," card } | "-"               sorted by type; "-" is the empty set
    deck     = number | "*"                          how many: all that the others leave
    top      = [ "~" ] action that is a card         a wild with the active colour; "~": the card itself is in the deck
    player   = ( "0" | "1" ) [ "+" card ]            who moves next, and what it has drawn in a turn that goes on; at the end,
                                                     who moved last
    penalty  = number [ "?" letter ]                 cards that the player must draw, and the colour before a Wild+4 that may
                                                     be challenged
    steps    = number                                steps so far
    last     = action | "-"                          the last legal action; "-" at the start
    result   = "*" | "0" | "1" | "=" | "T"           unfinished, winner, drawn, truncated

For example, two cards against three, and player 1 must draw two for the red +2:

    B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *

The deck is no more than its size because the rules and the other places tell what is in it; the size then shows rules that don't
fit, and `*` is for lines written by hand. Every field of a `State` comes back from its line except `rewards` and `error`, which
describe the transitions before and come back as 0.

What one player sees of an unfinished game is written in the same way (`parse_observation`), the other hand as the number of its
cards:

    B7,W/3/R5,Y5/100 R+2 1 2 2 R+2 *

A card that the other player has drawn in a turn of its own that is open is `?`: `1+?`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from unojax.text.describing import describe
    from unojax.text.notation import format_action, format_cards, parse_action, parse_cards
    from unojax.text.observation import format_observation, format_view, make_observation, parse_observation
    from unojax.text.position import format_position, make_state, parse_position

_HOMES: Final = {
    "describing": ("describe",),
    "notation": ("format_action", "format_cards", "parse_action", "parse_cards"),
    "observation": ("format_observation", "format_view", "make_observation", "parse_observation"),
    "position": ("format_position", "make_state", "parse_position"),
}

__all__ = ["describe", "format_action", "format_cards", "format_observation", "format_position", "make_observation", "make_state"]
__all__ += ["format_view", "parse_action", "parse_cards", "parse_observation", "parse_position"]


def __getattr__(name: str) -> Any:
    # Imported when first used: the rules in words need no JAX.
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
