"""The game behind other libraries' interfaces, and players from outside.

| module | what it is | extra |
| --- | --- | --- |
| `pgx.Uno` | a `pgx.Env` | `pgx` |
| `gymnasium.UnoEnv`, `UnoVectorEnv` | one seat against an agent; thousands of games in one device program | `gymnasium` |
| `pettingzoo.env` | a PettingZoo AEC environment | `pettingzoo` |
| `openspiel` | registers the game `unojax_uno` in OpenSpiel | `openspiel` |
| `rlcard.make` | an RLCard environment; its agents as ours, `rlcard:model=...` | `rlcard` |
| `jaxmarl.Uno` | a JaxMARL `MultiAgentEnv` | `jaxmarl` |
| `process` | any program as a player, over lines of text, `process:COMMAND` | |

All of them play by `unojax.step` under any `Rules`, show what a player sees through one encoder (`encoding`, whose table says
which column is what) and have one list of actions, 0 .. `Rules.num_actions` - 1. Each is imported by its own name; without its
library it says what to install.
"""
