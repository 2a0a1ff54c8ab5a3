"""Open a batch: many items for one actor, worked by all workers, ended once.

    batch = batches.open(session, receipts.render, select(charges.c.invoice), then=report.summarise)

The items are written in the caller's transaction, and so are the shard jobs that will work them: the batch is there
when the transaction commits, with all its items, or not at all. Each item is done once, or dead with a reason; when
none is left the batch is complete and ``then`` is sent its id and counts, in the same transaction.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from sharding import progress
from sharding.pages import Item, State, items
from sharding.progress import End, Progress
from sharding.sources import Query, Source, load
from smena import outbox
from smena.book import Actor
from smena.book.address import new_job
from smena.book.arguments import Args, Arguments, Kwargs
from smena.book.values import plain
from smena.errors import Misused, SmenaError
from smena.job import Job
from smena.store.escapes import storable
from smena.store.tables import batch_slices
from smena.store.tables import batches as table

__all__ = [
    "Batch",
    "End",
    "Item",
    "NoBatch",
    "Place",
    "Progress",
    "Query",
    "State",
    "cancel",
    "items",
    "open",
    "pause",
    "resume",
    "retry",
    "status",
]

SHARD: Final = "smena.shard"
"""The actor of shard jobs: every worker has it, on the queue of each batch's own actor."""

SHARDS: Final = 8
MOST_SHARDS: Final = 1000
LARGEST: Final = 1_000_000
LONGEST_KEY: Final = 500
"""Characters of a key; an index holds it."""
LONGEST_SLICE: Final = 1000
"""Items of a slice as it is first cut; a claim parts it, or takes several."""

Per = Literal["item", "slice"]
Place = Session | sa.Connection


class NoBatch(SmenaError):
    """There is no such batch, or it is not in a state for that."""

    code = "no_batch"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as it was opened; ``is_new`` is false where its key was taken and this is the earlier one."""

    id: int
    total: int
    is_new: bool = True


def open(  # noqa: A001 - batches.open() reads like the builtin on purpose
    session: Place,
    actor: Actor[..., Any],
    items: Source,
    *,
    key: str | None = None,
    per: Per = "item",
    then: Actor[..., Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    shards: int = SHARDS,
    largest_slice: int | None = None,
) -> Batch:
    """Write a batch into the session's transaction; it begins when that commits.

    ``items`` is anything to iterate over, a query, or a file (`sharding/sources.py`). The actor is called with each
    item as its first argument, or with a list of them (``per="slice"``), and with ``kwargs``. Of all batches with one
    ``key`` there is one: the second call returns the first one's batch and reads no items. ``then`` is sent ``batch``,
    ``total``, ``done`` and ``dead`` when no item is left. At most ``shards`` workers are on it at a time, and
    ``largest_slice`` bounds what one of them takes at once; how much it takes follows the time that items need.

    Raises what sending an item would raise (`InvalidArguments`, `Unsendable`) with the item's number; nothing is
    written then that the caller's rollback does not take back.
    """
    connection = session.connection() if isinstance(session, Session) else session
    _refuse(actor, then)
    _refuse_sizes(key, shards, largest_slice)
    constant = plain(dict(kwargs or {}), "kwargs")
    batch = connection.scalar(_insert(actor, key, per, constant, shards, largest_slice, then))
    if batch is None:
        return _earlier(connection, key)
    total = load(connection, batch, items, _Check(actor, per, constant))
    connection.execute(sa.update(table).where(table.c.id == batch).values(total=total))
    if total:
        connection.execute(_cut(batch, total, _grain(total, shards)))
    send_shards(connection, batch, actor.queue, epoch=1, count=max(1, min(shards, total)))
    return Batch(batch, total)


def status(session: Place, batch: int) -> Progress:
    """Return how far a batch is; raises `NoBatch`."""
    found = progress.status(session, batch)
    if found is None:
        raise NoBatch(batch=batch)
    return found


def pause(session: Place, batch: int) -> None:
    """Let nobody take more of it; slices that workers hold are finished. Raises `NoBatch` unless it runs."""
    _change(session, batch, "paused", ("running",))


def resume(session: Place, batch: int) -> None:
    """Let workers take it again, by shard jobs of a new epoch; also for one that runs and whose shard jobs are gone."""
    _restart(session, batch, ("running", "paused", "cancelled"))


def cancel(session: Place, batch: int) -> None:
    """End it as it is, without its callback; slices that workers hold are finished. `resume` would take it up again."""
    _change(session, batch, "cancelled", ("running", "paused"), ended_at=sa.func.clock_timestamp())


def retry(session: Place, batch: int) -> int:
    """Take the dead items up again, from their first attempt; return how many. The batch will complete again."""
    numbers = _execute(session, _REVIVE, {"batch": batch}).rowcount  # type: ignore[attr-defined]
    if numbers:
        _restart(session, batch, ("running", "paused", "complete", "cancelled"))
    else:
        status(session, batch)  # there must be one
    return int(numbers)


def send_shards(connection: sa.Connection, batch: int, queue: str, epoch: int, count: int) -> None:
    """Send shard jobs of an epoch, in this transaction."""
    jobs: list[Job] = [new_job(SHARD, queue, (batch, epoch), {}) for _ in range(count)]
    outbox.add(connection, *jobs)


class _Check:
    """Hold items against the annotation that they are to meet, many at once, and say which one does not fit."""

    def __init__(self, actor: Actor[..., Any], per: Per, kwargs: dict[str, Any]) -> None:
        self._actor = actor
        self._per = per
        self._kwargs = kwargs
        self._whole = self._of_many()
        self._is_first = True

    def __call__(self, items: list[Any], number: int) -> list[Any]:
        try:
            if self._is_first:  # the first one with all that the actor is given
                one = items[:1] if self._per == "slice" else items[0]
                self._actor.arguments.travelling((one,), self._kwargs)
                self._is_first = False
            sent: list[Any] = self._whole((items,), {})[0][0]
        except SmenaError as error:
            if len(items) == 1:
                raise type(error)(error.detail, **error.facts, item=number) from error
            for place, item in enumerate(items):
                self([item], number + place)
            raise
        return sent

    def _of_many(self) -> Callable[[Args, Kwargs], tuple[Args, Kwargs]]:
        """Return the check of a list of items: an actor of slices takes one, for one of items it is made of its own."""
        first = next(iter(self._actor.arguments.signature.parameters.values()), None)
        if first is None:
            raise Misused("the actor of a batch takes an item as its first argument", actor=self._actor.name)
        annotation = Any if first.annotation is first.empty else first.annotation
        if self._per == "item":
            annotation = list[annotation]  # type: ignore[valid-type]  # what the author wrote
        many = inspect.Parameter("items", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=annotation)
        return Arguments(self._actor.name, inspect.Signature([many])).travelling


_REVIVE: Final = sa.text("""
WITH dead AS (DELETE FROM smena.batch_dead WHERE batch = :batch RETURNING number),
     placed AS (SELECT number, number - row_number() OVER (ORDER BY number) AS run FROM dead),
     cut AS (INSERT INTO smena.batch_slices (batch, first, last)
             SELECT :batch, min(number), max(number) FROM placed GROUP BY run)
SELECT number FROM dead
""")


def _refuse(actor: Actor[..., Any], then: Actor[..., Any] | None) -> None:
    if actor.is_async:
        raise Misused("the actor of a batch is a plain function, not async", actor=actor.name)
    if actor.partitions is not None:
        raise Misused("a batch's items have no order, so an ordered actor (partition_by) has none", actor=actor.name)
    if then is not None:
        then.arguments.travelling((), {"batch": 1, "total": 1, "done": 1, "dead": 0})


def _refuse_sizes(key: str | None, shards: int, largest_slice: int | None) -> None:
    if not 1 <= shards <= MOST_SHARDS:
        raise Misused(f"a batch has 1 to {MOST_SHARDS} shards", shards=shards)
    if largest_slice is not None and not 1 <= largest_slice <= LARGEST:
        raise Misused(f"a slice has 1 to {LARGEST} items", largest_slice=largest_slice)
    if key is not None and (not key or key != storable(key, LONGEST_KEY)):
        raise Misused(f"a batch's key is 1 to {LONGEST_KEY} characters, no NUL and no lone surrogate", key=repr(key))


def _insert(
    actor: Actor[..., Any],
    key: str | None,
    per: Per,
    kwargs: dict[str, Any],
    shards: int,
    largest_slice: int | None,
    then: Actor[..., Any] | None,
) -> Any:
    origin = new_job(SHARD, actor.queue, (), {})
    values = {
        "key": key,
        "actor": actor.name,
        "queue": actor.queue,
        "per": per,
        "kwargs": kwargs,
        "shards": shards,
        "largest_slice": largest_slice,
        "total": 0,
        "then_actor": None if then is None else then.name,
        "then_queue": None if then is None else then.queue,
        "request_id": origin.request_id,
        "traceparent": origin.traceparent,
    }
    return insert(table).values(values).on_conflict_do_nothing(index_elements=["key"]).returning(table.c.id)


def _earlier(connection: sa.Connection, key: str | None) -> Batch:
    row = connection.execute(sa.select(table.c.id, table.c.total).where(table.c.key == key)).one()
    return Batch(row.id, row.total, is_new=False)


def _grain(total: int, shards: int) -> int:
    """Return how long the first slices are: many for each shard, so that a claim seldom has to part one."""
    return max(1, min(LONGEST_SLICE, total // (shards * 8)))


def _cut(batch: int, total: int, grain: int) -> sa.Insert:
    first = sa.func.generate_series(0, total - 1, grain).column_valued("first")
    last = sa.func.least(first + (grain - 1), total - 1)
    return batch_slices.insert().from_select(["batch", "first", "last"], sa.select(sa.literal(batch), first, last))


_AFRESH: Final = {
    "epoch": table.c.epoch + 1,
    "sent_at": sa.func.clock_timestamp(),
    "ended_at": None,
    "done": None,
    "dead": None,
}


def _restart(session: Place, batch: int, states: tuple[str, ...]) -> None:
    row = _change(session, batch, "running", states, **_AFRESH)
    connection = session.connection() if isinstance(session, Session) else session
    send_shards(connection, batch, row.queue, row.epoch, row.shards)


def _change(session: Place, batch: int, state: str, states: tuple[str, ...], **values: Any) -> Any:
    is_whole = sa.or_(table.c.ended_at.is_(None), table.c.ended_at > sa.text("'epoch'"))  # not being deleted
    of_these = sa.update(table).where(table.c.id == batch, table.c.state.in_(states), is_whole)
    changed = of_these.values(state=state, **values)
    row = _execute(session, changed.returning(table.c.queue, table.c.epoch, table.c.shards)).one_or_none()
    if row is None:
        raise NoBatch(batch=batch, wanted=" or ".join(states))
    return row


def _execute(session: Place, statement: sa.Executable, values: dict[str, Any] | None = None) -> sa.Result[Any]:
    return session.execute(statement, values or {})
