"""Hold the declaration of one kind of event, and one occurrence of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["debug", "info", "warning", "error"]
LEVELS: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """One kind of event: its name `subject.happened`, level, meaning, and the fields it carries.

    Compared and hashed by identity: each kind is declared once, in the catalogue.
    """

    name: str
    level: Level
    doc: str
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def severity(self) -> int:
        """Return the level as a number, as `logging` counts it."""
        return LEVELS[self.level]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event that happened, with its fields."""

    event: Event
    fields: Mapping[str, Any]
