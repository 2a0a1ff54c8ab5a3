"""Smena's batches: one no-op actor, called with each item or with slices of them (``BENCH_PER``).

Run it with ``python -m benchmarks.peers.smena_batch open N``, which prints what `benchmarks/claims.py` asks for.
"""

from __future__ import annotations

import os
import sys

from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import smena
from benchmarks import proof
from benchmarks.peers import tell
from sharding import batches

book = smena.Book("bench_batch")
SHARDS = 4


@book.actor(queue="bench_batch")
def item(number: int) -> None:
    """Take effect and nothing else."""
    proof.sheet().marks[number] = 1


@book.actor(queue="bench_batch")
def items(numbers: list[int]) -> None:
    """Take effect and nothing else."""
    marks = proof.sheet().marks
    for number in numbers:
        marks[number] = 1


def opened(count: int) -> None:
    """Open a batch; print its number and the database's time before."""
    engine = create_engine(os.environ["SMENA_DATABASE_URL"].replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        began_at = session.scalar(text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8)"))
        per = os.environ["BENCH_PER"]
        batch = batches.open(session, items if per == "slice" else item, range(count), per=per, shards=SHARDS)  # type: ignore[arg-type]
        session.commit()
    tell(began_at=began_at, batch=batch.id)


if __name__ == "__main__":
    opened(int(sys.argv[2]))
