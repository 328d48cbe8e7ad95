"""Every public name is in the reference once. Docstrings become Markdown."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from pathlib import Path

import unojax

DOCS = Path(__file__).parents[2] / "docs"
PACKAGE = DOCS.parent / "unojax"
OTHER_LIBRARIES = {f"unojax.adapters.{name}" for name in ("gymnasium", "jaxmarl", "openspiel", "pettingzoo", "pgx", "rlcard")}
"""Adapters that import a library which may not be there."""
COMMAND_LINE = ("cli", "terminal", "web", "board", "files", "display", "__main__")
"""Parts of the package without a public name."""
INNER = """belief.history belief.hypotheses device.blame device.control device.forks device.process
device.returned device.struct games.ahead games.imagined games.question games.tally arena.lanes arena.results registry
docstrings adapters.callback adapters.nodes adapters.requirements adapters.seats adapters.solo""".split()
"""Modules that others are made of, and whose names may change."""


def test_every_module_is_on_a_page_or_part_of_one_that_is(reference):
    listed = [module for modules in reference.pages().values() for module in modules]
    assert Counter(listed).most_common(1)[0][1] == 1
    assert {f"unojax.{module}" for module in unojax._SUBMODULES} - {"unojax.belief.particles"} <= set(listed)
    missing = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = [part for part in path.relative_to(PACKAGE).with_suffix("").parts if part != "__init__"]
        module, package = ".".join(("unojax", *parts)), ".".join(("unojax", *parts[:-1]))
        if not parts or parts[0] in COMMAND_LINE or module in listed or ".".join(parts) in INNER:
            continue
        # A package with `__all__` says itself what of its parts is public.
        while package not in listed and package != "unojax":
            package = package.rpartition(".")[0]
        if package == "unojax" or reference.module_of(package).exports is None:
            missing.append(module)
    assert not missing, "list them on a page of docs/reference, or in INNER here"
    assert all(reference.module_of(f"unojax.{module}").is_module for module in INNER)
    assert not set(listed) & {f"unojax.{module}" for module in INNER}


def test_every_exported_name_is_shown_once_and_exists(reference):
    shown = Counter(name.shown for found in reference.shown().values() for name in found)
    assert shown.most_common(1)[0][1] == 1
    assert {f"unojax.{name}" for name in unojax.__all__} <= set(shown)
    # As many names as homes: nothing is shown under two names.
    homes = Counter((name.home, name.attribute) for found in reference.shown().values() for name in found)
    assert homes.most_common(1)[0][1] == 1
    for module, found in reference.shown().items():
        if module in OTHER_LIBRARIES:
            continue
        for name in found:
            outer, _, last = name.shown.rpartition(".")
            assert getattr(import_module(outer), last) is getattr(import_module(name.home), name.attribute), name
            # Most constants are their own explanation.
            assert name.source.is_attribute or getattr(import_module(outer), last).__doc__, f"{name.shown} has no docstring"


def test_every_page_is_in_the_contents():
    contents = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = {line for block in re.findall(r"```\{toctree\}\n(.*?)```", contents, re.DOTALL) for line in block.split("\n")}
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.*") if path.suffix in (".md", ".rst")]
    missing = {page for page in pages if page != "index" and page not in listed}
    assert not missing, "add them to docs/index.md"


SECTIONS = """Do it to `x < y`, if 1 < 2.

    as(it, stands)

Args:
    a, b: Two of them, which take
        two lines.
    *rest: The others.

            some(code)

Returns:
    What is left: all
    of it.

Raises:
    ValueError: If nothing is.

The end."""
IN_MARKDOWN = """Do it to `x < y`, if 1 \\< 2.

    as(it, stands)

**Parameters**

- **a, b**: Two of them, which take
  two lines.
- **\\*rest**: The others.

      some(code)

**Returns**

What is left: all
of it.

**Raises**

- **ValueError**: If nothing is.

The end."""


def test_docstrings_become_markdown(reference):
    assert reference.to_markdown(SECTIONS).rstrip() == IN_MARKDOWN
    table = "game   one row\nenv    another one\nboth   the last"
    assert reference.to_markdown(f"Rows:\n\n{table}\n\nText.").split("\n") == [
        *("Rows:", "", "```text", *table.split("\n"), "```", "", "Text.", "")
    ]
