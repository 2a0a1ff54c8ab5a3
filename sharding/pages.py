"""Page through the items of a batch: which are done, which are dead and why, which are left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.orm import Session

from sharding.reading import UnreadableItem, read

State = Literal["done", "dead", "left"]

_LEFT: Final = """EXISTS (SELECT 1 FROM smena.batch_slices AS s
                          WHERE s.batch = i.batch AND i.number BETWEEN s.first AND s.last)"""
_MARKED: Final = "EXISTS (SELECT 1 FROM smena.batch_marks AS m WHERE m.batch = i.batch AND m.number = i.number)"
_PAGE: Final = """
SELECT i.number, CAST(i.item AS text) AS item, d.attempts, d.reason, d.error_text,
       (SELECT k.key FROM smena.batch_keys AS k WHERE k.batch = i.batch AND k.first <= i.number
        ORDER BY k.first DESC LIMIT 1) AS key
FROM smena.batch_items AS i
LEFT JOIN smena.batch_dead AS d ON d.batch = i.batch AND d.number = i.number
WHERE i.batch = :batch AND i.number > :after AND {condition}
ORDER BY i.number LIMIT :limit
"""
_PAGES: Final[dict[State, sa.TextClause]] = {
    "dead": sa.text(_PAGE.format(condition="d.number IS NOT NULL")),
    "left": sa.text(_PAGE.format(condition=f"{_LEFT} AND NOT {_MARKED}")),
    "done": sa.text(_PAGE.format(condition=f"d.number IS NULL AND (NOT {_LEFT} OR {_MARKED})")),
}


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a batch and how it stands; ``reason`` and ``error`` say why one is dead, ``key`` is for partitions.

    ``item`` is its value or, where it has none that can be read, the JSON text that PostgreSQL holds.
    """

    number: int
    item: Any
    state: State
    attempts: int | None = None
    reason: str | None = None
    error: str | None = None
    key: str | None = None


def items(
    session: Session | sa.Connection, batch: int, state: State, *, after: int = -1, limit: int = 1000
) -> Iterator[Item]:
    """Page through the items in one state, in order; pass the last one's number as ``after`` for the next page."""
    rows = session.execute(_PAGES[state], {"batch": batch, "after": after, "limit": limit})
    return (
        Item(row.number, _value(row.item), state, row.attempts, row.reason, row.error_text, row.key) for row in rows
    )


def _value(text: str) -> Any:
    try:
        return read(text)
    except UnreadableItem:
        return text
