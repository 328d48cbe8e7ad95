"""Pictures: positions, beliefs and whole games as SVG and HTML, in light and dark.

* `position_svg`: one state or observation. In Jupyter both show themselves.
* `belief_svg`: how likely the opponent is to hold each card.
* `game_svg`: a game that plays by itself. `game_html`: a page to step through a game.
* `game_plot_svg`: win probability and belief entropy along a game.

All return text, and write a file too if they get a `path`. Colours are never alone: each has a mark (circle, triangle, square,
diamond) and its letter. Cards that a view hides don't get into the text. Host only; for single games.
"""

from unojax.viz.belief import belief_svg
from unojax.viz.game import game_svg
from unojax.viz.page import game_html
from unojax.viz.plot import game_plot_svg
from unojax.viz.position import position_svg
from unojax.viz.svg import Page, Picture

__all__ = ["Page", "Picture", "belief_svg", "game_html", "game_plot_svg", "game_svg", "position_svg"]
