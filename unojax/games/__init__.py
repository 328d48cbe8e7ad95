"""Whole games on the host: simulated and recorded (`record`), replayed (`replay`), seen by one player (`seen`), saved
(`gamefile`), played by a person (`session`) with advice (`advisor`). Observations and states are NumPy.
"""
