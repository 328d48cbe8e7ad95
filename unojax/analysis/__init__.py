"""Studies of the game and of beliefs, on the host; for notebooks and benchmarks.

* `estimates`: means with their 95% intervals. `tables`: their display in notebooks.
* `deals`: the hands that `unojax.simulate` dealt. `worth`: the effect of each dealt card on the result.
* `declaring`: policies that differ in the colour they declare.
* `tracking`: beliefs along recorded games. `calibration`: predicted probabilities against outcomes.
* `turns`: a belief along one game. `reviewing`: the same with win probabilities and the cost of each choice.
* `decisions`: one player's decisions in recorded games. `forecasts`: scores of forecasts of results.
"""

from unojax.analysis.calibration import Calibration, calibrate
from unojax.analysis.deals import Deals, deal_hands
from unojax.analysis.decisions import Decisions, decisions_of
from unojax.analysis.declaring import declare
from unojax.analysis.estimates import Measure, estimate_mean, estimate_ratio
from unojax.analysis.forecasts import fit_logistic, log_loss, sigmoid
from unojax.analysis.reviewing import Choice, ReviewedTurn, review
from unojax.analysis.tables import TextTable
from unojax.analysis.tracking import Recorded, Tracks, record, track
from unojax.analysis.turns import BeliefTurn, TrackedTurn, track_turns
from unojax.analysis.worth import Worth, card_worth

__all__ = [
    "BeliefTurn",
    "Calibration",
    "Choice",
    "Deals",
    "Decisions",
    "Measure",
    "Recorded",
    "ReviewedTurn",
    "TextTable",
    "TrackedTurn",
    "Tracks",
    "Worth",
    "calibrate",
    "card_worth",
    "deal_hands",
    "decisions_of",
    "declare",
    "estimate_mean",
    "estimate_ratio",
    "fit_logistic",
    "log_loss",
    "record",
    "review",
    "sigmoid",
    "track",
    "track_turns",
]
