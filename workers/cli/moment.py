"""Print a moment the same way in every command that people read; JSON has it whole."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(at: datetime) -> str:
    """Return it in UTC, to the second: `2026-01-05 09:12:44Z`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def readable(value: object) -> str:
    """Return a field of a record as text; none is empty."""
    if isinstance(value, datetime):
        return utc(value)
    return "" if value is None else str(value)
