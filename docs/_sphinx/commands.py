"""The commands of `unojax` as their sources have them.

`.. commands::` lists the options that the parser reads, `.. json-fields::` the fields of the dataclasses behind the JSON, and
`.. rules-in-words:: PRESET` the rules of a preset.
"""

from __future__ import annotations

import json
import re
import warnings
from argparse import Action
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from unojax import cli
from unojax.cli.output import Setting
from unojax.cli.reports import command_schema, reports, schema_of

_SHARED = "rules options"


def groups_of(command: str) -> tuple[str, dict[str, list[Action]]]:
    """What a command does, and its options by group."""
    import tyro

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        parser = tyro.extras.get_parser(cli.commands()[command], prog=f"unojax {command}")
    groups = {
        group.title or "": [a for a in group._group_actions if "-h" not in a.option_strings] for group in parser._action_groups
    }
    return _escaped(" ".join((parser.description or "").split())), groups


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def _option(action: Action) -> list[str]:
    shown = " ".join(filter(None, [", ".join(action.option_strings), str(action.metavar or "")]))
    help, _, default = str(action.help or "").removesuffix(")").rpartition(" (default: ")
    told = re.sub(r"(?<!\w)(--[a-z][a-z-]*(?: N)?)", r"``\1``", _escaped(help or str(action.help or "")))
    if help and default != "None" and (action.metavar or default != "False"):
        told += f" Default: ``{default}``."
    return [f".. option:: {shown.replace('{None,True,False}', '{True,False}')}", "", f"   {told}", ""]


def _section(label: str, title: str, program: str) -> list[str]:
    return [f".. _{label}:", "", title, "-" * len(title), "", f".. program:: {program}", ""]


class Commands(SphinxDirective):
    """Every command: what it does and its options; those of the rules once, since they are the same for all."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(cli.__file__ or "")
        told: list[str] = []
        rules: list[Action] = []
        for command in cli.commands():
            about, groups = groups_of(command)
            shared = groups.pop(_SHARED, [])
            rules = shared if command == "rules" else rules
            actions = [action for group in groups.values() for action in group]
            told += [*_section(f"unojax-{command}", f"``unojax {command}``", f"unojax {command}"), about, ""]
            told += [line for action in actions for line in _option(action)]
            if any("--json" in action.option_strings for action in actions):
                told += [f"Its results as JSON: :ref:`json-{command}`.", ""]
            if shared:
                told += ["And the :ref:`options of the rules <options-of-the-rules>`.", ""]
        told += _section("options-of-the-rules", "Options of the rules", "unojax")
        told += [line for action in rules for line in _option(action)]
        return self.parse_text_to_nodes("\n".join(told), allow_section_headings=True)


def _kind(schema: dict[str, Any]) -> tuple[str, dict[str, Any] | None, str]:
    """Return a type in words, the object with named fields inside it, if any, and the way from here to that object."""
    if "anyOf" in schema:
        kinds = [_kind(each) for each in schema["anyOf"]]
        return " or ".join(words for words, _, _ in kinds), *kinds[0][1:]
    if "enum" in schema:
        return " or ".join(f'`"{each}"`' for each in schema["enum"]), None, ""
    if "properties" in schema:
        return "object", schema, "."
    each = schema.get("items") or next(iter(schema.get("prefixItems", ())), None) or schema.get("additionalProperties")
    if each is None:
        return schema["type"], None, ""
    words, inner, way = _kind(each)
    outer = {"array": "list", "object": "object"}[schema["type"]]
    return f"{outer} of {words.replace('list', 'lists', 1) if words.startswith('list') else words + 's'}", inner, f"[]{way}"


def _fields(schema: dict[str, Any], path: str, seen: dict[str, str]) -> Iterator[str]:
    """Return a definition list of all fields, in Markdown; those of a type that was `seen` are not listed again."""
    for name, field in schema["properties"].items():
        words, inner, way = _kind(field)
        is_new = inner is not None and inner["title"] not in seen
        like = "" if inner is None or is_new else f", as `{seen[inner['title']]}`"
        yield from (f"`{path}{name}` ({words}{like})", f": {field['description']}", "")
        if inner is not None and is_new:
            seen[inner["title"]] = path + name
            yield from _fields(inner, f"{path}{name}{way}", seen)


class JsonFields(SphinxDirective):
    """The fields of the JSON: those that commands share, then each command's own with its schema."""

    def run(self) -> list[nodes.Node]:
        told = list(_fields(schema_of(Setting), "", {"Rules": "unojax.Rules"}))
        for command, (report, *_) in reports().items():
            told += [f"(json-{command})=", "", f"## `unojax {command}`", ""]
            told += [f"Schema: {{download}}`{command}.json <../schemas/{command}.json>`", "", *_fields(schema_of(report), "", {})]
        return self.parse_text_to_nodes("\n".join(told), allow_section_headings=True)


class RulesInWords(SphinxDirective):
    """The rules of a preset, as `unojax rules` prints them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from unojax.rules import PRESETS
        from unojax.text.rules import rules_in_words

        told = []
        for heading, sentences in rules_in_words(PRESETS[self.arguments[0]]).items():
            told += [f"**{heading}**", "", *(line for sentence in sentences for line in (f"* {_escaped(sentence)}", "")), ""]
        return self.parse_text_to_nodes("\n".join(told))


def setup(app: Any) -> dict[str, bool]:
    """Add the directives, and write the schemas that a page offers."""
    folder = Path(app.srcdir) / "schemas"
    folder.mkdir(exist_ok=True)
    for command in reports():
        (folder / f"{command}.json").write_text(json.dumps(command_schema(command), indent=2) + "\n", encoding="utf-8")
    app.add_directive("commands", Commands)
    app.add_directive("json-fields", JsonFields)
    app.add_directive("rules-in-words", RulesInWords)
    return {"parallel_read_safe": True}
