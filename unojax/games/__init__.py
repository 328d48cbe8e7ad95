"""Whole games: recorded, replayed, saved, played by a person. Positions are NumPy.

* `record`, `replay`: games with all positions. `gamefile`: games in files. `trajectories`: games as rows.
* `seen`, `events`: a game as one player saw it. `at_table`: such a game with advice.
* `session`: a person against an agent. `advisor`, `advising`: advice for a person.
"""
