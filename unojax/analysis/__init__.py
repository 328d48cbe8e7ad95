"""Finding things out about the game and about beliefs, on the host; for notebooks and studies.

* `estimates`: means with their 95 % intervals. `tables`: how notebooks show them.
* `deals`: the hands that `unojax.simulate` dealt. `worth`: what each card in them was worth.
* `declaring`: policies that differ in the colour they declare.
* `following`: beliefs along recorded games. `calibration`: whether their probabilities are what happens.
* `decisions`: one player's decisions in recorded games. `forecasts`: how good forecasts of results are.
"""

from unojax.analysis.calibration import Calibration, calibrate
from unojax.analysis.deals import Deals, deal_hands
from unojax.analysis.decisions import Decisions, decisions_of
from unojax.analysis.declaring import declare
from unojax.analysis.estimates import Estimate, estimate_mean, estimate_ratio, share_interval
from unojax.analysis.following import (
    Followed,
    Method,
    Recorded,
    bootstrap,
    closed_form,
    follow,
    follow_exact,
    particles,
    record,
    unseen,
)
from unojax.analysis.forecasts import fit_logistic, log_loss, sigmoid
from unojax.analysis.tables import Table
from unojax.analysis.worth import Worth, card_worth

__all__ = [
    "Calibration",
    "Deals",
    "Decisions",
    "Estimate",
    "Followed",
    "Method",
    "Recorded",
    "Table",
    "Worth",
    "bootstrap",
    "calibrate",
    "card_worth",
    "closed_form",
    "deal_hands",
    "decisions_of",
    "declare",
    "estimate_mean",
    "estimate_ratio",
    "fit_logistic",
    "follow",
    "follow_exact",
    "log_loss",
    "particles",
    "record",
    "share_interval",
    "sigmoid",
    "unseen",
]
