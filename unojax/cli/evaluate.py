"""`unojax evaluate`: an agent's score on a fixed set of deals, comparable between users."""

from __future__ import annotations

import time
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import tyro

from unojax.cli import output, together
from unojax.cli.options import AGENT_HELP, Count, JsonTarget, Quiet, RuleFields, RuleOptions, command, naming_options, option
from unojax.cli.together import Distributed
from unojax.rules import Rules
from unojax.terminal import tables

if TYPE_CHECKING:
    from rich.console import RenderableType

    from unojax.arena.evaluation import Evaluation


@command
class Evaluate:
    """Score an agent against named opponents on fixed deals, so that scores can be compared."""

    agent: tyro.conf.Positional[str] = option(MISSING, f"One of: {AGENT_HELP}", "AGENT")
    opponents: tuple[str, ...] = option(
        ("uniform", "scarcest-color", "linear", "value"),
        "Opponents; a rating is given against the default ones alone.",
        "AGENT [AGENT ...]",
    )
    games: Count = option(2000, "Games against each, an even number: two with each deal, the seats swapped.")
    json: JsonTarget = None
    distributed: Distributed = None
    quiet: Quiet = False
    rules: RuleFields = RuleOptions()

    def run(self) -> int:
        rules = self.rules.build()
        from unojax.agents import check_sees_no_hidden_hand
        from unojax.arena.evaluation import EvaluationReport, evaluate
        from unojax.specs import parse_agent

        agent, *others = (parse_agent(spec, rules=rules) for spec in (self.agent, *self.opponents))
        check_sees_no_hidden_hand(agent)
        output.note_agents("evaluate", others)
        setting = output.setting_of(rules)
        began = time.perf_counter()
        with output.status("compiling", quiet=self.quiet) as status, naming_options(self):
            found = evaluate(
                agent, self.opponents, games=self.games, rules=rules,
                on_match=lambda name: status.update(f"against {name}"), joined=True,
            )  # fmt: skip
        seconds = time.perf_counter() - began
        if not together.is_first():
            return 0
        faults = output.note_faults("evaluate", [agent, *others])
        facts = output.setting_facts(setting) | {"Time": f"{seconds:.1f} s, with compiling"}
        report = EvaluationReport(self.games, seconds, faults, found)
        output.report("evaluate", self.json, lambda: self._tables(found, rules, facts), lambda: report, setting)
        return 0

    def _tables(self, found: Evaluation, rules: Rules, machine: dict[str, str]) -> list[RenderableType]:
        title = f"{found.agent}: score, % ({tables.plus_minus()} 95 % interval)"
        table = tables.grid(title, ("against",), ("score", "won", "lost", "drawn", "games"))
        for row in found.rows:
            numbers = (f"{number:,}" for number in (*row.wins, row.drawn, row.games))
            table.add_row(row.second, tables.percent_within(row.score.value, row.score.interval), *numbers)
        rating = "none: the opponents' ratings are known for the default rules, and the default opponents, alone"
        if found.rating is not None:
            rating = f"{found.rating:+.0f} {tables.plus_minus()} {found.rating_margin:.0f} Elo points; uniform is 0"
        pace = "-" if found.decisions_per_second is None else f"{found.decisions_per_second:,.0f}/s, many games at once"
        deals = f"{self.games // 2:,} for each opponent, seed {found.seed}, digest {found.digest}"
        facts: dict[str, Any] = {"Rating": rating, "Decisions": pace, "Deals": f"{deals}; each played twice, the seats swapped"}
        facts |= {"Rules": f"{tables.rules_text(rules)}, version {found.rules_version}"}
        return [table, "", tables.facts(facts | machine)]
