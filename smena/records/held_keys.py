"""Keep keys that wait, and the jobs that wait for them, as a partition's owner writes them.

A job of an ordered actor that is to come back, or that blocks its key by its death, becomes the first parked row of
its key, with a hold that says why and until when; jobs of the key that come later become rows behind it. All that is
decided of one partition at a time is one transaction, and the fence under the partition's term is its last statement:
a former owner raises `TermLost` and has changed nothing.

What a leaving owner has in hand and has not started goes the same way: rows in the order of their delivery, and a hold
of each key that is due at once, so that the next owner runs them before all that the broker brings it.

A copy of a parked job finds its row by the job's id; a copy of an attempt that ended finds its settlement, which is
written here in the same transaction (guarantee 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql as pg

from smena.records.settlements import StoredMessage, row_of
from smena.store import terms
from smena.store.database import Database
from smena.store.escapes import storable
from smena.store.tables import key_holds, key_parked, settlements
from smena.store.terms import Term

Why = Literal["retry", "snooze", "blocked", "handed_over"]


@dataclass(frozen=True, slots=True)
class Place:
    """One partition of an ordered queue, and the term under which it is ours."""

    queue: str
    partition: int
    term: Term


@dataclass(frozen=True, slots=True)
class Message:
    """A job as it is to run; ``properties`` holds JSON values only."""

    key: str
    job_id: str
    actor: str
    attempt: int
    snoozes: int
    body: bytes
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parked:
    """A job that waits in a row."""

    seq: int
    message: Message


@dataclass(frozen=True, slots=True)
class Hold:
    """A key that is to wait for the job in ``message``: for ``wait_s``, or (None) until an operator lets it go on.

    ``seq`` is the job's row if it has one. ``ended`` is the number of the attempt that this ends. ``letter`` is the
    dead letter of a job that blocks its key.
    """

    message: Message
    why: Why
    reason: str
    wait_s: float | None
    seq: int | None = None
    ended: int | None = None
    letter: StoredMessage | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What is decided of a partition: keys that wait, jobs that wait behind them, rows whose job is over, deaths.

    ``looks`` are keys of which the first row is wanted, as it is of those with a row that is over. ``handed_over`` has
    the first job of each key that the next owner is to go on with; it is also one of ``behind``.
    """

    holds: Sequence[Hold] = ()
    behind: Sequence[Message] = ()
    over: Sequence[Parked] = ()
    deaths: Sequence[tuple[tuple[str, int], StoredMessage]] = ()
    looks: Sequence[str] = ()
    handed_over: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What came of changes: ``heads`` says of each key that was asked for what is next; with None it is free.

    ``parked`` is how many rows were written.
    """

    parked: int = 0
    heads: Mapping[str, Parked | None] = field(default_factory=dict)
    copies: Mapping[str, bytes] = field(default_factory=dict)
    """Jobs that wait already, with the bodies of their rows."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A key that waits, as its new owner finds it; ``wait_s`` is None for one that is blocked."""

    key: str
    wait_s: float | None


class HeldKeys:
    """The two tables; safe from all threads. Raises `TermLost`, `DatabaseLost` and `DatabaseBusy`.

    ``idle_s`` is how long a transaction that writes may be idle: less than the lease (`smena.records.turns.Turn`).
    """

    def __init__(self, database: Database, idle_s: float | None = None) -> None:
        self._database = database
        self._idle_s = idle_s

    def load(self, place: Place) -> tuple[list[Waiting], int]:
        """Return the partition's keys that wait, and how many jobs are parked."""
        with self._database.transaction() as connection:
            found = connection.execute(_LOAD, _placed(place)).all()
            count = connection.execute(_COUNT, _placed(place)).scalar_one()
        return [_waiting(row) for row in found], count

    def count(self, place: Place) -> int:
        """Return how many jobs of the partition are parked."""
        with self._database.transaction() as connection:
            return connection.execute(_COUNT, _placed(place)).scalar_one()

    def released(self, queue: str) -> list[Waiting]:
        """Return the keys of a queue that an operator has let go on."""
        with self._database.transaction() as connection:
            return [_waiting(row) for row in connection.execute(_RELEASED, {"queue": queue})]

    def heads(self, queue: str, keys: Iterable[str]) -> dict[str, Parked]:
        """Return the first parked job of each of these keys."""
        with self._database.transaction() as connection:
            return _heads(connection, queue, list(keys))

    def write(self, place: Place, changes: Changes) -> Written:
        """Make what was decided durable, all or nothing, under the term."""
        with self._database.transaction() as connection:
            if self._idle_s is not None:
                connection.execute(_BOUND, {"idle": f"{round(self._idle_s * 1000)}ms"})
            parked = _hold(connection, place, changes.holds)
            parked_behind, copies = _behind(connection, place, changes.behind)
            _hand_over(connection, place, changes.handed_over)
            _settle(connection, place, changes)
            heads = _take_off(connection, place, changes)
            terms.fence(connection, place.term)
        return Written(parked + parked_behind, heads, copies)


def _behind(connection: sa.Connection, place: Place, behind: Sequence[Message]) -> tuple[int, dict[str, bytes]]:
    """Park jobs in their order; return how many, and those that are parked already."""
    if not behind:
        return 0, {}
    parked = {row.job_id for row in connection.execute(_PARK_MANY, _columns(place, behind))}
    copies = [job_id for each in behind if (job_id := storable(each.job_id)) not in parked]
    if not copies:
        return len(parked), {}
    kept = connection.execute(_KEPT.where(key_parked.c.job_id.in_(copies)), {"queue_": place.queue})
    return len(parked), {row.job_id: bytes(row.body) for row in kept}


def _hold(connection: sa.Connection, place: Place, holds: Sequence[Hold]) -> int:
    """Write holds and what they wait for; return how many jobs had no row before."""
    fresh = [hold.message for hold in holds if hold.seq is None]
    if fresh:
        connection.execute(_PARK_MANY, _columns(place, fresh))
    for hold in holds:
        if hold.seq is not None:
            changed = _row(hold.message)
            connection.execute(sa.update(key_parked).where(key_parked.c.seq == hold.seq).values(changed))
        connection.execute(_HOLD, _hold_row(place, hold))
    return len(fresh)


def _hand_over(connection: sa.Connection, place: Place, firsts: Sequence[Message]) -> None:
    """Have the next owner begin with the rows of these keys; where a key waits already it goes on waiting."""
    if firsts:
        holds = [_hold_row(place, Hold(first, "handed_over", _HANDED_OVER, 0.0)) for first in firsts]
        connection.execute(_HOLD_FREE, holds)


def _settle(connection: sa.Connection, place: Place, changes: Changes) -> None:
    ended = [
        row_of(hold.message.job_id, hold.ended, _as_stored(place, hold.message)) | {"confirmed_at": sa.func.now()}
        for hold in changes.holds
        if hold.ended is not None
    ]
    for row in (*ended, *(row_of(*attempt, message) for attempt, message in changes.deaths)):
        connection.execute(_SETTLE.values(row))


def _take_off(connection: sa.Connection, place: Place, changes: Changes) -> dict[str, Parked | None]:
    """Delete rows whose job is over; return what is next of their keys, and let go of those of which nothing is."""
    keys = sorted({*changes.looks, *(parked.message.key for parked in changes.over)})
    if not keys:
        return {}
    connection.execute(sa.delete(key_parked).where(key_parked.c.seq.in_([parked.seq for parked in changes.over])))
    heads = _heads(connection, place.queue, keys)
    free = [key for key in keys if key not in heads]
    if free:
        connection.execute(sa.delete(key_holds).where(key_holds.c.queue == place.queue, key_holds.c.key.in_(free)))
    return {key: heads.get(key) for key in keys}


def _heads(connection: sa.Connection, queue: str, keys: list[str]) -> dict[str, Parked]:
    if not keys:
        return {}
    firsts = _FIRSTS.where(key_parked.c.queue == queue, key_parked.c.key.in_(keys))
    rows = connection.execute(sa.select(key_parked).where(key_parked.c.seq.in_(firsts)))
    return {row.key: _parked(row) for row in rows}


# --- rows -----------------------------------------------------------------------------------------


def _parked(row: sa.Row[Any]) -> Parked:
    message = Message(row.key, row.job_id, row.actor, row.attempt, row.snoozes, bytes(row.body), row.properties)
    return Parked(row.seq, message)


def _waiting(row: sa.Row[Any]) -> Waiting:
    return Waiting(row.key, None if row.wait_s is None else max(0.0, float(row.wait_s)))


def _placed(place: Place) -> dict[str, Any]:
    return {"queue": place.queue, "partition": place.partition}


def _row(message: Message) -> dict[str, Any]:
    return {
        "actor": storable(message.actor),
        "attempt": message.attempt,
        "snoozes": message.snoozes,
        "body": message.body,
        "properties": dict(message.properties),
    }


def _columns(place: Place, messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_row(each) | _placed(place) | {"key": each.key, "job_id": storable(each.job_id)} for each in messages]


def _hold_row(place: Place, hold: Hold) -> dict[str, Any]:
    letter, message = hold.letter, hold.message
    return {
        **_placed(place),
        "key": message.key,
        "why": hold.why,
        "reason": storable(hold.reason),
        "job_id": storable(message.job_id),
        "actor": storable(message.actor),
        "attempt": message.attempt,
        "wait_s": hold.wait_s,
        "letter_routing_key": None if letter is None else letter.routing_key,
        "letter_properties": None if letter is None else dict(letter.properties),
    }


def _as_stored(place: Place, message: Message) -> StoredMessage:
    return StoredMessage("", "", message.body, message.properties, "retry", place.queue)


_WAIT_S: Final = sa.func.extract("epoch", key_holds.c.due_at - sa.func.clock_timestamp()).label("wait_s")
_LOAD: Final = sa.select(key_holds.c.key, _WAIT_S).where(
    key_holds.c.queue == sa.bindparam("queue"), key_holds.c.partition == sa.bindparam("partition")
)
_RELEASED: Final = sa.select(key_holds.c.key, _WAIT_S).where(
    key_holds.c.queue == sa.bindparam("queue"), key_holds.c.released
)
_COUNT: Final = (
    sa.select(sa.func.count())
    .select_from(key_parked)
    .where(key_parked.c.queue == sa.bindparam("queue"), key_parked.c.partition == sa.bindparam("partition"))
)
_FIRSTS: Final = sa.select(sa.func.min(key_parked.c.seq)).group_by(key_parked.c.key)
_KEPT: Final = sa.select(key_parked.c.job_id, key_parked.c.body).where(key_parked.c.queue == sa.bindparam("queue_"))
_SETTLE: Final = pg.insert(settlements).on_conflict_do_nothing(index_elements=["job_id", "attempt"])
_PARK_MANY: Final = (
    pg.insert(key_parked)
    .on_conflict_do_nothing(index_elements=["queue", "job_id"])
    .returning(key_parked.c.job_id, sort_by_parameter_order=False)
)
_BOUND: Final = sa.text("SELECT set_config('idle_in_transaction_session_timeout', :idle, true)")
_DUE: Final = sa.text("clock_timestamp() + make_interval(secs => CAST(:wait_s AS double precision))")
_HOLD_INSERT: Final = pg.insert(key_holds).values(
    **{
        name: sa.bindparam(name, type_=key_holds.c[name].type)
        for name in ("queue", "key", "partition", "why", "reason", "job_id", "actor", "attempt")
    },
    due_at=_DUE,
    letter_routing_key=sa.bindparam("letter_routing_key"),
    letter_properties=sa.bindparam("letter_properties", type_=key_holds.c.letter_properties.type),
)
_HANDED_OVER: Final = "its partition goes to another process, and this was in hand and had not started"
_HOLD_FREE: Final = _HOLD_INSERT.on_conflict_do_nothing(index_elements=["queue", "key"])
_HOLD: Final = _HOLD_INSERT.on_conflict_do_update(
    index_elements=["queue", "key"],
    set_={
        name: _HOLD_INSERT.excluded[name]
        for name in (
            "why", "reason", "job_id", "actor", "attempt", "held_at", "due_at", "released",
            "letter_routing_key", "letter_properties",
        )
    },
)  # fmt: skip
