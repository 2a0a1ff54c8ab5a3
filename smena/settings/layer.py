"""Hold the values that one source gave, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Found:
    """A value and where it was found, in words (`SMENA_WORKER_THREADS`)."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """Values by key: `worker.threads`, `books`, `app.mail_url`."""

    found: Mapping[str, Found] = field(default_factory=dict)

    def nested(self) -> dict[str, Any]:
        """Return the values as pydantic takes them: a mapping for each group."""
        tree: dict[str, Any] = {}
        for key, found in self.found.items():
            group, _, name = key.rpartition(".")
            branch = tree.setdefault(group, {}) if group else tree
            branch[name] = found.value
        return tree
