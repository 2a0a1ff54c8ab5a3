"""List every setting by its key, with what is known about it.

A key reads `group.field`, or `field` at the top. Its environment variable is `SMENA_GROUP_FIELD`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from smena.settings.kinds import SecretValues, Unit
from smena.settings.model import Settings

PREFIX = "SMENA_"
SECOND_NAMES = {"amqp.urls": ("SMENA_AMQP_URL",)}
"""Variables that are another name of a setting's own."""

_WORDS = {"str": "name", "int": "whole number", "float": "number", "Path": "path", "SecretStr": "secret address"}


@dataclass(frozen=True, slots=True)
class Key:
    """One setting: its name, its variables (the first is its own), and its reference line."""

    path: str
    variables: tuple[str, ...]
    default: Any
    kind: str
    unit: str
    bounds: str
    doc: str
    secret: bool

    @property
    def group(self) -> str:
        """Return the group's name, empty at the top."""
        return self.path.rpartition(".")[0]


@functools.cache
def keys() -> dict[str, Key]:
    """Return all settings by key, in the order of the code; the section `app` is not among them."""
    return {key.path: key for key in _walk(Settings, "")}


@functools.cache
def keys_by_variable() -> dict[str, Key]:
    """Return all settings by environment variable."""
    return {variable: key for key in keys().values() for variable in key.variables}


def _walk(model: type[BaseModel], group: str) -> Iterator[Key]:
    for name, field in model.model_fields.items():
        if name == "app" and not group:
            continue
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _walk(field.annotation, name)
        else:
            yield _key(f"{group}.{name}" if group else name, field)


def _key(path: str, field: FieldInfo) -> Key:
    metadata = [*field.metadata, *_inner_metadata(field.annotation)]
    own = PREFIX + path.replace(".", "_").upper()
    return Key(
        path=path,
        variables=(own, *SECOND_NAMES.get(path, ())),
        default=field.default,
        kind=_kind(field.annotation),
        unit=next((item.name for item in metadata if isinstance(item, Unit)), ""),
        bounds=_bounds(field.annotation, metadata),
        doc=" ".join((field.description or "").split()),
        secret=_is_secret(field.annotation, metadata),
    )


def _inner_metadata(annotation: Any) -> list[Any]:
    """Return what `Annotated` says inside a union, where pydantic leaves it."""
    found: list[Any] = []
    for part in get_args(annotation):
        if get_origin(part) is Annotated:
            _, *metadata = get_args(part)
            found += [inner for item in metadata for inner in (getattr(item, "metadata", None) or [item])]
    return found


def _bounds(annotation: Any, metadata: list[Any]) -> str:
    if get_origin(annotation) is Literal:
        return " | ".join(get_args(annotation))
    low = next((item.ge for item in metadata if isinstance(item, Ge)), None)
    high = next((item.le for item in metadata if isinstance(item, Le)), None)
    return "" if low is None and high is None else f"{low} – {high}"


def _kind(annotation: Any) -> str:
    """Return a word for the type, as a reader of the reference page would say it."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return "word"
    if get_origin(annotation) is tuple:
        each = _kind(get_args(annotation)[0])
        return f"list of {each}{'es' if each.endswith('s') else 's'}"
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if parts:
        return _kind(parts[0])
    name: str = annotation.__name__
    return _WORDS.get(name, name)


def _is_secret(annotation: Any, metadata: list[Any]) -> bool:
    return any(isinstance(item, SecretValues) for item in metadata) or "SecretStr" in repr(annotation)
