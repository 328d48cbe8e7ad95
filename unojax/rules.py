"""The rules of the game and their variants.

`Rules()` is the default game: forced play, no stacking, no challenge. Its fields and presets change one thing each. `unojax
rules` prints any rules in words.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from numbers import Real
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import numpy as np

from unojax import cards, decks
from unojax.decks import is_int

RULES_VERSION: Final = 1
"""Version of the mapping from keys and actions to games; speed-ups never change it. Stored in records and checkpoints."""

StartCard = Literal["non_wild", "any", "not_draw_four"]
FirstPlayer = Literal["zero", "random"]
PlayDrawn = Literal["no", "may", "auto"]
WildDrawFour = Literal["any", "no_color", "last", "challenge"]
StartEffects = Literal["none", "forfeit", "keep_turn"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Options of the game. Frozen and hashable, hence static under `jit`.

    Attributes:
        skip_forfeits: Skip and Reverse let the same player move again. False: they only pass the turn.
        start_card: Card that may be turned up at the start. "non_wild": a Wild or Wild+4 goes back and another card is turned
            up. "any": it stays, and the active colour is random. "not_draw_four": a Wild stays, a Wild+4 goes back.
        hand_size: Number of cards dealt to each player.
        deck: Copies of each of the 54 card types, or text for `unojax.parse_deck`: full, numbers (0-9 alone), FILE.json (a list
            of copies), or the parts that differ from the full deck, colors=2,ranks=0-5+S,copies=1,wilds=1.
        first_player: Player who moves first: "zero", player 0; "random", either one.
        max_steps: Steps after which the game is truncated, without a winner. None: never.
        step_penalty: Amount subtracted from both rewards at each step that does not end the game.
        may_draw: Players may draw, or accept a penalty, although they could play or answer.
        play_drawn: Effect of drawing a card. "no": the turn passes. "may": if the drawn card is playable, its player plays it or
            passes (action 60). "auto": a drawn wild card or card of the active colour is laid at once, a wild with a random
            colour, and takes effect unless it is a Wild+4.
        draw_until_playable: Players draw, one card a step, until a card is playable ("auto": laid). Penalties are unaffected.
        wild_draw_four: Condition for playing a Wild+4. "any": none. "no_color": no card of the active colour in hand. "last":
            no other playable card. "challenge": none, but the next player may challenge it (action 61) before drawing. If its
            player held the colour then active, that player draws the penalty and the challenger moves. Otherwise the
            challenger draws two more cards. The hand stays hidden.
        stacking: A pending +2 may be answered with a +2, and a Wild+4 with a playable Wild+4. Penalties add up until a player
            draws them all. No answer is possible after a challenge.
        start_effects: Effect of an action card turned up at the start. "none": no effect. "forfeit": a Skip or Reverse lets the
            other player begin; a +2 or Wild+4 is a penalty of the first player. "keep_turn": the same, but the first player
            has already drawn the penalty and moves.
        reverse_passes: Reverse only passes the turn; Skip forfeits it.
        reshuffle_top: The top card also goes back into the deck; its colour and rank stay active.
        points: The winner's reward is the loser's hand in points (`unojax.rules.POINTS`), divided by 500; the loser's is its
            negative.

    Raises:
        ValueError: If a field is out of its range.
    """

    skip_forfeits: bool = True
    start_card: StartCard = "non_wild"
    hand_size: int = 7
    deck: tuple[int, ...] = decks.FULL
    first_player: FirstPlayer = "zero"
    max_steps: int | None = None
    step_penalty: float = 0.0
    may_draw: bool = False
    play_drawn: PlayDrawn = "no"
    draw_until_playable: bool = False
    wild_draw_four: WildDrawFour = "any"
    stacking: bool = False
    start_effects: StartEffects = "none"
    reverse_passes: bool = False
    reshuffle_top: bool = False
    points: bool = False

    def __repr__(self) -> str:
        """Show the fields that differ from the defaults."""
        changed = ((each.name, getattr(self, each.name), each.default) for each in fields(self))
        return f"Rules({', '.join(f'{name}={value!r}' for name, value, default in changed if value != default)})"

    @classmethod
    def official(cls, **changes: Any) -> Rules:
        """Return the official rules for two players, with `changes` of fields.

        Omitted: calling UNO, a Wild as start card, showing a challenged hand, and the loser's draw for a last +2 or Wild+4.
        """
        own: dict[str, Any] = {
            "may_draw": True,
            "play_drawn": "may",
            "wild_draw_four": "challenge",
            "start_effects": "forfeit",
            "points": True,
        }
        return cls(**own | changes)

    @classmethod
    def house(cls, **changes: Any) -> Rules:
        """Return common house rules, with `changes`: stacking, and repeated draws."""
        own: dict[str, Any] = {"stacking": True, "draw_until_playable": True, "play_drawn": "may", "start_effects": "forfeit"}
        return cls(**own | changes)

    @classmethod
    def rlcard(cls, **changes: Any) -> Rules:
        """Return the rules of RLCard 1.2.0, with `changes` of fields."""
        own: dict[str, Any] = {
            "play_drawn": "auto",
            "wild_draw_four": "last",
            "start_effects": "keep_turn",
            "start_card": "not_draw_four",
            "reverse_passes": True,
            "reshuffle_top": True,
        }
        return cls(**own | changes)

    def __post_init__(self) -> None:
        deck = decks.parse_deck(self.deck) if isinstance(self.deck, str) else self.deck
        object.__setattr__(self, "deck", decks.check_copies(deck))
        for name, kind in field_types().items():
            value = getattr(self, name)
            if kind is bool and not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, got {value!r}")
            if get_origin(kind) is Literal and value not in get_args(kind):
                raise ValueError(f"{name} must be one of {get_args(kind)}, got {value!r}")
        check_max_steps(self.max_steps)
        is_number = isinstance(self.step_penalty, Real) and not isinstance(self.step_penalty, bool)
        if not (is_number and abs(self.step_penalty) <= float(np.finfo(np.float32).max)):
            raise ValueError(f"step_penalty must be a finite number of single precision, got {self.step_penalty!r}")
        object.__setattr__(self, "step_penalty", float(self.step_penalty))
        # After any deal, a valid start card must be left.
        first_back, what = {
            "non_wild": (cards.WILD_TYPE, "coloured cards"),
            "not_draw_four": (cards.WILD_DRAW_FOUR_TYPE, "cards other than Wild+4"),
            "any": (cards.NUM_TYPES, "cards"),
        }[self.start_card]
        usable = sum(self.deck[:first_back])
        largest = (usable - 1) // 2
        if not (is_int(self.hand_size) and 1 <= self.hand_size <= largest):
            if largest < 1:
                raise ValueError(
                    f"deck: {usable} {what} are too few for start_card={self.start_card!r}; two hands and the start card need at "
                    "least 3"
                )
            raise ValueError(
                f"hand_size must be an integer in [1, {largest}] for a deck with {usable} {what} and "
                f"start_card={self.start_card!r} (two hands and the start card), got {self.hand_size!r}"
            )
        # Convert NumPy integers to Python's, which JSON can hold.
        object.__setattr__(self, "hand_size", int(self.hand_size))
        object.__setattr__(self, "max_steps", None if self.max_steps is None else int(self.max_steps))

    @property
    def num_cards(self) -> int:
        """Number of cards in the game."""
        return sum(self.deck)

    @property
    def num_actions(self) -> int:
        """Number of actions: 61, or 62 with challenges."""
        return cards.NUM_ACTIONS + (self.wild_draw_four == "challenge")

    @property
    def num_choices(self) -> int:
        """Number of leading actions that can be a choice: 60 plays, and the others if optional."""
        return self.num_actions if self.draw_is_option else cards.DRAW

    @property
    def most_choices(self) -> int:
        """Largest number of choices that can be legal at once."""
        plays = sum(cards.NUM_COLORS if t >= cards.WILD_TYPE else 1 for t, copies in enumerate(self.deck) if copies)
        return plays + self.num_choices - cards.DRAW

    @property
    def max_draw(self) -> int:
        """Largest number of cards drawn at once."""
        largest = 4
        if self.stacking:
            twos = sum(self.deck[cards.DRAW_TWO : cards.WILD_TYPE : cards.NUM_COLORED_RANKS])
            largest = max(largest, 2 * twos, 4 * self.deck[cards.WILD_DRAW_FOUR_TYPE])
        return largest + 2 * (self.wild_draw_four == "challenge")

    @property
    def keeps_account(self) -> bool:
        """Whether a turn can depend on more than the top card and its penalty."""
        return (
            self.play_drawn == "may"
            or self.draw_until_playable
            or self.stacking
            or self.wild_draw_four == "challenge"
            or self.start_effects == "keep_turn"
        )

    @property
    def draw_is_option(self) -> bool:
        """Whether drawing or passing (action 60) can be one of several legal actions."""
        return self.may_draw or self.play_drawn == "may" or self.wild_draw_four == "challenge"

    @property
    def draw_decides_turn(self) -> bool:
        """Whether the card that a player draws and keeps, without a penalty, decides if its turn continues."""
        return self.play_drawn != "auto" and (self.play_drawn == "may") != self.draw_until_playable

    @property
    def has_plain_turns(self) -> bool:
        """Whether every matching card is playable, except on a penalty, as by default."""
        return not (self.draw_is_option or self.keeps_account or self.wild_draw_four != "any" or self.unknown)

    @property
    def unknown(self) -> list[str]:
        """Changed fields that some modules do not support (not in `KNOWN`)."""
        return [name for name in self.changes if name not in KNOWN]

    @property
    def changes(self) -> dict[str, Any]:
        """Fields that differ from the default rules, with their values."""
        names, plain = [field.name for field in fields(Rules)], Rules()
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}

    @property
    def has_plain_steps(self) -> bool:
        """Whether turns, draws and reshuffles follow the default rules."""
        return self.has_plain_turns and self.play_drawn == "no" and not self.reshuffle_top

    def turns_unlike(self, other: Rules) -> dict[str, Any]:
        """Return the fields in `TURNS` that differ from other rules, with their values."""
        return {name: getattr(self, name) for name in TURNS if getattr(self, name) != getattr(other, name)}

    @property
    def tells_of_hands(self) -> bool:
        """Whether a step can reveal that a hand holds one of several cards, or none of them."""
        looks = self.play_drawn == "may" or self.draw_until_playable or self.stacking
        return self.wild_draw_four == "challenge" or (self.draw_four_depends_on_hand and looks)

    @property
    def draw_four_depends_on_hand(self) -> bool:
        """Whether other cards in the hand decide if a Wild+4 is playable."""
        return self.wild_draw_four in ("no_color", "last")

    @property
    def name(self) -> str | None:
        """Name of the preset equal to these rules, or None."""
        return next((name for name, preset in PRESETS.items() if preset == self), None)


@cache
def field_types() -> dict[str, Any]:
    """Return the type of each field of `Rules`."""
    return get_type_hints(Rules)


TURNS: Final = (
    "skip_forfeits",
    "may_draw",
    "play_drawn",
    "draw_until_playable",
    "wild_draw_four",
    "stacking",
    "reverse_passes",
)
"""Fields that define the actions of a turn and their consequences. A network plays by the turns it was trained for."""
KNOWN: Final = frozenset(
    "skip_forfeits start_card hand_size deck first_player max_steps step_penalty may_draw play_drawn draw_until_playable "
    "wild_draw_four stacking start_effects reverse_passes reshuffle_top points".split()
)
"""Fields that all dependent modules support. Rules that change another field count as neither plain nor supported by
networks, closed forms and the solver, which reject them. Before a field is added here, check `Rules.has_plain_turns` and
`has_plain_steps`, `check_plain`, `value.network.check_network`, `table.options` and `viz.words.why_not`.
"""


POINTS: Final = tuple(50 if t >= cards.WILD_TYPE else t % 13 if t % 13 < cards.SKIP else 20 for t in range(cards.NUM_TYPES))
"""Points of each of the 54 types in a loser's hand: 0-9 face value, Skip, Reverse and +2 20, Wild and Wild+4 50."""
MATCH_POINTS: Final = 500
"""Points that win a match of several rounds."""


def agreed_rules(carried: Rules, given: Rules | None) -> Rules:
    """Return `carried`, the rules of a state, observation or belief.

    Raises:
        ValueError: If `given`, an argument `rules`, is not None and differs.
    """
    if given is not None:
        check_same_rules(carried, given, "the game carries its rules, so leave `rules` out")
    return carried


def check_same_rules(rules: Rules, others: Rules, fix: str = "pass states, observations and beliefs of one game") -> None:
    """Check that the rules of two arguments are equal; `fix` ends the message.

    Raises:
        ValueError: If they differ.
    """
    if others == rules:
        return
    names = [field.name for field in fields(Rules) if getattr(others, field.name) != getattr(rules, field.name)]
    told = ", ".join(
        f"deck of {sum(others.deck)} cards instead of {sum(rules.deck)}"
        + ("" if sum(others.deck) != sum(rules.deck) else ", of other types")
        if name == "deck"
        else f"{name}={getattr(others, name)!r} instead of {getattr(rules, name)!r}"
        for name in names
    )
    raise ValueError(f"rules differ from those that the game began with: {told}; {fix}")


def check_rules_of_agent(rules: Rules, of_agent: Rules) -> None:
    """Check that an agent was made for the rules of a game.

    Raises:
        ValueError: If it was made for others.
    """
    check_same_rules(rules, of_agent, "make the agent for the rules of its games, as in unojax.parse_agent(spec, rules=rules)")


def check_plain(rules: Rules, what: str) -> None:
    """Check that turns and draws follow the default rules, as `what` requires.

    Raises:
        ValueError: If they do not.
    """
    names = ("may_draw", "play_drawn", "draw_until_playable", "wild_draw_four", "stacking", "reshuffle_top")
    others = [name for name in rules.changes if name in names or name not in KNOWN]
    others += ["start_effects"] * (rules.start_effects == "keep_turn") + ["start_card"] * (rules.start_card == "not_draw_four")
    if others:
        told = ", ".join(f"{name}={getattr(rules, name)!r}" for name in others)
        raise ValueError(f"{what} can't follow rules with {told}")


def check_max_steps(max_steps: object) -> None:
    """Check a limit on the steps of a game.

    Raises:
        ValueError: If it is neither None nor an integer in [1, 2^31 - 1].
    """
    if max_steps is not None and not (is_int(max_steps) and 1 <= max_steps < 2**31):
        raise ValueError(f"max_steps must be None or an integer in [1, {2**31 - 1}], got {max_steps!r}")


PRESETS: Final = {"default": Rules(), "official": Rules.official(), "house": Rules.house(), "rlcard": Rules.rlcard()}
"""Named rules."""


def as_rules(rules: Rules | str) -> Rules:
    """Return rules unchanged, or parse text: a preset's name, then fields that differ from it.

        as_rules("official,hand_size=5,max_steps=200")

    Values are numbers, words, true, false or none, the last three in any case. A deck comes last, because its text may contain
    commas.

    Raises:
        ValueError: If the name, a field or a value is invalid.
    """
    if isinstance(rules, Rules):
        return rules
    if not isinstance(rules, str) or rules.partition(",")[0] not in PRESETS:
        raise ValueError(
            f"rules must be a unojax.Rules or one of {', '.join(PRESETS)}, got {rules!r}; other fields follow a name "
            "after commas: official,hand_size=5"
        )
    name, _, rest = rules.partition(",")
    values: dict[str, Any] = {}
    while rest:
        field, equals, value = rest.partition("=")
        if field not in field_types() or field in values or not equals:
            fault = "given twice" if field in values else "no field=value" if not equals else "no field of the rules"
            raise ValueError(f"rules {rules!r}: {field!r} is {fault}; fields are {', '.join(field_types())}")
        if field == "deck":
            rest = ""
        else:
            value, _, rest = value.partition(",")
        values[field] = _read_value(field, value)
    try:
        return replace(PRESETS[name], **values)
    except ValueError as error:
        raise ValueError(f"rules {rules!r}: {error}") from None


def _read_value(field: str, text: str) -> Any:
    """Read the value of a field. `Rules` rejects invalid text."""
    kind = field_types()[field]
    kinds = get_args(kind) or (kind,)
    if text.lower() == "none" and type(None) in kinds:
        return None
    if bool in kinds:
        return {"true": True, "false": False}.get(text.lower(), text)
    for number in (int, float):
        if number in kinds:
            with suppress(ValueError):
                return number(text)
    return text
