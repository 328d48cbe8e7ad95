"""The reference: `.. names:: MODULE` shows a module's words on itself and every public name of it, once in the whole site.

A name that `unojax` itself exports is shown as `unojax.NAME`, wherever in the package its home is. This half imports no Sphinx
before `setup`, so that the tests can ask what is public without it.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import unojax

PACKAGE = Path(unojax.__file__).parent
PAGES = Path(__file__).parents[1] / "reference"
OTHER_LIBRARIES = {"gymnasium", "jaxmarl", "openspiel", "pettingzoo", "pgx", "rlcard"}
"""Adapters that import a library which may not be there: their names are read and not imported."""


class Name(NamedTuple):
    """A public name: as what it is shown, `unojax.belief_update`, and its home, `unojax.belief.particles.filter`."""

    shown: str
    home: str
    attribute: str

    @property
    def kind(self) -> str:
        """`class`, `function` or `data`."""
        return _defined(self.home)[self.attribute][0]

    @property
    def said(self) -> str:
        """What stands under the definition of data."""
        return _defined(self.home)[self.attribute][1]


def path_of(module: str) -> Path:
    """The file of a module of the package."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _defined(module: str) -> dict[str, tuple[str, str]]:
    """Public names that a module itself defines, with their kinds and, for data, what stands under them."""
    found: dict[str, tuple[str, str]] = {}
    body = ast.parse(path_of(module).read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef):
            found[node.name] = ("class", "")
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = ("function", "")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if isinstance(part, ast.Name):
                        found[part.id] = ("data", inspect.cleandoc(said) if isinstance(said, str) else "")
    return {name: what for name, what in found.items() if not name.startswith("_")}


def _node(name: Name) -> ast.ClassDef | ast.FunctionDef:
    body = ast.parse(path_of(name.home).read_text(encoding="utf-8")).body
    return next(node for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name.attribute)


@cache
def _imported(module: str) -> dict[str, tuple[str, str]]:
    """Names of the package that a module imports from other modules: their homes."""
    found = {}
    for node in ast.parse(path_of(module).read_text(encoding="utf-8")).body:
        nodes = node.body if isinstance(node, ast.Try | ast.If) else [node]
        for one in nodes:
            if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("unojax"):
                for alias in one.names:
                    found[alias.asname or alias.name] = (one.module, alias.name)
    return found


def home_of(module: str, name: str) -> tuple[str, str]:
    """Where a name that a module exports is defined."""
    while name not in _defined(module):
        if name not in _imported(module):
            raise ValueError(f"{module} exports {name!r}, and neither defines nor imports it")
        module, name = _imported(module)[name]
    return module, name


@cache
def _exported() -> dict[tuple[str, str], str]:
    """Homes of what `unojax` itself exports."""
    homes = {}
    for part, names in unojax._HOMES.items():
        for name in names:
            homes[home_of(f"unojax.{part}", name)] = f"unojax.{name}"
    return homes


def exports(module: str) -> list[tuple[str, str]]:
    """Homes of the public names of a module: its `__all__`; else what it defines."""
    listed: list[str] = []
    for node in ast.parse(path_of(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id == "__all__":
                listed += ast.literal_eval(node.value)
    if listed:
        homes = [home_of(module, name) for name in listed]
        # What `unojax` itself exports before the rest; then as the parts of the package have them, not by the alphabet.
        parts = list(dict.fromkeys(home for home, _ in [(module, ""), *_imported(module).values()]))
        lines = {home: list(_defined(home)) for home, _ in homes}

        def place(home: tuple[str, str]) -> tuple[bool, int, int]:
            part = parts.index(home[0]) if home[0] in parts else len(parts)
            return home not in _exported(), part, lines[home[0]].index(home[1])

        return sorted(homes, key=place)
    return [(module, name) for name in _defined(module)]


def pages() -> dict[str, list[str]]:
    """Modules that each page of the reference shows."""
    told = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.rst"))}
    return {page: re.findall(r"^\.\. names:: (\S+)$", text, re.MULTILINE) for page, text in told.items()}


@cache
def shown() -> dict[str, list[Name]]:
    """Names that the reference shows under each module: all of its public ones that are not shown somewhere else."""
    listed = [module for modules in pages().values() for module in modules]
    taken: set[tuple[str, str]] = set()
    found: dict[str, list[Name]] = {}
    # A package speaks for its parts.
    for module in sorted(listed, key=lambda name: name.count(".")):
        found[module] = []
        for home in exports(module):
            if home not in taken:
                taken.add(home)
                found[module].append(Name(_exported().get(home, f"{module}.{home[1]}"), *home))
    return found


def needs_library(module: str) -> bool:
    """Whether a module is an adapter for a library that may not be installed."""
    return module.startswith("unojax.adapters.") and module.rpartition(".")[2] in OTHER_LIBRARIES


def setup(app: Any) -> dict[str, bool]:
    """Add the directive, and the links to it."""
    import docstrings
    from docutils import nodes
    from sphinx.ext.napoleon import GoogleDocstring
    from sphinx.util.docutils import SphinxDirective

    class Names(SphinxDirective):
        """`.. names:: MODULE`"""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            module = self.arguments[0]
            self.env.note_dependency(str(path_of(module)))
            heading = f"``{module}``"
            told = [heading, "-" * len(heading), "", f".. py:module:: {module}", ""]
            told += [*_words(module), ""]
            for name in shown()[module]:
                told += _directive(name)
            return self.parse_text_to_nodes("\n".join(told), allow_section_headings=True)

    def _words(module: str) -> list[str]:
        docstring = ast.get_docstring(ast.parse(path_of(module).read_text(encoding="utf-8"))) or ""
        return docstrings.to_rst(docstring.splitlines())

    def _directive(name: Name) -> list[str]:
        if name.kind != "data" and needs_library(name.home):
            return _read(_node(name), name.shown)
        if name.kind != "data":
            return [f".. auto{name.kind}:: {name.shown}", *["   :members:"] * (name.kind == "class"), ""]
        said = docstrings.to_rst(name.said.splitlines())
        module, _, attribute = name.shown.rpartition(".")
        told = [f".. py:data:: {attribute}", f"   :module: {module}"]
        if not needs_library(name.home):
            value = repr(getattr(import_module(name.home), name.attribute)).removeprefix("typing.")
            told += [f"   :value: {value}"] * (len(value) < 70 and not re.search(r"\n| object| at 0x", value))
        return [*told, "", *(f"   {line}" for line in said), ""]

    def _read(node: ast.ClassDef | ast.FunctionDef, shown: str) -> list[str]:
        """Show what can't be imported here: as autodoc would, from the source."""
        parts = [part for part in getattr(node, "body", ()) if isinstance(part, ast.FunctionDef)]
        called = node
        if isinstance(node, ast.ClassDef):
            called = next((part for part in parts if part.name == "__init__"), None)
        what = "class" if isinstance(node, ast.ClassDef) else "method" if shown.count(".") > 3 else "function"
        signature = "" if called is None else ast.unparse(called.args).removeprefix("self").removeprefix(", ")
        returned = f" -> {ast.unparse(node.returns)}" if isinstance(node, ast.FunctionDef) and node.returns else ""
        module, _, attribute = shown.rpartition(".")
        said = docstrings.to_rst((ast.get_docstring(node) or "").splitlines())
        told = [f".. py:{what}:: {attribute}({signature}){returned}", *[f"   :module: {module}"] * (what != "method"), ""]
        told += [f"   {line}" for line in GoogleDocstring(said, app.config, app, what, shown).lines()] + [""]
        if isinstance(node, ast.ClassDef):
            methods = [part for part in parts if ast.get_docstring(part) and not part.name.startswith("_")]
            told += [f"   {line}" for part in methods for line in _read(part, f"{shown}.{part.name}")]
        return told

    class Docstring(SphinxDirective):
        """`.. docstring:: MODULE`: what a module says of itself, on another page than its names."""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            self.env.note_dependency(str(path_of(self.arguments[0])))
            return self.parse_text_to_nodes("\n".join(_words(self.arguments[0])))

    app.add_directive("names", Names)
    app.add_directive("docstring", Docstring)
    return {"parallel_read_safe": True}
