"""The commands of `unojax` with their options, from the parser that reads them: `.. commands::`; `.. rules-in-words:: PRESET`."""

from __future__ import annotations

import re
import warnings
from argparse import Action, ArgumentParser
from typing import Any

import names
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from unojax import cli

_SHARED = "rules options"
_BOOLEAN = "{None,True,False}"


def parser_of(command: str) -> ArgumentParser:
    """The parser of a command."""
    import tyro

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return tyro.extras.get_parser(cli.commands()[command], prog=f"unojax {command}")


def _groups(parser: ArgumentParser) -> dict[str, list[Action]]:
    return {
        group.title or "": [a for a in group._group_actions if "-h" not in a.option_strings] for group in parser._action_groups
    }


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)


def _option(action: Action) -> list[str]:
    shown = " ".join([", ".join(action.option_strings), *([str(action.metavar)] if action.metavar else [])]).strip()
    help, _, default = str(action.help or "").rpartition(" (default: ")
    if not help:
        help, default = str(action.help or ""), ""
    told = _escaped(help)
    told = re.sub(r"(?<!\w)(--[a-z][a-z-]*(?: N)?)", r"``\1``", told)
    default = default.removesuffix(")")
    if default not in ("", "None") and (action.metavar or default != "False"):
        told += f" Default: ``{default}``."
    return [f".. option:: {shown.replace(_BOOLEAN, '{True,False}')}", "", f"   {told}", ""]


class Commands(SphinxDirective):
    """Every command: what it does and its options; those of the rules once, since they are the same for all."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(names.PACKAGE / "cli" / "__init__.py"))
        told: list[str] = []
        rules: list[Action] = []
        for command in cli.commands():
            parser = parser_of(command)
            groups = _groups(parser)
            label = f"unojax-{command}"
            title = f"``unojax {command}``"
            about = _escaped(" ".join((parser.description or "").split()))
            told += [f".. _{label}:", "", title, "-" * len(title), "", about, "", f".. program:: unojax {command}", ""]
            rules = groups.pop(_SHARED, []) or rules
            for actions in groups.values():
                for action in actions:
                    told += _option(action)
            if any("--json" in action.option_strings for actions in groups.values() for action in actions):
                told += [f"Its results as JSON: :ref:`json-{command}`.", ""]
            if _SHARED in _groups(parser):
                told += ["And the :ref:`options of the rules <options-of-the-rules>`.", ""]
        told += [".. _options-of-the-rules:", "", "Options of the rules", "--------------------", "", ".. program:: unojax", ""]
        for action in rules:
            told += _option(action)
        return self.parse_text_to_nodes(StringList(told, source="commands"), allow_section_headings=True)


class RulesInWords(SphinxDirective):
    """The rules of a preset, as `unojax rules` prints them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        from unojax.rules import PRESETS
        from unojax.text.rules import rules_in_words

        told = []
        for heading, sentences in rules_in_words(PRESETS[self.arguments[0]]).items():
            told += [f"**{heading}**", "", *(line for sentence in sentences for line in (f"* {_escaped(sentence)}", "")), ""]
        return self.parse_text_to_nodes(StringList(told, source="rules"))


def setup(app: Any) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("commands", Commands)
    app.add_directive("rules-in-words", RulesInWords)
    return {"parallel_read_safe": True}
