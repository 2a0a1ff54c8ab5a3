"""Bound how many items of a batch one claim may take, by what the heaviest of them weigh.

A worker takes as many items as it has measured to be good; what it measured says nothing of items that it has not
seen. Two thousand of 600 kB that come after as many small ones would be more than PostgreSQL puts into one text, and
than a worker has memory for. So the worst claim that there can be is weighed once, when the batch is opened.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

MOST_BYTES: Final = 32 * 1024 * 1024
"""Of items as JSON text in one claim, whichever they are; one item that weighs more is taken alone."""

MOST_ITEMS: Final = 150_000
"""No claim has more, whatever its wish: `batches.largest_slice` is 100,000 at most."""

_HEAVIEST: Final = sa.text("SELECT max(octet_length(CAST(item AS text))) FROM smena.batch_items WHERE batch = :batch")
_FITTING: Final = sa.text("""
WITH heaviest AS (
    SELECT octet_length(CAST(item AS text)) AS bytes FROM smena.batch_items WHERE batch = :batch
    ORDER BY bytes DESC LIMIT :items
), summed AS (
    SELECT sum(bytes) OVER (ORDER BY bytes DESC ROWS UNBOUNDED PRECEDING) AS bytes FROM heaviest
)
SELECT count(*) FILTER (WHERE bytes <= :bytes) AS fitting, count(*) AS weighed FROM summed
""")


def largest_wish(connection: sa.Connection, batch: int, total: int) -> int | None:
    """Return for how many of the ``total`` items a claim may be asked at most; None where any number of them fits."""
    heaviest = connection.scalar(_HEAVIEST, {"batch": batch}) or 0
    if heaviest * min(total, MOST_ITEMS) <= MOST_BYTES:
        return None
    limits = {"batch": batch, "items": MOST_ITEMS, "bytes": MOST_BYTES}
    fitting, weighed = connection.execute(_FITTING, limits).one()
    return None if fitting == weighed else max(1, fitting * 2 // 3)  # a claim may be half again as long as its wish
