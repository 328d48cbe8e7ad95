"""`unojax agents`: who can play, and what can be set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from unojax.cli.options import JsonTarget

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
        from rich.text import Text

        from unojax.cli import output, targets
        from unojax.policies import POLICIES
        from unojax.specs import AGENTS, describe_agent

        targets.check_json_target(self.json)
        policies = {name: policy.summary for name, policy in POLICIES.items()}
        agents = {name: describe_agent(name) for name in AGENTS}
        if self.json != output.STDOUT:
            output.show(Text("Policies, which remember nothing", style="bold"), output.facts(policies))
            for name, (summary, parameters) in agents.items():
                rows = {f"{p.key}={p.default}": f"{p.meaning} ({p.kind})" for p in parameters if not p.is_shared}
                if shared := [f"{p.key}={p.default}" for p in parameters if p.is_shared]:
                    rows["as mc"] = ", ".join(shared)
                keys = " Keys, with their defaults:" if parameters else ""
                output.show("", Text.assemble((name, "bold"), f"  {summary}{keys}"), output.facts(rows))
            output.show("", output.facts(_OWN))
        if self.json is not None:
            made = {
                name: {"summary": summary, "parameters": [p._asdict() for p in found]}
                for name, (summary, found) in agents.items()
            }
            output.write_json(self.json, {"command": "agents", "policies": policies, "agents": made})
        return 0
