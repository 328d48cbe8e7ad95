"""Docstrings as text for help and tables. Imports no JAX."""

from __future__ import annotations


def read_docstring(described: object) -> tuple[str, dict[str, str]]:
    """Return a docstring's first sentence, and the description of each argument or attribute on one line."""
    from docstring_parser import parse
    from docstring_parser.common import DocstringStyle

    read = parse(described.__doc__ or "", style=DocstringStyle.GOOGLE)
    meanings = {}
    for param in read.params:
        for key in param.arg_name.split(","):
            meanings[key.strip()] = " ".join((param.description or "").replace('"', "").split()).replace("None:", "none:")
    return (read.short_description or "").replace("`", ""), meanings
