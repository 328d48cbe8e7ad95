"""Sphinx's settings: `make docs` builds the site into build/docs."""

import shutil
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_sphinx"), str(HERE), str(HERE.parent)]

import charts  # noqa: E402  the path above makes this folder importable

charts.draw_all(HERE / "charts")

project = "unojax"
author = "The unojax authors"
copyright = "the unojax authors, Apache-2.0"
release = version = metadata.version("unojax")

extensions = [
    "myst_nb",
    # Of this folder.
    "reference",
    "commands",
    "pages",
]
# Dashes only: quotation marks in docstrings are often those of code.
smartquotes_action = "D"
exclude_patterns = ["_sphinx"]
# Reference pages and docstrings; `name` in a docstring is a link where there is such a name, and code where not.
default_role = "py:obj"

# Notebooks are pages already: `make notebooks` ran them. Sphinx reads pages of this folder only.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"))
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "gfm"
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "unojax"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/icon.svg"
html_copy_source = False
# Summaries are fetched, which browsers refuse to pages from files.
html_show_search_summary = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
# Blocks without a language are commands and what they print.
highlight_language = "text"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "github-dark"
