"""Print a moment the same way in every command."""

from __future__ import annotations

from datetime import UTC, datetime


def told(at: datetime) -> str:
    """Return it in UTC, to the second: `2026-01-05 09:12:44Z`."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
