"""Name many attempts in one statement.

Two arrays in place of a list of pairs: one statement text whatever their number, planned once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.store.escapes import storable

Attempt = tuple[str, int]
"""A job's id and the number of its attempt."""

PAIRS: Final = (
    sa.func.unnest(sa.bindparam("ids", type_=pg.ARRAY(sa.Text)), sa.bindparam("attempts", type_=pg.ARRAY(sa.Integer)))
    .table_valued(sa.column("job_id", sa.Text), sa.column("attempt", sa.Integer), name="asked")
    .render_derived()
)
"""The attempts that are asked for, as a table to join with; `pairs` gives its parameters."""


def is_asked(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition that a row of the table is of one of the attempts."""
    return sa.and_(table.c.job_id == PAIRS.c.job_id, table.c.attempt == PAIRS.c.attempt)


def pairs(attempts: Iterable[Attempt]) -> dict[str, Any]:
    """Return the parameters of `PAIRS`; an attempt that is named twice is asked for once."""
    named = list(dict.fromkeys(attempts))
    return {"ids": [storable(job_id) for job_id, _ in named], "attempts": [attempt for _, attempt in named]}
