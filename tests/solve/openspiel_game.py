"""The oracle's games for OpenSpiel's `efg_game`, as extensive-form files."""

from __future__ import annotations

from tests.solve.oracle import CHANCE, Key, Node


def to_efg(root: Node) -> str:
    """Return a game's tree as a Gambit extensive-form file of a zero-sum game."""
    numbers: tuple[dict[Key, int], dict[Key, int]] = ({}, {})
    chances: list[Node] = []
    lines = ['EFG 2 R "uno" { "0" "1" }', '""']

    def write(node: Node) -> None:
        if node.player is None:
            lines.append(f't "" {1 if node.payoff > 0 else 2 if node.payoff < 0 else 3} "" {{ {node.payoff} {0 - node.payoff} }}')
        elif node.player == CHANCE:
            chances.append(node)
            outcomes = " ".join(f'"{index}" {prob!r}' for index, prob in node.probs.items())
            lines.append(f'c "" {len(chances)} "" {{ {outcomes} }} 0')
        else:
            number = numbers[node.player].setdefault(node.key, len(numbers[node.player]) + 1)
            actions = " ".join(f'"{action}"' for action in node.children)
            lines.append(f'p "" {node.player + 1} {number} "{node.player}:{number}" {{ {actions} }} 0')
        for child in node.children.values():
            write(child)

    write(root)
    return "\n".join(lines) + "\n"
