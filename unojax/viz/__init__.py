"""Pictures: positions, beliefs and whole games as SVG and HTML, in light and dark.

* `position_svg`: one state or observation. In Jupyter both display themselves.
* `belief_svg`: probability that the opponent holds each card.
* `game_svg`: an animated game. `game_html`: a page to step through a game.
* `game_plot_svg`: win probability and belief entropy along a game.

All return text, and write it to `path` if given. Every colour has a mark and a letter too. Cards that a view hides are not in the
text. Host only; for single games.
"""

from unojax.viz.belief import belief_svg
from unojax.viz.game import game_svg
from unojax.viz.page import game_html
from unojax.viz.plot import game_plot_svg
from unojax.viz.position import position_svg
from unojax.viz.svg import Page, Picture

__all__ = ["Page", "Picture", "belief_svg", "game_html", "game_plot_svg", "game_svg", "position_svg"]
