"""Whole games: played and kept (`record`), read and looked back at (`replay`), as one player saw them (`seen`), saved
(`gamefile`), played by a person (`session`) with advice (`advisor`)."""
