"""The limit of ``claims``: the same COPY, claim and finish statements from bare psycopg, and nobody called.

Run it with ``python -m benchmarks.peers.bare_claims work`` (two processes) or ``… open N``.
"""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Any

import psycopg
from sqlalchemy import TextClause

from benchmarks.peers import tell, two_processes
from sharding.claims import FINISH, MOST_PIECES, TAKE

GRAIN = 1000
SLICE = 2000
"""Smena's own defaults."""

_LOOK_S = 0.005


def work() -> None:
    """Claim and finish until killed."""
    take, finish = _text(TAKE), _text(FINISH)
    with psycopg.connect(os.environ["SMENA_DATABASE_URL"], autocommit=True) as connection:
        while True:
            row = connection.execute("SELECT id FROM smena.batches WHERE state = 'running' LIMIT 1").fetchone()
            if row is None:
                time.sleep(_LOOK_S)
                continue
            _drain(connection, take, finish, row[0])


def _drain(connection: psycopg.Connection[Any], take: bytes, finish: bytes, batch: int) -> None:
    wish = {"batch": batch, "epoch": 1, "owner": str(os.getpid()), "lease_s": 30, "items": SLICE, "start": 0}
    while rows := connection.execute(take, wish | {"pieces": MOST_PIECES}).fetchall():
        connection.execute(finish, {"ids": [row[0] for row in rows], "terms": [row[1] for row in rows]})
        wish["start"] = rows[-1][3] + 1
    connection.execute(
        "UPDATE smena.batches SET state = 'complete', ended_at = clock_timestamp() WHERE id = %s AND state = 'running'"
        " AND NOT EXISTS (SELECT 1 FROM smena.batch_slices WHERE batch = smena.batches.id)",
        (batch,),
    )


def opened(count: int) -> None:
    """Write a batch's rows; print its number and the database's time before."""
    with psycopg.connect(os.environ["SMENA_DATABASE_URL"]) as connection:
        began_at = _one(connection, "SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)")
        batch = _one(
            connection,
            "INSERT INTO smena.batches (actor, queue, per, kwargs, shards, total) VALUES ('', '', 'item', '{}', 2, %s)"
            " RETURNING id",
            count,
        )
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY smena.batch_items (batch, number, item) FROM STDIN") as copy,
        ):
            copy.write(b"".join(b"%d\t%d\t%d\n" % (batch, number, number) for number in range(count)))
        connection.execute(
            "INSERT INTO smena.batch_slices (batch, first, last) SELECT %s, g, least(g + %s, %s)"
            " FROM generate_series(0, %s, %s) AS g",
            (batch, GRAIN - 1, count - 1, count - 1, GRAIN),
        )
    tell(began_at=began_at, batch=batch)


def _text(statement: TextClause) -> bytes:
    """Return a statement with its parameters as psycopg writes them."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement.text).encode()


def _one(connection: psycopg.Connection[Any], query: str, *values: object) -> Any:
    row = connection.execute(query.encode(), values).fetchone()
    return None if row is None else row[0]


if __name__ == "__main__":
    if sys.argv[1] == "open":
        opened(int(sys.argv[2]))
    else:
        two_processes(work)
