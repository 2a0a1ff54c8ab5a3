"""Choose the way a message goes.

Three ways, each durable when the call returns or, for the first, when the running job commits:

- inside a job whose transaction is open (it declares ``once``, or asked for a session): a row in the
  outbox, in that transaction, so that the message exists exactly if the job's effect does;
- with a delay longer than the setting `outbox.delay_via_outbox_s` and a database: an outbox row with a
  due time, for the delay levels are shared by the whole fleet;
- else straight to the broker, confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from smena import context, outbox
from smena.book import Sender
from smena.delay import seconds_of
from smena.errors import SmenaError, Unsendable
from smena.job import Job, refuse_strangers
from smena.outbox.adding import SyncPlace


class Keeper(Protocol):
    """A database that keeps outbox rows (`smena.store.database.Database`)."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Lend a connection in a transaction, committed at the end."""


class Publishing:
    """The process's `Sender`: outbox or broker, by where the call comes from and how long the delay is.

    Without a database every message goes to the broker, which then refuses delays that its levels
    cannot hold (`DelayTooLong`).
    """

    def __init__(self, broker: Sender, database: Keeper | None, delay_via_outbox_s: float) -> None:
        self._broker = broker
        self._database = database
        self._delay_via_outbox_s = delay_via_outbox_s

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job by its way; raise a `SmenaError` when it was not taken over."""
        refuse_strangers((job,))
        session = _plain_effect()
        if session is not None:
            outbox.add(session, job, delay_s=delay_s)
        elif (keeper := self._keeper(delay_s)) is not None:
            _keep(keeper, job, delay_s)
        else:
            self._broker.send(job, delay_s=delay_s)

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        """Send one job from an event loop; the twin of `send`."""
        refuse_strangers((job,))
        running = context.current()
        session = None if running is None else running.async_effect()
        if session is not None:
            await outbox.aadd(session, job, delay_s=delay_s)
        elif (keeper := self._keeper(delay_s)) is not None:
            await asyncio.to_thread(_keep, keeper, job, delay_s)
        else:
            await self._broker.asend(job, delay_s=delay_s)

    def send_many(self, jobs: Sequence[Job]) -> list[SmenaError | None]:
        """Send many at once; return one outcome for each, in order. What is no job is a `TypeError`, and none goes."""
        refuse_strangers(jobs)
        session = _plain_effect()
        return self._broker.send_many(jobs) if session is None else _add_many(session, jobs)

    def _keeper(self, delay_s: float) -> Keeper | None:
        """Return the database if a message of this delay waits there."""
        return self._database if seconds_of(delay_s) > self._delay_via_outbox_s else None


def _keep(keeper: Keeper, job: Job, delay_s: float) -> None:
    with keeper.transaction() as connection:
        outbox.add(connection, job, delay_s=delay_s)


def _plain_effect() -> SyncPlace | None:
    running = context.current()
    return None if running is None else running.plain_effect()


def _add_many(session: SyncPlace, jobs: Sequence[Job]) -> list[SmenaError | None]:
    """Add all in one statement; where one cannot be sent, add the others one by one."""
    try:
        outbox.add(session, *jobs)
    except Unsendable:
        return [_add_one(session, job) for job in jobs]
    return [None] * len(jobs)


def _add_one(session: SyncPlace, job: Job) -> Unsendable | None:
    try:
        outbox.add(session, job)
    except Unsendable as error:
        return error
    return None
