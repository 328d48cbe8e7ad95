"""Dataclasses of arrays, in the form of `flax.struct`, whose import would take a tenth of a short command's time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, dataclass_transform, overload

import jax

_Class = TypeVar("_Class", bound=type)


def field(*, pytree_node: bool = True, **options: Any) -> Any:
    """Describe a field, as `dataclasses.field` does; without `pytree_node` it is static under `jit`."""
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **options)


@overload
def dataclass(cls: _Class) -> _Class: ...
@overload
def dataclass(*, repr: bool = ...) -> Callable[[_Class], _Class]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def dataclass(cls: Any = None, *, repr: bool = True) -> Any:
    """Make a class a frozen dataclass and a pytree, with a method `replace(**changes)`."""
    if cls is None:
        return partial(dataclass, repr=repr)
    cls = dataclasses.dataclass(frozen=True, repr=repr)(cls)
    cls.replace = dataclasses.replace
    static = [each.name for each in dataclasses.fields(cls) if not each.metadata.get("pytree_node", True)]
    data = [each.name for each in dataclasses.fields(cls) if each.name not in static]
    return jax.tree_util.register_dataclass(cls, data, static)
