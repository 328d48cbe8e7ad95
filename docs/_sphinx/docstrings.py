"""Docstrings as pages: they are written as plain text with Markdown's habits, and Sphinx reads reStructuredText."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import unojax

_CODE = re.compile(r"(`+)(.+?)\1")
# What reStructuredText takes for markup, and a formula or a shape means as it stands.
_MARKUP = re.compile(r"(?<![\w*])\*[A-Za-z][^*]*(?<=\w)\*(?![\w*])|\\|\||(?<!\*)\*(?!\*)|(?<=\w)_(?!\w)")
_SECTIONS = re.compile(r"(Args|Attributes|Returns|Raises|Yields|Errors):$")
_ITEM = re.compile(r"([*-]|\d+\.) ")
_COLUMN = re.compile(r"(\S.*?) {2,}(\S)")
_COLUMNS = re.compile(r"\S.*? {2,}\S")


# An alias within a union is shown by how Sphinx holds it, or by what it stands for.
_ARRAY_LIKE = re.compile(
    r"TypeAliasForwardRef\('ArrayLike'\)"
    r"|~?[\w.]*\bArray \| ~?[\w.]*ndarray \| ~?[\w.]*bool \| ~?[\w.]*number \| bool \| int \| float \| complex"
)


def to_rst(lines: list[str]) -> list[str]:
    """Turn a docstring, its indentation taken off, into reStructuredText.

    A block that is indented below a paragraph is code, as is one of aligned columns; single backquotes stay (the default role
    links them), and what would be markup by accident is escaped.
    """
    given: list[str] = []
    done: list[str] = []
    place = 0
    in_section = False
    while place < len(lines):
        line = lines[place]
        starts_block = not given or not given[-1].strip()
        if _SECTIONS.match(line.strip()):
            in_section = True
        elif line.strip() and not line.startswith(" "):
            in_section = False
        block = _block(lines, place)
        code = starts_block and not in_section and _is_code(block)
        # Inside a section an indented block stands 8 columns deep, below a description.
        code = code or (starts_block and in_section and line.startswith(" " * 12) and _is_code(block))
        if line.startswith("| ") and starts_block:
            done += _table(block)
        elif code and (rows := _rows(block)) and not in_section:
            done += _list(rows)
        elif code:
            end = len(block)
            # A blank line within code is code if what follows is indented too.
            while place + end + 1 < len(lines) and line.startswith(" ") and lines[place + end + 1].startswith("    "):
                end += 1 + len(_block(lines, place + end + 1))
            block = lines[place : place + end]
            done += _code_block(block, 8 if in_section else 0)
        elif not line.strip():
            done.append("")
            block = [line]
        else:
            block = [line]
            done.append(_escaped(line))
        given += block
        place += len(block)
    return done


def _code_block(block: list[str], depth: int) -> list[str]:
    code = textwrap.indent(textwrap.dedent("\n".join(block)), " " * 4).split("\n")
    return ["", *(" " * depth + row for row in (".. code-block:: text", "", *code)), ""]


def _block(lines: list[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return lines[start:end]


def _is_code(block: list[str]) -> bool:
    if not block:
        return False
    if block[0].startswith("    "):
        return not _ITEM.match(block[0].strip())
    return len(block) > 2 and sum(bool(_COLUMNS.match(row)) for row in block) >= 0.6 * len(block)


def _rows(block: list[str]) -> list[tuple[str, str]]:
    """Read a block of two columns, names and words on them, which may go on in the next line; none if it is something else."""
    rows: list[tuple[str, str]] = []
    for line in textwrap.dedent("\n".join(block)).splitlines():
        found = _COLUMN.match(line)
        if found is not None:
            rows.append((found[1], line[found.start(2) :]))
        elif rows and line.startswith(" "):
            rows[-1] = (rows[-1][0], f"{rows[-1][1]} {line.strip()}")
        else:
            return []
    if any("  " in said for _, said in rows):
        return []
    words = all(re.match(r"[\w`\"(]", said) for _, said in rows) and sum(said.count(" ") for _, said in rows) > len(rows)
    return rows if words and len(rows) > 2 else []


def _list(rows: list[tuple[str, str]]) -> list[str]:
    told = [""]
    for name, said in rows:
        told += [f"``{name}``", f"    {_escaped(said)}", ""]
    return told


def _table(block: list[str]) -> list[str]:
    rows = [[_escaped(cell.strip()) for cell in row.strip("| ").split(" | ")] for row in block if not set(row) <= set("|- ")]
    width = max(map(len, rows))
    told = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in rows:
        cells = row + [""] * (width - len(row))
        told += [f"   {'*' if number == 0 else ' '} - {cell}" for number, cell in enumerate(cells)]
    return [*told, ""]


def _escaped(line: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    text = line[len(indent) :]
    bullet = ""
    if text.startswith("* "):
        bullet, text = "* ", text[2:]
    told, last = [], 0
    for code in _CODE.finditer(text):
        told += [_MARKUP.sub(_plain, text[last : code.start()]), _code(code)]
        last = code.end()
    told.append(_MARKUP.sub(_plain, text[last:]))
    return indent + bullet + "".join(told)


def _plain(found: re.Match[str]) -> str:
    # *Emphasis* is meant.
    return found[0] if len(found[0]) > 2 else f"\\{found[0]}"


def _code(found: re.Match[str]) -> str:
    inner = found[2]
    # Whole expressions can't be names, and a role would stumble over some of them.
    name = re.fullmatch(r"[A-Za-z_][\w.]*(\(\))?", inner)
    # A bare `rules` is an argument, and no module.
    return f"`{inner}`" if name and inner not in unojax._SUBMODULES else f"``{inner}``"


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = to_rst(lines)
    if what in ("attribute", "data", "property"):
        # Napoleon would take what stands before a colon in the first line for the type; this one is an empty comment.
        lines[:0] = ["..", ""]


def _sign(app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None) -> tuple[Any, Any]:
    return signature and _ARRAY_LIKE.sub("ArrayLike", signature), returns and _ARRAY_LIKE.sub("ArrayLike", returns)


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    # What Python itself says of a named tuple and its fields, and flax of a dataclass.
    made = ("Alias for field number", "Create new instance of", "Returns a new object replacing the specified fields")
    return True if str(getattr(obj, "__doc__", "")).startswith(made) else None


def setup(app: Any) -> dict[str, bool]:
    """Convert before napoleon reads sections of arguments."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-process-signature", _sign)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
