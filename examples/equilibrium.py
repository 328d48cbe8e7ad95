"""OpenSpiel's CFR+ on a small deck, and the exploitability of its strategy.

python examples/equilibrium.py
"""

from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    import pyspiel
    from open_spiel.python import policy
    from open_spiel.python.algorithms import cfr, exploitability

    from unojax.adapters.openspiel import NAME

DECK = "R1 R2 Y1 Y2 RS W"


def main(num_iterations: int = 30, max_steps: int = 4) -> float:
    game = pyspiel.load_game(f"{NAME}(deck={DECK},hand_size=2,max_steps={max_steps})")
    uniform = policy.UniformRandomPolicy(game)
    print(f"random play: {exploitability.exploitability(game, uniform):.4f}")
    solver = cfr.CFRPlusSolver(game)
    for _ in range(num_iterations):
        solver.evaluate_and_update_policy()
    left = exploitability.exploitability(game, solver.average_policy())
    print(f"CFR+, {num_iterations} iterations: {left:.4f}")
    return left


if __name__ == "__main__":
    main()
