"""PPO on a thousand games at a time, with sb3-contrib's MaskablePPO, which chooses only legal actions.

python examples/ppo_gymnasium.py
"""

from unojax.adapters.requirements import needed_by

with needed_by(__file__, "examples"):
    import gymnasium
    import numpy as np
    from gymnasium.vector import AutoresetMode
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.vec_env import VecEnv

    from unojax.adapters.gymnasium import ID


class Games(VecEnv):
    """Gymnasium vector environment for Stable-Baselines3: masks by `env_method`, auto-reset in the same step."""

    def __init__(self, num_envs: int, **options):
        same_step = AutoresetMode.SAME_STEP
        self.envs = gymnasium.make_vec(ID, num_envs=num_envs, autoreset_mode=same_step, **options)
        super().__init__(num_envs, self.envs.single_observation_space, self.envs.single_action_space)

    def reset(self):
        seeds = list(self._seeds)
        # As in Stable-Baselines3, a seed is for one reset; later resets continue the sequence of games.
        self._reset_seeds()
        return self.envs.reset(seed=seeds)[0]

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        observation, rewards, terminated, truncated, info = self.envs.step(self.actions)
        infos = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(terminated | truncated):
            infos[i] = {"terminal_observation": info["final_obs"][i], "TimeLimit.truncated": bool(truncated[i])}
        return observation, rewards, terminated | truncated, infos

    def env_method(self, method_name, *args, indices=None, **kwargs):
        return list(getattr(self.envs.unwrapped, method_name)(*args, **kwargs))

    def get_attr(self, attr_name, indices=None):
        return [getattr(self.envs.unwrapped, attr_name)] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        setattr(self.envs.unwrapped, attr_name, value)

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs

    def close(self):
        self.envs.close()


def win_rate(model: MaskablePPO, games: Games, num_steps: int) -> float:
    """Return the share of wins among games that end within some steps: the same held-out deals each time."""
    games.seed(1_000_000)
    observation, ended = games.reset(), []
    for _ in range(num_steps):
        actions, _ = model.predict(observation, action_masks=np.stack(games.env_method("action_masks")))
        observation, rewards, dones, _ = games.step(actions)
        ended.append(rewards[dones])
    return float((np.concatenate(ended) > 0).mean())


def main(num_envs: int = 1024, num_steps: int = 2_000_000, opponent: str = "uniform", rollout: int = 64) -> float:
    # The second shares the programs of the first.
    games, held_out = (Games(num_envs, opponent=opponent) for _ in range(2))
    games.seed(0)
    model = MaskablePPO("MultiInputPolicy", games, n_steps=rollout, batch_size=num_envs * rollout // 16, n_epochs=4, seed=0)
    print(f"before: {win_rate(model, held_out, 2 * rollout):.1%} of the games won against {opponent}")
    model.learn(num_steps)
    after = win_rate(model, held_out, 2 * rollout)
    print(f"after {num_steps:,} steps: {after:.1%}")
    return after


if __name__ == "__main__":
    main()
