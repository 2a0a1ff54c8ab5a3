"""A process that starts errands or works them, step by step as its standard input says, and can be killed anywhere.

`python -m tests.integration.errand_process DATABASE_URL start|work KEY [JOB_ID]` prints what it does, a line each. It
waits for a line of input before it begins, and in the middle of each piece.
"""

from __future__ import annotations

import sys
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr
from sqlalchemy.orm import Session

import smena
from smena import schedules
from smena.book import Registry
from smena.clock import SYSTEM
from smena.guarantees.once import Once
from smena.job import Tick
from smena.schedules.errands import errands_of, start
from smena.settings.groups import Database as DatabaseSettings
from smena.settings.groups import Retry as RetryDefaults
from smena.settings.groups import Worker
from smena.store import faults
from smena.store.database import Database
from smena.timetable.errand import AT
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.binding import bind_actors
from workers.middleware.arguments import Arguments
from workers.middleware.attempt import Attempt
from workers.middleware.once import OnceRing
from workers.middleware.settle import Settle
from workers.middleware.tracing import Tracing
from workers.middleware.verdict import Judge

PIECES = 4
_WRITE = sa.text("INSERT INTO effects (v) VALUES (:v)")

book = smena.Book("moved")


@book.once_per_deploy("in-pieces", queue="moved")
def in_pieces(ctx: smena.Context, /) -> None:
    """Do pieces, each in a transaction with how far it is."""
    with ctx.transaction() as session:
        done = schedules.left_off(session, ctx.job) or 0
    for piece in range(done + 1, PIECES + 1):
        with ctx.transaction() as session:
            session.execute(_WRITE, {"v": f"piece {piece}"})
            schedules.leave_off(session, ctx.job, piece)
            _say(f"in {piece}")
            _hear()


@book.once_per_deploy("as-a-whole", queue="moved")
def as_a_whole(session: Session, /) -> None:
    """Take effect as a whole."""
    session.execute(_WRITE, {"v": "whole"})
    _say("in")
    _hear()


def main(database_url: str, what: str, key: str, job_id: str = "") -> None:
    """Do one thing and end."""
    database = Database(DatabaseSettings(url=SecretStr(database_url)), "errand")
    _say("ready")
    _hear()
    _start(database, key) if what == "start" else _work(database, key, job_id)
    database.close()


def _start(database: Database, key: str) -> None:
    (errand,) = [one for one in errands_of(Registry([book])) if one.key == key]
    with database.transaction() as connection:
        tick = start(connection, errand)
    _say("there already" if tick is None else f"started {tick.job_id}")


def _work(database: Database, key: str, job_id: str) -> None:
    once, judge = Once(database), Judge(SYSTEM, [faults.translate])

    def context(attempt: Attempt) -> smena.Context:
        return smena.Context(attempt.job, transaction=once.transaction)

    rings: list[Any] = [Tracing(context), Settle(judge, _Told()), Arguments()]
    actors = bind_actors(Registry([book]), RetryDefaults(), rings, OnceRing(once, judge.classify), Worker())
    (errand,) = [one for one in errands_of(Registry([book])) if one.key == key]
    job = smena.Job(actor=errand.actor.name, queue="moved", id=job_id).of_tick(Tick(errand.name, AT))
    outcome = actors[job.actor].call(Attempt(NotedDelivery(), job, actors[job.actor]))
    _say(type(outcome).__name__)


class _Told:
    """Says what a worker would settle."""

    def settle(self, attempt: Attempt, outcome: Any) -> None:  # noqa: ARG002 - the ring's protocol
        _say(f"{outcome}")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _hear() -> None:
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
