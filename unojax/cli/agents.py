"""`unojax agents`: available agents and their options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from rich.text import Text

from unojax.cli import output
from unojax.cli.agent_help import AgentsReport, describe_agent
from unojax.cli.options import JsonTarget
from unojax.specs import AGENTS
from unojax.terminal import tables

_OWN: Final = {
    "my.py:name": (
        "a policy of your own, choose(key, observation, legal_mask) -> action, or a function or class that makes an agent; keys "
        "follow a second colon: my.py:Clever:depth=3"
    )
}


@dataclass(frozen=True)
class ShowAgents:
    """List the agents, and what can be set of each."""

    json: JsonTarget = None

    def run(self) -> int:
        from unojax.policies import POLICIES

        policies = {name: policy.summary for name, policy in POLICIES.items()}
        report = AgentsReport(policies, {name: describe_agent(name) for name in AGENTS})
        output.report("agents", self.json, lambda: _tables(report), lambda: report)
        return 0


def _tables(report: AgentsReport) -> list[Any]:
    shown: list[Any] = [Text("Policies, which have no memory", style="bold"), tables.facts(report.policies)]
    for name, agent in report.agents.items():
        keys = agent.parameters
        rows = {f"{key.key}={key.default}": f"{key.meaning} ({key.kind})" for key in keys if not key.is_shared}
        if shared := [f"{key.key}={key.default}" for key in keys if key.is_shared]:
            rows["as mc"] = ", ".join(shared)
        heading = Text.assemble((name, "bold"), f"  {agent.summary}{' Keys, with their defaults:' if keys else ''}")
        shown += ["", heading, tables.facts(rows)]
    return [*shown, "", tables.facts(_OWN)]
