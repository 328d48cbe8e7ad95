"""Run the code on pages of Markdown: README and documentation."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_FENCE = re.compile(r"^```(?P<kind>\S[^\n]*)?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"(?<![\w+.])\d+(?:\.\d+)?(?!\w)")
_CAPTION = re.compile(r":caption: (?P<file>\S+)\n\n?|(?=# (?P<first>\w+\.py)\n)")
_ADAPTERS = {"openspiel": "pyspiel", "process": "json", "encoding": "json"}
"""Libraries of adapters that have another name."""


class Block(NamedTuple):
    """A block of a page: `kind` is the word after the backquotes; `file` its caption, or `# NAME.py` in its first line."""

    kind: str
    text: str
    line: int
    file: str | None = None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        kind, body, line = fence["kind"] or "", fence["text"], text.count("\n", 0, fence.start()) + 2
        caption = _CAPTION.match(body)
        if caption is not None:
            body = body[caption.end() :]
        found.append(Block(kind.removeprefix("{code-block} "), body, line, caption and (caption["file"] or caption["first"])))
    return found


def missing_libraries(block: str) -> set[str]:
    """Return the libraries that a block imports and that are not installed."""
    names = set()
    for node in ast.walk(ast.parse(block)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    libraries = {name.partition(".")[0] for name in names}
    adapters = {name.split(".")[2] for name in names if re.match(r"unojax\.adapters\.\w", name)}
    libraries |= {_ADAPTERS.get(adapter, adapter) for adapter in adapters}
    return {library for library in libraries if importlib.util.find_spec(library) is None}


def run_page(page: Path, *, optional: frozenset[str] = frozenset(), commands: Mapping[str, str] | None = None) -> int:
    """Run a page in the current folder, and return the number of blocks that ran.

    A `python` block is run, or written if it is a file. It must print the `output` block below it, if any (`assert_printed`). A
    line `unojax ...` of an `sh` block is run as a command.

    Args:
        page: A file of Markdown.
        optional: Libraries whose blocks are skipped if they are not installed.
        commands: Replacements in commands and code, to save time. None: no commands are run.
    """
    namespace: dict[str, Any] = {"__name__": "page"}
    blocks = blocks_of(page)
    done = 0
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        where = f"{page.name}, line {block.line}"
        if block.kind == "sh" and commands is not None:
            done += _run_commands(block, commands, where)
        if block.kind != "python":
            continue
        if block.file is not None:
            Path(block.file).write_text(block.text, encoding="utf-8")
            continue
        if missing := missing_libraries(block.text):
            assert missing <= optional, where
            continue
        printed, text = io.StringIO(), _changed(block.text, commands or {})
        with contextlib.redirect_stdout(printed):
            # With its line numbers, for the traceback.
            exec(compile("\n" * (block.line - 1) + text, where, "exec"), namespace)
        if after is not None and after.kind == "output":
            assert_printed(printed.getvalue(), after.text, where)
        done += 1
    return done


def assert_printed(printed: str, shown: str, where: str) -> None:
    """Compare printed text with a page.

    Numbers with a decimal point or before a per cent sign are measured, and may differ by 2 in their last place.
    """
    assert _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", shown).split(), where
    for ours, theirs in zip(_NUMBER.finditer(printed), _NUMBER.finditer(shown), strict=True):
        decimals = theirs[0].partition(".")[2]
        is_measured = decimals or shown.startswith("%", theirs.end())
        allowed = 2.5 * 10.0 ** -len(decimals) if is_measured else 0.0
        assert abs(float(ours[0]) - float(theirs[0])) <= allowed, f"{where}: {ours[0]}, and not {theirs[0]}"


def _run_commands(block: Block, changes: Mapping[str, str], where: str) -> int:
    from unojax import cli

    lines = [line for line in block.text.splitlines() if line.startswith("unojax ")]
    for line in lines:
        command = _changed(line, changes)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = cli.main(shlex.split(command, comments=True)[1:])
        assert status == 0, f"{where}: {command}: {said.getvalue()}"
    return len(lines)


def _changed(text: str, changes: Mapping[str, str]) -> str:
    for part, instead in changes.items():
        text = text.replace(part, instead)
    return text
