"""The game behind the interfaces of other libraries, and external programs as players.

| module | content | extra |
| --- | --- | --- |
| `pgx.Uno` | a `pgx.Env` | `pgx` |
| `gymnasium.UnoEnv`, `UnoVectorEnv` | one seat against an agent | `gymnasium` |
| `pettingzoo.env` | a PettingZoo AEC environment | `pettingzoo` |
| `openspiel` | the OpenSpiel game `unojax_uno` | `openspiel` |
| `rlcard.make` | an RLCard environment; RLCard agents as players, `rlcard:model=...` | `rlcard` |
| `jaxmarl.Uno` | a JaxMARL `MultiAgentEnv` | `jaxmarl` |
| `process` | any program as a player, `process:COMMAND` | |

Import each module by its own name. All play by `unojax.step` under any `Rules`, number actions 0 .. `Rules.num_actions` - 1 and
encode observations by `encoding`. Unless stated otherwise, an illegal action loses the game, -1 and +1, under any rules.
"""
