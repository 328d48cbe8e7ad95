"""Results and games on a terminal, as texts and tables of Rich, which notebooks show too.

Errors of a person's input are ValueErrors of one line, in words for the person.
"""
