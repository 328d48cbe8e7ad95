"""`unojax evaluate`: an agent's score on a fixed set of deals, to be quoted."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from unojax.cli.options import AGENT_HELP, Count, Flag, JsonTarget, RuleOptions

if TYPE_CHECKING:
    from unojax.arena.evaluation import Evaluation
    from unojax.rules import Rules


@dataclass(frozen=True)
class Evaluate:
    """Score an agent against named opponents on a fixed set of duplicate deals, so that scores can be compared."""

    agent: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="AGENT", help=f"One of: {AGENT_HELP}")]
    opponents: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="AGENT [AGENT ...]", help="Against whom; a rating is given against the default ones alone."),
    ] = ("uniform", "scarcest-color", "linear", "value")
    games: Annotated[Count, tyro.conf.arg(help="Games against each, an even number: with every deal two, the seats swapped.")] = (
        2000
    )
    json: JsonTarget = None
    quiet: Annotated[Flag, tyro.conf.arg(help="No progress on the terminal.")] = False
    rules: tyro.conf.OmitArgPrefixes[RuleOptions] = field(default_factory=RuleOptions)

    def run(self) -> int:
        if self.games % 2:
            raise ValueError(f"--games must be an even number, since every deal is played twice, got {self.games}")
        rules = self.rules.build()
        from unojax.agents import check_sees_no_hidden_hand
        from unojax.arena import evaluation
        from unojax.cli import output, players, targets
        from unojax.specs import parse_agent

        agent, *others = (parse_agent(spec, rules=rules) for spec in (self.agent, *self.opponents))
        check_sees_no_hidden_hand(agent)
        targets.check_json_target(self.json)
        players.tell_who_sees("evaluate", others)
        about = output.machine()
        began = time.perf_counter()
        with output.status("compiling", quiet=self.quiet) as status:
            found = evaluation.evaluate(
                agent, self.opponents, games=self.games, rules=rules, on_match=lambda name: status.update(f"against {name}")
            )
        seconds = time.perf_counter() - began
        faults = players.tell_faults("evaluate", [agent, *others])
        if self.json != output.STDOUT:
            self._show(found, rules, output.machine_facts(about) | {"Time": f"{seconds:.1f} s, with compiling"})
        if self.json is not None:
            request = {"command": "evaluate", "games_asked": self.games, "rules": asdict(rules), "seconds": seconds}
            output.write_json(self.json, request | {"faults": faults, "results": found.to_json()} | about)
        return 0

    def _show(self, found: Evaluation, rules: Rules, machine: dict[str, str]) -> None:
        from unojax.cli import output
        from unojax.cli.arena.tables import percent

        table = output.grid(title=f"{found.agent}: score, % ({output.plus_minus()} 95 % interval)")
        table.add_column("against", overflow="fold")
        for heading in ("score", "won", "lost", "drawn", "games"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in found.rows:
            numbers = (f"{number:,}" for number in (row.won, row.lost, row.drawn, row.games))
            table.add_row(row.opponent, percent(row.score, row.interval), *numbers)
        rating = "none: the opponents' ratings are known for the default rules, and the default opponents, alone"
        if found.rating is not None:
            rating = f"{found.rating:+.0f} {output.plus_minus()} {found.rating_margin:.0f} Elo points; uniform is 0"
        pace = "-" if found.decisions_per_second is None else f"{found.decisions_per_second:,.0f}/s, many games at once"
        deals = f"{self.games // 2:,} for each opponent, seed {found.seed}, digest {found.digest}"
        facts = {"Rating": rating, "Decisions": pace, "Deals": f"{deals}; each played twice, the seats swapped"}
        facts |= {"Rules": f"{output.rules_text(rules)}, version {found.rules_version}"}
        output.show(table, "", output.facts(facts | machine))
