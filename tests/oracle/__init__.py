"""The rules again, in plain Python, as the oracle of the fast code."""
