"""`unojax --version`: information for bug reports. Imports none of the listed libraries."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from typing import Final

from unojax import __version__

_NO_PART: Final = ("all", "dev", "docs", "test")
"""Extras whose libraries do not affect results, and the sum of the others."""
_BUILDS: Final = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "jax-rocm60-plugin")
"""Packages of JAX for devices other than the CPU, by their installed names."""


def describe() -> str:
    """Return the versions of the package, Python, JAX and installed dependencies."""
    required, optional = _libraries()
    facts = {
        "Python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "device": f"{_device()}; results name it",
    }
    told = [f"unojax {__version__}", *_columns(facts), "", "needs", *_columns(_installed(required))]
    if found := _installed(optional):
        told += ["", "optional, installed", *_columns(found)]
    return "\n".join(told)


def _device() -> str:
    builds = [f"{build} {version}" for build, version in _installed(list(_BUILDS)).items()]
    asked = f", JAX_PLATFORMS={os.environ['JAX_PLATFORMS']}" if "JAX_PLATFORMS" in os.environ else ""
    return (", ".join(builds) or "JAX's build for CPUs") + asked


def _libraries() -> tuple[list[str], list[str]]:
    """Read the required and optional libraries from the package's metadata."""
    try:
        lines = metadata.requires("unojax") or []
    except metadata.PackageNotFoundError:
        # Source files without an installation.
        lines = ["jax"]
    required, optional = ["jaxlib"], []
    for line in lines:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0].lower()
        extra = re.search(r"extra == ['\"]([\w-]+)", line)
        if extra is None:
            required.append(name)
        elif name != "unojax" and extra[1] not in _NO_PART:
            optional.append(name)
    return sorted(set(required)), sorted(set(optional) - set(required))


def _installed(libraries: list[str]) -> dict[str, str]:
    found = {}
    for name in libraries:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _columns(rows: dict[str, str]) -> list[str]:
    width = max(map(len, rows), default=0)
    return [f"  {name:{width}}  {said}" for name, said in rows.items()]
