"""List every setting with its value and where that came from, fit for a screen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from smena.settings.key import Key, keys
from smena.settings.masking import MASK, masked
from smena.settings.model import Settings


@dataclass(frozen=True, slots=True)
class Line:
    """One setting as it is now; ``value`` is text with its secrets masked."""

    key: str
    value: str
    unit: str
    source: str


def lines(settings: Settings) -> Iterator[Line]:
    """Yield all settings in the order of the code, then what the section `app` holds, masked."""
    for key in keys().values():
        yield Line(key.path, _shown(settings, key), key.unit, settings.sources.get(key.path, "default"))
    for name in settings.app:
        yield Line(
            f"app.{name}", MASK, "", settings.sources.get(f"app.{name}", "")
        )  # only its model knows if it is secret


def _shown(settings: Settings, key: Key) -> str:
    value: Any = settings
    for name in key.path.split("."):
        value = getattr(value, name)
    if isinstance(value, float):
        return f"{value:g}"
    return masked(value)
