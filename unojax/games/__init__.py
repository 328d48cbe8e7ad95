"""Whole games: played and kept (`record`), read and looked back at (`replay`), saved (`gamefile`), played by a person (`session`)."""
