"""An external program as a player; it could be written in any language.

unojax arena 'process:python examples/outside_player.py' uniform --games 200
"""

import json
import re
import sys


def choose(observation: str, legal: list[str]) -> str:
    """Play from the colour with the fewest cards, and keep wild cards."""
    hand = re.search(r"hand +(.*)", observation)[1].split()
    held = {color: sum(card.startswith(color) for card in hand) for color in "RYBG"}
    colored = [move for move in legal if move[0] in held]
    if colored:
        return min(colored, key=lambda move: held[move[0]])
    # Only wild cards are left, `W:R`: declare the colour with the most cards.
    return max(legal, key=lambda move: held.get(move[-1], 0))


if __name__ == "__main__":
    for line in sys.stdin:
        question = json.loads(line)
        print(choose(question["observation"], question["legal"]), flush=True)
