"""Delete what has been kept long enough, in small batches."""

from __future__ import annotations

import sqlalchemy as sa


def delete_some(connection: sa.Connection, table: sa.Table, done: sa.ColumnElement[bool], limit: int) -> int:
    """Delete at most ``limit`` rows for which ``done`` holds; return how many.

    Small batches keep locks and the write-ahead log's bursts short. Rows that another deletes at this moment
    are left to it, so two janitors do not wait for each other.
    """
    names = tuple(table.primary_key.columns)
    batch = sa.select(*names).where(done).limit(limit).with_for_update(skip_locked=True)
    return connection.execute(sa.delete(table).where(sa.tuple_(*names).in_(batch))).rowcount


def older_than(column: sa.ColumnElement[object], seconds: float) -> sa.ColumnElement[bool]:
    """Return the condition that the time in ``column`` is more than ``seconds`` ago, by the database's clock."""
    return column < sa.func.now() - sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
