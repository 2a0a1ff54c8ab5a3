"""Open the job's transaction, and let its effect happen once.

An actor that declares ``once`` or asks for a session runs inside a transaction that this ring opens
and commits. With ``once`` the key is written first, in that same transaction: key and effect commit
together or not at all, and a later copy of the job finds the key and is done without running. A job of an ordered
actor always has a key, and commits only in its turn.

Guards fail closed. As long as the actor's own code has not begun, a database that cannot be reached
makes the job `Returned`, as does a process that has no means left to reach it; a key held by another copy makes it
snooze: neither spends an attempt. Nor does a connection that is lost in the middle: what was written by it is rolled
back, or found by its key.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from smena.errors import DatabaseBusy, DatabaseLost, SmenaError, TermLost
from smena.guarantees.once import Once, OnceKey, is_gone
from smena.records.turns import Turn
from smena.telemetry import events
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import DONE, Done, Outcome, Returned, Snooze
from workers.middleware.rings import AsyncCall, Call
from workers.middleware.undecided import Undecided

BUSY_KEY_PAUSE_S = 2.0
"""Mean pause before a job comes back whose key another copy holds; jittered by half of it."""

MOST_LOSSES = 3
"""So often in a row a job whose connection was lost is run again for nothing."""

PROCESS_SPENT = "process_spent"
"""Why a job goes back that this process has no descriptor, memory or thread for."""

_ITS_OWN_DOING = frozenset({"25P03", "25P04", "57P05"})
"""States of a session that the server ended for what the job did or did not do: idle too long, or at it too long."""

Classify = Callable[[BaseException], BaseException]
Lend = Callable[[], AbstractContextManager[Any]]
IsSpent = Callable[[BaseException], bool]
"""Say whether a connection failed with this error because the process itself has run out of means."""


class OnceRing:
    """Run the rest in one transaction, under the job's key if it has one."""

    def __init__(
        self,
        once: Once,
        classify: Classify,
        lend: Lend | None = None,
        is_spent: IsSpent = lambda _error: False,
    ) -> None:
        self._once = once
        self._classify = classify
        self._lend = once.transaction if lend is None else lend
        self._is_spent = is_spent
        self._undecided_jobs = Undecided()

    def whole(self) -> OnceRing:
        """Return one that commits all at the end, whatever a session commits on the way."""
        return OnceRing(self._once, self._classify, self._once.whole, self._is_spent)

    def around(self, call: Call) -> Call:
        """Return ``call`` inside the job's transaction, for a thread."""

        def guarded(attempt: Attempt) -> Outcome:
            def body(session: Any) -> Any:
                attempt.session = session
                with attempt.context.committing_with(session):
                    return _result(call(attempt))

            try:
                key = _key(attempt)
                if key is None:
                    with self._lend() as session:
                        return _done(body(session))
                ran = self._once.run(key, body, attempt.turn)
            except Exception as error:  # noqa: BLE001 - judged, and raised again unless it is the guard's own
                return self._undecided(error, attempt)
            return _found(key, ran.result) if ran.found else _done(ran.result)

        return guarded

    def around_async(self, call: AsyncCall) -> AsyncCall:
        """Return ``call`` inside the job's transaction, for the event loop."""

        async def guarded(attempt: Attempt) -> Outcome:
            async def body(session: Any) -> Any:
                attempt.session = session
                with attempt.context.committing_with(session):
                    return _result(await call(attempt))

            try:
                key = _key(attempt)
                if key is None:
                    async with self._once.atransaction() as session:
                        return _done(await body(session))
                ran = await self._once.arun(key, body, attempt.turn)
            except Exception as error:  # noqa: BLE001 - judged, and raised again unless it is the guard's own
                return self._undecided(error, attempt)
            return _found(key, ran.result) if ran.found else _done(ran.result)

        return guarded

    def _undecided(self, error: Exception, attempt: Attempt) -> Outcome:
        """Spare the attempt when it was the guard that failed, or its connection; else let the error rise."""
        known = self._classify(error)
        if not attempt.began and _may_be_own(known) and self._is_spent(error):
            return self._wait(attempt, PROCESS_SPENT, error)
        match known:
            case DatabaseLost() as lost if not attempt.began or self._is_spared(lost, attempt):
                return self._wait(attempt, lost.code, error)
            case DatabaseBusy() as busy if not attempt.began:
                return Snooze(BUSY_KEY_PAUSE_S * random.uniform(0.5, 1.5), busy.code)  # noqa: S311
            case TermLost() if attempt.turn is not None:
                _tell_stale(attempt, attempt.turn)
                raise error
            case _:
                raise error

    def _wait(self, attempt: Attempt, why: str, error: BaseException) -> Returned:
        self._undecided_jobs.tell(attempt, why, error)
        return Returned(why)

    def _is_spared(self, lost: DatabaseLost, attempt: Attempt) -> bool:
        """Say whether the job's own connection was taken from under it, so that all it wrote is rolled back.

        Not for ever: a job whose own statement ends its server each time must not go round without an attempt.
        """
        is_to_blame = lost.facts.get("sqlstate") in _ITS_OWN_DOING
        if is_to_blame or attempt.losses >= MOST_LOSSES or not is_gone(attempt.session):
            return False
        attempt.losses += 1
        return True


def _may_be_own(known: BaseException) -> bool:
    """Say whether the process's own want may be behind it: the server has answered nothing."""
    return isinstance(known, DatabaseLost) or not isinstance(known, SmenaError)


def _key(attempt: Attempt) -> OnceKey | None:
    actor, job = attempt.actor, attempt.job
    key = None if actor.once is None else actor.once(*attempt.args, **attempt.kwargs)
    if key is None and actor.partitions is not None:
        key = f"job:{job.id}"  # a copy must not run after those that came later
    return None if key is None else OnceKey(actor.name, key, job.id)


def _tell_stale(attempt: Attempt, turn: Turn) -> None:
    job = attempt.job
    events.emit(events.KEY_STALE_EFFECT, **job.facts(), partition=job.partition, term=turn.term.number)


def _result(outcome: Outcome) -> Any:
    return outcome.result if isinstance(outcome, Done) else None


def _done(result: Any) -> Done:
    return DONE if result is None else Done(result)


def _found(key: OnceKey, result: Any) -> Done:
    events.emit(events.ONCE_HIT, job=key.job_id, actor=key.actor, key=key.kept())
    return _done(result)
