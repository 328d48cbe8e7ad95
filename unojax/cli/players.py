"""What is to be said of the agents of a match beside its results: what they did wrong, and what they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from unojax.agents import Agent, faults_of, sees_hidden_hand
from unojax.cli import output


def tell_faults(command: str, agents: Sequence[Agent]) -> dict[str, list[str]]:
    """Say on the error stream what agents did wrong so far, and give it by their names."""
    faults = {agent.name: faults_of(agent) for agent in agents}
    for name, lines in faults.items():
        for line in lines:
            output.note(command, f"{name} lost games by its own fault: {line}")
    return faults


def tell_who_sees(command: str, agents: Sequence[Agent]) -> None:
    """Say on the error stream which agents are shown the opponent's hand."""
    for agent in agents:
        if sees_hidden_hand(agent):
            what = "sees the opponent's hand: its results are a yardstick, not what a player can reach"
            output.note(command, f"{agent.name} {what}")
