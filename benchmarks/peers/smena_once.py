"""Smena with ``once``: a job that inserts one row, by the session that it asks for."""

from __future__ import annotations

from contextlib import AbstractContextManager

import sqlalchemy as sa
from sqlalchemy.orm import Session

import smena
from benchmarks import proof
from benchmarks.peers import Send
from benchmarks.peers.smena_app import sending_to

book = smena.Book("bench_once")
effects = sa.Table("effects", sa.MetaData(schema="bench"), sa.Column("job", sa.BigInteger))
INSERT_EFFECT = sa.insert(effects)


@book.actor(queue="bench_once", once=lambda job: str(job))
def record(session: Session, /, job: int) -> None:
    """Insert the row; the key is written and committed with it."""
    proof.seen(job)
    session.execute(INSERT_EFFECT, {"job": job})


def publisher() -> AbstractContextManager[Send]:
    """Connect as a service does."""
    return sending_to(record)
