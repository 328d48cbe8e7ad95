"""How results look on a terminal: cards in colour, tables, numbers with their errors; and a game played there.

`tables` has what all share. Tables and texts are Rich's, so that notebooks show them too.
"""
