"""Results on a terminal: cards in colour, tables, numbers with their errors; and a game played there.

`tables` holds the shared parts. Tables and texts are Rich's, so that notebooks show them too.
"""
