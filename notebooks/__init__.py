"""Notebooks, each a pair of text and .ipynb that jupytext keeps together; `python -m notebooks.render` runs them."""
