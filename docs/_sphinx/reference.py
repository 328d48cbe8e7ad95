"""The reference, read by griffe from the source. Nothing of it is imported, so no library behind an adapter must be there.

`.. names:: MODULE` shows a module's docstring and every public name of it, once in the whole site. A name that `unojax` itself
exports is shown as `unojax.NAME`, wherever in the package its home is. `.. docstring:: MODULE` shows the docstring alone.
Docstrings are Markdown. Code in them, and full names on any page, are links where the reference has such a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import griffe

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "reference"
_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Errors):$")
_ITEM = re.compile(r"(\*{0,2}[\w*]+(?:, \*{0,2}\w+)*): +(.*)")
_CODE_NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")


class Name(NamedTuple):
    """A public name: as what it is shown, `unojax.belief_update`, its home, `unojax.belief.particles.filter`, and the source."""

    shown: str
    home: str
    attribute: str
    source: Any


class Unpacked(griffe.Extension):
    """Constants of one assignment, `RED, YELLOW = range(2)`, which griffe does not read by itself."""

    def on_node(self, *, node: Any, agent: Any, **kwargs: Any) -> None:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and agent.current.is_module:
            for part in node.targets[0].elts:
                if isinstance(part, ast.Name):
                    constant = griffe.Attribute(part.id, lineno=node.lineno, parent=agent.current)
                    agent.current.set_member(part.id, constant)


@cache
def package() -> Any:
    """The package, as griffe reads it."""
    return griffe.load("unojax", search_paths=[ROOT], extensions=griffe.load_extensions(Unpacked()))


def module_of(path: str) -> Any:
    """A module of the package by its full name."""
    return package()[path.partition(".")[2]] if "." in path else package()


def _home(source: Any) -> tuple[str, str]:
    path, _, attribute = source.path.rpartition(".")
    return path, attribute


@cache
def _top_level() -> dict[tuple[str, str], str]:
    """Homes of what `unojax` itself exports: it loads its parts when they are asked for, by the table `_HOMES`."""
    homes = ast.literal_eval(str(package()["_HOMES"].value))
    return {_home(_final(module_of(f"unojax.{part}"), name)): f"unojax.{name}" for part, names in homes.items() for name in names}


def _final(module: Any, name: str) -> Any:
    """Return the definition of a name."""
    while name in module.imports:
        home, _, name = module.imports[name].rpartition(".")
        module = module_of(home)
    return module.members[name]


def public(module: str) -> list[Any]:
    """Sources of the public names of a module: its `__all__`, what `unojax` exports first; else what it defines itself."""
    found = module_of(module)
    if found.exports is None:
        return [m for name, m in found.members.items() if not (m.is_alias or m.is_module or name.startswith("_"))]
    sources = [_final(found, str(name)) for name in found.exports]
    files = list(dict.fromkeys(source.filepath for source in sources))
    return sorted(sources, key=lambda s: (_home(s) not in _top_level(), files.index(s.filepath), s.lineno or 0))


def pages() -> dict[str, list[str]]:
    """Modules that each page of the reference shows."""
    told = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PAGES.glob("*.rst"))}
    return {page: re.findall(r"^\.\. names:: (\S+)$", text, re.MULTILINE) for page, text in told.items()}


@cache
def shown() -> dict[str, list[Name]]:
    """Names that the reference shows under each module: all of its public ones that are not shown somewhere else."""
    taken: set[tuple[str, str]] = set()
    found: dict[str, list[Name]] = {}
    # A package speaks for its parts.
    for module in sorted((module for modules in pages().values() for module in modules), key=lambda name: name.count(".")):
        found[module] = []
        for source in public(module):
            if (home := _home(source)) not in taken:
                taken.add(home)
                found[module].append(Name(_top_level().get(home, f"{module}.{home[1]}"), *home, source))
    return found


@cache
def homes() -> dict[str, str]:
    """As what a name is shown, by where it is defined."""
    return {f"{name.home}.{name.attribute}": name.shown for names in shown().values() for name in names}


# -- Docstrings as Markdown ------------------------------------------------------------------------------------------------------


def to_markdown(docstring: str) -> str:
    """Turn the sections of a docstring into lists; all else of it is Markdown already."""
    lines: list[str] = []
    section = ""
    for line in docstring.splitlines():
        text = re.sub(r"`[^`]*`|<", lambda found: "\\<" if found[0] == "<" else found[0], line)
        if found := _SECTION.match(line):
            section = found[1]
            lines += ["", f"**{section.replace('Args', 'Parameters')}**", ""]
        elif section and line.startswith("    "):
            item = _ITEM.fullmatch(text[4:]) if section not in ("Returns", "Yields") else None
            starred = item[1].replace("*", "\\*") if item else ""
            lines.append(f"- **{starred}**: {item[2]}" if item else text[4:].replace("    ", "  ", 1))
        else:
            section = section if not line else ""
            lines.append(line if line.startswith("    ") else text)
    return "\n".join(_fenced(lines))


def _fenced(lines: list[str]) -> Iterator[str]:
    """Keep paragraphs of aligned columns as they are."""
    for block in re.split(r"\n{2,}", "\n".join(lines)):
        rows = block.split("\n")
        columns = sum(bool(re.search(r"\S {2,}\S", row)) for row in rows)
        is_code = len(rows) > 2 and columns >= 0.6 * len(rows) and not rows[0].startswith(("    ", "- ", "* ", "|"))
        yield from ["```text", *rows, "```", ""] if is_code else [*rows, ""]


def _indented(text: str) -> list[str]:
    return [f"   {line}" if line else "" for line in text.splitlines()]


def _qualified(annotation: Any) -> Any:
    """Give the names of the package their full names, of which Sphinx shows the last part: two classes may have one name."""
    for part in annotation.iterate() if isinstance(annotation, griffe.Expr) else ():
        if isinstance(part, griffe.ExprName):
            home, _, name = part.canonical_path.rpartition(".")
            if home.startswith("unojax"):
                part.name = homes().get(_final(module_of(home), name).path, part.name)
    return annotation


def _signature(name: str, function: Any) -> str:
    """Return the signature of a function without `self`; a constructor has no return type."""
    for annotation in (*(parameter.annotation for parameter in function.parameters), function.returns):
        _qualified(annotation)
    told = function.signature(return_type=function.name != "__init__", name=name)
    return re.sub(r"\((self|cls)(, |(?=\)))", "(", told, count=1) if function.parent.is_class else told


def directive(name: str, source: Any, module: str | None) -> list[str]:
    """The definition of a name, as reStructuredText with its docstring in Markdown inside."""
    said = source.docstring.value if source.docstring else ""
    options = [f"   :module: {module}"] if module else []
    inner: list[str] = []
    if source.is_class:
        start = source.members.get("__init__")
        is_written = start is not None and start.lineno
        head = f"class:: {_signature(name, start) if is_written else name}"
        said += f"\n\n{start.docstring.value}" if is_written and start.docstring else ""
        for key, member in source.members.items():
            if not key.startswith("_") and not member.is_alias and member.docstring:
                inner += directive(key, member, None)
    elif source.is_function:
        head = f"{'function' if module else 'method'}:: {_signature(name, source)}"
    elif "property" in source.labels:
        head, options = f"property:: {name}", [f"   :type: {_qualified(source.annotation)}"] if source.annotation else []
    else:
        value = str(source.value or "")
        head, options = (
            f"{'data' if module else 'attribute'}:: {name}",
            options + [f"   :value: {value}"] * (0 < len(value) < 70 and "\n" not in value),
        )
    told = [f".. py:{head}", *options, ""]
    told += _indented("\n".join([".. markdown::", "", *_indented(to_markdown(said))])) if said else []
    return [*told, "", *_indented("\n".join(inner)), ""]


# -- In Sphinx -------------------------------------------------------------------------------------------------------------------


def find(env: Any, target: str, module: str = "") -> str | None:
    """The object that a name means: its full name, perhaps less `unojax.` or the present module, or its home."""
    objects = env.get_domain("py").objects
    part = f"unojax.{module.split('.')[1]}" if "." in module else "unojax"
    for full in (target, f"unojax.{target}", f"{module}.{target}", f"{part}.{target}"):
        head, _, last = full.rpartition(".")
        for one in (full, homes().get(full), f"{homes().get(head, head)}.{last}"):
            if one in objects:
                return one
    return None


def setup(app: Any) -> dict[str, bool]:
    """Add the directives, and the links to what they define."""
    from docutils import nodes
    from docutils.utils import new_document
    from myst_parser.parsers.sphinx_ import MystParser
    from sphinx.addnodes import desc, pending_xref
    from sphinx.transforms.post_transforms import SphinxPostTransform
    from sphinx.util.docutils import SphinxDirective

    class Markdown(SphinxDirective):
        """`.. markdown::`: its content is Markdown."""

        has_content = True

        def run(self) -> list[nodes.Node]:
            document = new_document(self.get_source_info()[0], self.state.document.settings)
            MystParser().parse("\n".join(self.content), document)
            return document.children

    class Names(SphinxDirective):
        """`.. names:: MODULE`"""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            module = module_of(self.arguments[0])
            for path in (module.filepath, __file__):
                self.env.note_dependency(str(path))
            heading = f"``{module.path}``"
            told = [heading, "-" * len(heading), "", f".. py:module:: {module.path}", ""]
            told += [".. markdown::", "", *_indented(to_markdown(module.docstring.value)), ""] if module.docstring else []
            for name in shown()[module.path]:
                home, _, attribute = name.shown.rpartition(".")
                self.env.note_dependency(str(name.source.filepath))
                told += directive(attribute, name.source, home)
            return self.parse_text_to_nodes("\n".join(told), allow_section_headings=True)

    class Docstring(SphinxDirective):
        """`.. docstring:: MODULE`"""

        required_arguments = 1

        def run(self) -> list[nodes.Node]:
            module = module_of(self.arguments[0])
            self.env.note_dependency(str(module.filepath))
            return self.parse_text_to_nodes("\n".join([".. markdown::", "", *_indented(to_markdown(module.docstring.value))]))

    def link(env: Any, page: str, name: str, content: nodes.Element) -> nodes.reference:
        entry = env.get_domain("py").objects[name]
        address = env.app.builder.get_relative_uri(page, entry.docname)
        return nodes.reference("", "", content, internal=True, refuri=f"{address}#{entry.node_id}", reftitle=name)

    def resolve(app: Any, env: Any, node: pending_xref, content: nodes.Element) -> nodes.Element | None:
        found = find(env, node["reftarget"], node.get("py:module") or "") if node.get("refdomain") == "py" else None
        return None if found is None else link(env, node["refdoc"], found, content)

    class Links(SphinxPostTransform):
        """Code that is a name of the package leads to the reference: any in the reference itself, full names elsewhere."""

        default_priority = 20
        formats = ("html",)

        def run(self, **kwargs: Any) -> None:
            for node in list(self.document.findall(nodes.literal)):
                text, outer = node.astext().removesuffix("()"), node.parent
                if not _CODE_NAME.fullmatch(text) or isinstance(outer, nodes.reference | pending_xref | nodes.title):
                    continue
                while outer is not None and not isinstance(outer, desc):
                    outer = outer.parent
                is_reference = self.env.docname.startswith("reference/")
                # A bare `rules` is an argument, and no module.
                is_argument = "." not in text and text in package().members and package().members[text].is_module
                if text.startswith("unojax.") or (is_reference and not is_argument):
                    module = outer[0].get("module", "") if outer is not None else ""
                    if (found := find(self.env, text, module or "")) is not None:
                        node.replace_self(link(self.env, self.env.docname, found, node.deepcopy()))

    app.add_directive("markdown", Markdown)
    app.add_directive("names", Names)
    app.add_directive("docstring", Docstring)
    app.connect("missing-reference", resolve)
    app.add_post_transform(Links)
    return {"parallel_read_safe": True}
