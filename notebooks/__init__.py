"""Notebooks, as text that Jupyter opens through jupytext; `python -m notebooks.render` runs them."""
