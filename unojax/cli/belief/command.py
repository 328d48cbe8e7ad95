"""`unojax belief`: what one player can know of the other's hand, turn by turn through one game."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import tyro

from unojax.cli.options import (
    POLICY_NAMES,
    Count,
    CountOrNone,
    Flag,
    JsonTarget,
    RuleOptions,
    Seed,
    check_policy_names,
    get_policies,
)

if TYPE_CHECKING:
    from jax import Array
    from rich.status import Status

    from unojax.cli.belief.turns import Summary, Turn
    from unojax.games.replay import Replay
    from unojax.rules import Rules

DEFAULT_TREMBLE: Final = 0.05
"""Of a policy named without one. With none at all, one deviation would rule out the truth."""

_MAX_PARTICLES: Final = 2**20


@dataclass(frozen=True)
class ShowBelief:
    """Show what one player can know of the other's hand, turn by turn through a game."""

    seed: Annotated[Seed, tyro.conf.arg(help="The same seed gives the same game, and on the same device the same belief.")] = 0
    policies: Annotated[
        tuple[str, str],
        tyro.conf.arg(metavar="A B", help=f"Who plays as player 0 and as player 1, two of: {', '.join(POLICY_NAMES)}."),
    ] = ("uniform", "uniform")
    player: Annotated[Literal[0, 1], tyro.conf.arg(help="The player whose knowledge is shown.")] = 0
    particles: Annotated[Count, tyro.conf.arg(help="Hypothetical hands that the belief is made of.")] = 1024
    opponent_model: Annotated[
        str,
        tyro.conf.arg(
            metavar="MODEL",
            help="How the other player is thought to choose. uniform: any legal action. consistent: nothing is concluded from a "
            "play but that the card was held. Or a policy with the probability that it acts at random instead, as in "
            f"guard+{DEFAULT_TREMBLE}, which is also meant by guard.",
        ),
    ] = "uniform"
    start: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="POSITION",
            help="Begin here instead of with a deal; needs --actions. Written as unojax.format_position does: "
            "'B7,W/Y0,G4,W+4/R5,Y5/* R+2 1 2 0 - *'.",
        ),
    ] = None
    actions: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="ACTIONS",
            help="What is played from --start, separated by blanks: R5, YS, G+2, W:B (wild, colour), W+4:R, draw. The cards of a "
            "draw, of either player, can be named, as in draw(R5,W); else they are random.",
        ),
    ] = None
    steps: Annotated[CountOrNone, tyro.conf.arg(help="Stop after N turns. A turn is one action: a play or a whole draw.")] = None
    turn: Annotated[
        int | None,
        tyro.conf.arg(metavar="K", help="Show turn K alone and in full. Before the first turn of a game it is turn 0."),
    ] = None
    hide_truth: Annotated[Flag, tyro.conf.arg(help="Leave the other player's real hand out.")] = False
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No status line on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        """Follow the game and report."""
        check_policy_names(self.policies)
        model_name = read_model(self.opponent_model)
        if (self.start is None) != (self.actions is None):
            raise ValueError("--start and --actions need each other: a position, and what is played from it")
        if self.particles > _MAX_PARTICLES:
            raise ValueError(f"--particles must be at most {_MAX_PARTICLES}, got {self.particles}")
        rules = self.rules.build()
        import jax
        from rich.status import Status

        from unojax.cli import output
        from unojax.cli.belief.command import view as belief_view
        from unojax.cli.belief.turns import summarize

        output.check_json_target(self.json)
        about = output.machine()
        key = jax.random.key(self.seed, impl="threefry2x32")
        status = Status("the game", console=output.error_console())
        try:
            if output.shows_progress(quiet=self.quiet):
                status.start()
            game = self._game(key, rules)
            first, last = int(game.start.step_count), int(game.end.step_count)
            if self.turn is not None and not first <= self.turn <= last:
                raise ValueError(f"--turn must be in [{first}, {last}], the turns of this game, got {self.turn}")
            # A stream of its own: the game is the same whatever is believed about it.
            turns = self._follow(game, model_name, jax.random.fold_in(key, 2), rules, status)
        finally:
            status.stop()
        summary = summarize(turns)
        if self.json != output.STDOUT and self.turn is None:
            facts = {"Game": belief_view.outcome(turns[-1])} | self._facts(summary, rules)
            output.show("", output.facts(facts))
        if self.json is not None:
            output.write_json(self.json, self._record(game, turns, summary, rules) | about)
        return 0

    def _follow(self, game: Replay, model_name: str, key: Array, rules: Rules, status: Status) -> list[Turn]:
        """The turns up to the one asked for, shown as they come."""
        from unojax.belief.opponents import parse_opponent
        from unojax.cli import output
        from unojax.cli.belief.command import view as belief_view
        from unojax.cli.belief.turns import follow

        with_truth, last = not self.hide_truth, int(game.end.step_count)
        shows_all = self.json != output.STDOUT and self.turn is None
        # Where another program shows what comes, a status line would write across it.
        shows_status = output.shows_progress(quiet=self.quiet) and (sys.stdout.isatty() or not shows_all)
        turns: list[Turn] = []
        model = parse_opponent(model_name)
        status.update("compiling; faster next time if JAX_COMPILATION_CACHE_DIR names a folder")
        for turn in follow(game, self.player, key, num_particles=self.particles, opponent=model, rules=rules):
            # While a status line runs, rich sends what is printed to where the line is.
            status.stop()
            if shows_all and not turns:
                output.show(belief_view.legend(self.player, with_truth=with_truth), "")
            turns.append(turn)
            if shows_all:
                output.show(belief_view.compact(turn, with_truth=with_truth))
            elif turn.number == self.turn:
                if self.json != output.STDOUT:
                    output.show(belief_view.full(turn, with_truth=with_truth))
                break
            # The first turn after the start is compiled too.
            if len(turns) > 1:
                status.update(f"turn {turn.number} of {last}")
            if shows_status and turn.number < last:
                status.start()
        return turns

    def _game(self, key: Array, rules: Rules) -> Replay:
        import jax

        from unojax.games import replay
        from unojax.text import parse_position

        if self.start is None or self.actions is None:
            return replay.play(key, get_policies(self.policies), rules=rules, max_steps=self.steps)
        try:
            start = parse_position(self.start, rules=rules)
        except ValueError as error:
            raise ValueError(f"--start: {error}") from error
        try:
            return replay.replay(start, self.actions, jax.random.fold_in(key, 1), rules=rules, max_steps=self.steps)
        except ValueError as error:
            raise ValueError(f"--actions: {error}") from error

    def _facts(self, summary: Summary, rules: Rules) -> dict[str, str]:
        from unojax.cli import output

        facts = {}
        if summary.log_score is not None and summary.uniform_log_score is not None:
            facts["Log score"] = (
                f"{summary.log_score:.3f} ({summary.log_score - summary.uniform_log_score:+.3f}: uniform belief "
                f"{summary.uniform_log_score:.3f}), sum over the card types of ln P(copies really held), mean of "
                f"{output.count(summary.scored, 'turn')}"
            )
        facts["Smallest ESS"] = f"{summary.smallest_ess:,.0f} of {self.particles:,}, in turn {summary.smallest_ess_turn}"
        if summary.log_evidence is not None:
            facts["Evidence"] = f"ln p {summary.log_evidence:.2f} of all that player {self.player} saw"
        if summary.begun_anew:
            facts["Begun anew"] = f"in turn {', '.join(map(str, summary.begun_anew))}"
        facts["Model"] = f"player {1 - self.player} is taken for {self.opponent_model}"
        if self.start is None:
            facts["Policies"] = f"{self.policies[0]} as player 0, {self.policies[1]} as player 1; seed {self.seed}"
        return facts | {"Rules": output.rules_text(rules)}

    def _record(self, game: Replay, turns: list[Turn], summary: Summary, rules: Rules) -> dict[str, Any]:
        from unojax.cli import output
        from unojax.text import format_position

        shown = not self.hide_truth
        records = [turn.to_json(rules, with_truth=shown) for turn in turns]
        return {
            "command": "belief",
            "seed": self.seed,
            "policies": self.policies if self.start is None else None,
            "player": self.player,
            "particles": self.particles,
            "opponent_model": self.opponent_model,
            "rules": output.rules_json(rules),
            "start": format_position(game.start, rules=rules) if shown else None,
            "actions": " ".join(record["action"] for record in records[1:]),
            "turns": records,
            "summary": summary._asdict(),
        }


def read_model(text: str) -> str:
    """The value of `--opponent-model` in the form that `parse_opponent` takes, with the tremble always named.

    Raises:
        ValueError: it is no model.
    """
    name, plus, tremble = text.partition("+")
    if name in ("uniform", "consistent"):
        if plus:
            raise ValueError(f"--opponent-model {text!r}: {name} has no probability of a random action; write {name}")
        return name
    if name not in POLICY_NAMES:
        raise ValueError(
            f"--opponent-model {text!r} is none; choose uniform, consistent, or one of {', '.join(POLICY_NAMES[1:])}, each with "
            "the probability of a random action if you like, as in guard+0.1"
        )
    if not plus:
        return f"{name}+{DEFAULT_TREMBLE}"
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", tremble) or not 0 <= float(tremble) <= 1:
        raise ValueError(f"--opponent-model {text!r}: the probability of a random action must be in [0, 1], got {tremble!r}")
    return text
