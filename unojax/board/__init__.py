"""The board that a person plays on by clicks, in a notebook (`unojax.widget`) and in a browser (`unojax.web`): the game (`game`),
the data of its page (`page`), and the page's script and style.
"""
