"""RLCard's DQN learns this game, and plays in the arena.

python examples/dqn.py
"""

import tempfile
from pathlib import Path

import jax

from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    import rlcard
    from rlcard.agents import DQNAgent, RandomAgent
    from rlcard.utils import reorganize

    import unojax
    import unojax.adapters.rlcard  # registers unojax-uno


def main(num_games: int = 3000, num_pairs: int = 200, opponent: str = "uniform") -> float:
    env = rlcard.make("unojax-uno", config={"seed": 0})
    with tempfile.TemporaryDirectory() as folder:
        agent = DQNAgent(
            num_actions=env.num_actions,
            state_shape=env.state_shape[0],
            mlp_layers=[64, 64],
            replay_memory_init_size=200,
            epsilon_decay_steps=20 * num_games,
            train_every=4,
        )
        env.set_agents([agent, RandomAgent(num_actions=env.num_actions)])
        for _ in range(num_games):
            trajectories, payoffs = env.run(is_training=True)
            for transition in reorganize(trajectories, payoffs)[0]:
                agent.feed(transition)
        agent.save_checkpoint(folder)
        spec = f"rlcard:{Path(folder) / 'checkpoint_dqn.pt'}"
        pairs = unojax.play_match(jax.random.key(0), (spec, opponent), num_pairs)
    score = unojax.paired_score(pairs.points)
    low, high = score.interval
    print(f"\nDQN after {num_games:,} games against {opponent}: {score.value:.1%} ({low:.1%} to {high:.1%})")
    return score.value


if __name__ == "__main__":
    main()
