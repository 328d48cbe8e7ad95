"""Two players in PettingZoo's loop: one chooses at random, the other takes the lowest legal action.

python examples/table.py
"""

import numpy as np

from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    from unojax.adapters import pettingzoo


def main(num_games: int = 50) -> dict[str, int]:
    env, rng = pettingzoo.env(), np.random.default_rng(0)
    wins = dict.fromkeys(env.possible_agents, 0)
    for game in range(num_games):
        env.reset(seed=game)
        for agent in env.agent_iter():
            observation, reward, terminated, truncated, _ = env.last()
            if terminated or truncated:
                wins[agent] += reward > 0
                env.step(None)
                continue
            legal = np.flatnonzero(observation["action_mask"])
            env.step(int(rng.choice(legal) if agent == "player_0" else legal[0]))
    print(wins)
    return wins


if __name__ == "__main__":
    main()
