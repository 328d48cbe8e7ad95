"""`unojax advise`: what to play in a position, from what the player to move can know."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from unojax.cli.options import CountOrNone, Flag, JsonTarget, RuleOptions, Seed

if TYPE_CHECKING:
    from jax import Array
    from rich.console import RenderableType
    from rich.status import Status

    from unojax.cli.advise.history import Path
    from unojax.cli.advise.search import Advice, Belief
    from unojax.rules import Rules
    from unojax.search.agents import SearchAgent

DEFAULT_ROUNDS: Final = 32
MIN_ROUNDS: Final = 4
"""Standard errors come from the differences between the rounds of a search."""

_MAX_BARS: Final = 54
_COMPILING: Final = "compiling; faster next time if JAX_COMPILATION_CACHE_DIR names a folder"


@dataclass(frozen=True)
class Advise:
    """Say what to play in a position, and how likely each play is to win."""

    position: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(
            metavar="POSITION",
            help="What the player to move sees: unojax.format_position's line with the number of the other player's cards in "
            "place of that hand, 'B7,R2,W/3/Y5/* R5 0 0 0 - *', or the lines of unojax.format_observation. Of a line with both "
            "hands the other one is not looked at.",
        ),
    ]
    history: Annotated[
        str,
        tyro.conf.arg(
            metavar="ACTIONS",
            help="What was played since POSITION, separated by blanks: R5, YS, W:B (wild, colour), draw(R5,W) for cards that the "
            "player drew and draw for a draw of the other. The advice is for the position after it, and what the other player "
            "did tells about the hidden hand.",
        ),
    ] = ""
    player: Annotated[
        Literal[0, 1] | None,
        tyro.conf.arg(help="Who is advised, where POSITION has both hands. By default the player to move in the end."),
    ] = None
    agent: Annotated[
        str,
        tyro.conf.arg(
            metavar="SPEC",
            help="The search: mc or tree, with parameters as in mc:rollouts=4000,policy=guard,belief=unseen,model=uniform.",
        ),
    ] = "mc:particles=4096"
    rounds: Annotated[
        CountOrNone,
        tyro.conf.arg(help=f"Repeat the search N times with fresh samples and pool them. By default {DEFAULT_ROUNDS}."),
    ] = None
    seconds: Annotated[
        float | None, tyro.conf.arg(metavar="S", help="Repeat the search for so long instead, compiling not counted.")
    ] = None
    seed: Annotated[Seed, tyro.conf.arg(help="The same seed and rounds give the same advice on the same device.")] = 0
    top: Annotated[int, tyro.conf.arg(metavar="K", help="Show the K cards that the other player most likely holds.")] = 12
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No status line on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Search and report."""
        self._check()
        rules = self.rules.build()
        import jax
        from rich.status import Status

        from unojax.cli import output
        from unojax.cli.advise.command import history as advise_history
        from unojax.cli.advise.command import search as advise_search

        agent = advise_search.read_agent(self.agent, rules)
        output.check_json_target(self.json)
        about = output.machine()
        path = advise_history.read_path(self.position, self.history, self.player, rules)
        keys = jax.random.split(jax.random.key(self.seed, impl="threefry2x32"), 3)
        status = Status(_COMPILING, console=output.error_console())
        try:
            if output.shows_progress(quiet=self.quiet):
                status.start()
            memory = advise_search.believe(
                path, agent, keys[0], lambda number: status.update(f"belief: action {number} of {len(path.actions)}")
            )
            belief = advise_search.look(memory, path.end, agent, keys[1])
            advice = self._search(memory, path, agent, keys[2], status)
        finally:
            status.stop()
        if self.json != output.STDOUT:
            output.show(*self._parts(path, belief, advice, agent, rules))
        if self.json is not None:
            output.write_json(self.json, self._record(path, belief, advice, agent, rules) | about)
        return 0

    def _check(self) -> None:
        if self.rounds is not None and self.seconds is not None:
            raise ValueError("give --rounds or --seconds, not both")
        if self.rounds is not None and self.rounds < MIN_ROUNDS:
            raise ValueError(f"--rounds must be at least {MIN_ROUNDS}, from which standard errors come, got {self.rounds}")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"--seconds must be a positive number, got {self.seconds}")
        if not 0 <= self.top <= _MAX_BARS:
            raise ValueError(f"--top must be in [0, {_MAX_BARS}], got {self.top}")

    def _search(self, memory: Any, path: Path, agent: SearchAgent, key: Array, status: Status) -> Advice | None:
        """None if there is nothing to play."""
        import numpy as np

        from unojax import cards
        from unojax.cli.advise.command import search as advise_search

        legal = np.asarray(path.end.legal_mask)[: cards.DRAW]
        if not legal.any():
            return None
        num_rounds = None if self.seconds is not None else self.rounds or DEFAULT_ROUNDS
        status.update(_COMPILING)
        goal = "" if num_rounds is None else f" of {num_rounds}"
        return advise_search.search(
            memory,
            path.end,
            legal,
            agent,
            key,
            num_rounds=num_rounds,
            seconds=self.seconds or 0.0,
            on_round=lambda number: status.update(f"search: round {number + 1}{goal}"),
        )

    def _parts(self, path: Path, belief: Belief, advice: Advice | None, agent: SearchAgent, rules: Rules) -> list[RenderableType]:
        from rich.text import Text

        from unojax.cli import output
        from unojax.cli.advise.command import view as advise_view

        main = (
            Text(advise_view.forced_draw(path.end) + "\n", style="bold") if advice is None else advise_view.plays(advice, agent)
        )
        facts = self._facts(path, belief, advice, agent) | {"Rules": output.rules_text(rules)}
        return [advise_view.position(path.end), advise_view.belief(belief, path.end, self.top), main, output.facts(facts)]

    def _facts(self, path: Path, belief: Belief, advice: Advice | None, agent: SearchAgent) -> dict[str, str]:
        from unojax.cli import output
        from unojax.cli.advise.command import history as advise_history

        other = 1 - int(path.end.player)
        if agent.belief != "particles":
            what = "any of the cards not seen, all hands alike"
        elif path.actions:
            what = f"from {output.count(len(path.actions), 'action')}, player {other} taken for {agent.model}"
        else:
            what = "from this position alone, any cards not seen; --history would sharpen it"
        facts = {"Belief": f"{what}; {belief.num_hands:,} hands, ESS {belief.ess:,.0f}"}
        if not advise_history.has_hidden_hand(self.position):
            facts["Hidden"] = f"the hand of player {other} was given and not looked at"
        if advice is not None:
            facts["Search"] = (
                f"{self.agent}, both players going on by the policy {agent.policy}; {advice.rounds} rounds in "
                f"{advice.seconds:.2f} s, seed {self.seed}"
            )
        return facts

    def _record(self, path: Path, belief: Belief, advice: Advice | None, agent: SearchAgent, rules: Rules) -> dict[str, Any]:
        import numpy as np

        from unojax import cards
        from unojax.cli import output
        from unojax.text import format_action, format_observation

        seen = path.end
        types = np.flatnonzero(seen.rules.deck).tolist()
        record: dict[str, Any] = {
            "command": "advise",
            "seed": self.seed,
            "player": int(seen.player),
            "agent": self.agent,
            "rules": output.rules_json(rules),
            "start": format_observation(path.observations[0]),
            "history": path.notation,
            "observation": format_observation(seen),
            "belief": {
                "prob_holds": {cards.TYPE_NAMES[t]: float(belief.prob_holds[t]) for t in types},
                "prob_color": dict(zip(cards.COLOR_NAMES, belief.prob_color.tolist(), strict=True)),
                "num_distinct": belief.num_distinct,
                "ess": belief.ess,
                "num_hands": belief.num_hands,
            },
            "forced": advice is None or len(advice.plays) == 1,
        }
        if advice is None:
            return record | {
                "recommended": format_action(cards.DRAW),
                "policy_play": None,
                "plays": [],
                "rounds": 0,
                "seconds": 0.0,
            }
        return record | {
            "recommended": format_action(advice.recommended),
            "policy_play": format_action(advice.own),
            "plays": [play._asdict() | {"action": format_action(play.action)} for play in advice.plays],
            "rounds": advice.rounds,
            "seconds": advice.seconds,
        }
