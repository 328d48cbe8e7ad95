"""The game behind the interfaces of other libraries, and external programs as players.

| module | content | extra |
| --- | --- | --- |
| `pgx.Uno` | a `pgx.Env` | `pgx` |
| `gymnasium.UnoEnv`, `UnoVectorEnv` | one seat against an agent; thousands of games in one device program | `gymnasium` |
| `pettingzoo.env` | a PettingZoo AEC environment | `pettingzoo` |
| `openspiel` | registers the game `unojax_uno` in OpenSpiel | `openspiel` |
| `rlcard.make` | an RLCard environment; RLCard agents as players, `rlcard:model=...` | `rlcard` |
| `jaxmarl.Uno` | a JaxMARL `MultiAgentEnv` | `jaxmarl` |
| `process` | any program as a player, over lines of text, `process:COMMAND` | |

All adapters play by `unojax.step` under any `Rules` and number actions 0 .. `Rules.num_actions` - 1. All of them encode
observations with `encoding`, whose table lists the columns. Import each by its own name; if its library is missing, the error
names the package to install.
"""
