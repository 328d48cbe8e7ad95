"""Cards, actions and whole positions as text. Host only: strings and NumPy arrays, and `ValueError` for unreadable text.

Cards are written `R5`, `YS` (skip), `BR` (reverse), `G+2`, `W`, `W+4`. An action is written as the card played, for `W` and
`W+4` with the declared colour (`W:R`, `W+4:B`), or `draw` or `challenge`. Reading ignores case.

A position is one line of seven fields, in the spirit of chess's FEN:

    position = places " " top " " player " " penalty " " steps " " last " " result
    places   = cards "/" cards "/" cards "/" deck    hands, pile under its top card, deck
    cards    = card { "," card } | "-"               sorted by type; "-" is the empty set
    deck     = number | "*"                          size: all cards that are not elsewhere
    top      = [ "~" ] action that is a card         a wild with the active colour; "~": the card itself is in the deck
    player   = ( "0" | "1" ) [ "+" card ]            player to move next, and its drawn card in an unfinished turn; at the end,
                                                     the last player to move
    penalty  = number [ "?" letter ]                 cards that the player must draw, and the colour before a Wild+4 that may
                                                     be challenged
    steps    = number                                steps so far
    last     = action | "-"                          the last legal action; "-" at the start
    result   = "*" | "0" | "1" | "=" | "T"           unfinished, winner, drawn, truncated

For example, two cards against three, and player 1 must draw two for the red +2:

    B7,W/Y0,G4,W+4/R5,Y5/100 R+2 1 2 2 R+2 *

The rules and the other places determine the deck, so only its size is written. A wrong size reveals rules that do not
match; `*` is for lines written by hand. Every field of a `State` is restored from its line except `rewards` and `error`,
which describe earlier transitions and are restored as 0.

One player's view of an unfinished game has the same form (`parse_observation`), with the number of cards instead of the
other hand:

    B7,W/3/R5,Y5/100 R+2 1 2 2 R+2 *

A card that the other player has drawn in its own unfinished turn is `?`: `1+?`.
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
    # Imported on first use: the rules in words need no JAX.
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
