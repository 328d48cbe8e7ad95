"""The value of information states, by a trained network or by the heuristic value.

* `features`: the network's input. `network`: its layers and outputs.
* `plays`: the value of every legal play. `agent`: the network as a player.
* `heuristic`: three features with fitted weights, instead of a network.
* `pretrained`: networks in files, and the bundled ones.

Every value is that of the information state's player, never of the player to move: +1 is a win, -1 a loss. The sign never flips
between turns; a feature shows whose turn it is.
"""

from unojax.value.features import (
    COLOR_COLUMNS,
    MATCH_COLUMNS,
    SHARED_COLUMNS,
    TYPE_COLUMNS,
    Features,
    Outlook,
    after_plays,
    features,
    outlook_of_ages,
    outlook_of_hand,
    outlook_of_hands,
    outlook_of_unseen,
)
from unojax.value.heuristic import HEURISTIC_WEIGHTS, HeuristicNetwork, HeuristicWeights, heuristic_value
from unojax.value.network import Network, NetworkConfig, Outputs, init_network
from unojax.value.plays import value_plays
from unojax.value.pretrained import load_network, load_pretrained, save_network

__all__ = [
    "COLOR_COLUMNS",
    "HEURISTIC_WEIGHTS",
    "MATCH_COLUMNS",
    "SHARED_COLUMNS",
    "TYPE_COLUMNS",
    "Features",
    "HeuristicNetwork",
    "HeuristicWeights",
    "Network",
    "NetworkConfig",
    "Outlook",
    "Outputs",
    "after_plays",
    "features",
    "heuristic_value",
    "init_network",
    "load_network",
    "load_pretrained",
    "outlook_of_ages",
    "outlook_of_hand",
    "outlook_of_hands",
    "outlook_of_unseen",
    "save_network",
    "value_plays",
]
