"""Dataclasses of arrays, as `flax.struct` has them, without its slow import."""

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
    """Decorate a class as a frozen dataclass and pytree with a method `replace(**changes)`; `repr` shows it by field."""
    if cls is None:
        return partial(dataclass, repr=repr)
    if repr and "__repr__" not in vars(cls):
        cls.__repr__ = by_field
    cls = dataclasses.dataclass(frozen=True, repr=False)(cls)
    cls.replace = dataclasses.replace
    static = [each.name for each in dataclasses.fields(cls) if not each.metadata.get("pytree_node", True)]
    data = [each.name for each in dataclasses.fields(cls) if each.name not in static]
    return jax.tree_util.register_dataclass(cls, data, static)


def by_field(record: Any) -> str:
    """Return a dataclass or named tuple as text by field: numbers by value, arrays by type and shape.

    Fields may hold any object, such as the shapes from `jax.tree.map(jnp.shape, record)`.
    """
    names = [each.name for each in dataclasses.fields(record)] if dataclasses.is_dataclass(record) else record._fields
    shown = ", ".join(f"{name}={_brief(getattr(record, name))}" for name in names)
    return f"{type(record).__name__}({shown})"


def _brief(value: Any) -> str:
    if hasattr(value, "_fields"):
        return by_field(value)
    if type(value) is tuple and any(map(_is_array, value)):
        return f"({', '.join(map(_brief, value))})"
    return _brief_array(value) if _is_array(value) else repr(value)


def _brief_array(value: Any) -> str:
    # A tracer, a result of `eval_shape` and a donated array have no value.
    if value.shape == () and hasattr(value, "item"):
        try:
            return f"{number:.6g}" if isinstance(number := value.item(), float) else repr(number)
        except Exception:
            pass
    return f"{value.dtype}[{','.join(map(str, value.shape))}]"


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
