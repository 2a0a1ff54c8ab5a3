"""Open a batch: many items for one actor, worked by all workers, ended once.

    batch = batches.open(session, receipts.render, select(charges.c.invoice), then=report.summarise)

The items are written in the caller's transaction, and so are the shard jobs that will work them: the batch is there
when the transaction commits, with all its items, or not at all. Each item is done once, or dead with a reason; when
none is left the batch is complete and ``then`` is sent its id and counts, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from sharding import keyed_claims, keyed_sources, progress
from sharding.item_check import ItemCheck, Per, refuse_kwargs
from sharding.keyed_sources import By, Keying
from sharding.pages import Item, State, items
from sharding.progress import End, Progress
from sharding.sources import Query, Source, load
from sharding.weight import largest_wish
from smena import outbox
from smena.book import Actor
from smena.book.address import new_job
from smena.book.partitioning import OnDead
from smena.book.values import plain
from smena.errors import Misused, SmenaError
from smena.job import Job
from smena.store.escapes import storable
from smena.store.tables import batch_slices
from smena.store.tables import batches as table

__all__ = [
    "Batch",
    "By",
    "End",
    "Item",
    "Mode",
    "NoBatch",
    "OnDead",
    "Per",
    "Place",
    "Progress",
    "Query",
    "State",
    "cancel",
    "items",
    "latest",
    "open",
    "pause",
    "resume",
    "retry",
    "status",
]

SHARD: Final = "smena.shard"
"""The actor of shard jobs: every worker has it, on the queue of each batch's own actor."""

KEYED_SHARD: Final = "smena.keyed_shard"
"""That of shard jobs by partition: a worker from before there were any must not take them for the others."""

SHARDS: Final = 8
MOST_SHARDS: Final = 1000
LAST: Final = 2**63 - 1
"""The largest number that a batch can have, which is a `bigint`."""

LARGEST: Final = 1_000_000
LONGEST_KEY: Final = 500
"""Characters of a key; an index holds it."""
LONGEST_SLICE: Final = 1000
"""Items of a slice as it is first cut; a claim parts it, or takes several."""

Mode = Literal["claim", "partition"]
"""Whether any worker takes any slice, or the items of each key are worked in their order."""

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
    mode: Mode = "claim",
    by: By | None = None,
    partitions: int | None = None,
    on_dead: OnDead | None = None,
) -> Batch:
    """Write a batch into the session's transaction; it begins when that commits.

    ``items`` is anything to iterate over, a query, or a file (`sharding/sources.py`). The actor is called with each
    item as its first argument, or with a list of them (``per="slice"``), and with ``kwargs``. Of all batches with one
    ``key`` there is one: the second call returns the first one's batch and reads no items. ``then`` is sent ``batch``,
    ``total``, ``done`` and ``dead`` when no item is left. At most ``shards`` workers are on it at a time, and
    ``largest_slice`` bounds what one of them takes at once, and so does the weight of the heaviest items
    (`sharding/weight.py`); how much it takes follows the time that items need.

    With ``mode="partition"`` the items of one key are worked one at a time and in the order in which they were given.
    ``by`` gives an item's key: a function of the item, or the name of a field of it or a column of the query. Keys
    belong to ``partitions`` (32), each of which has one owner at a time. An item that waits for its next attempt holds
    up its key and no other; after one that died its key goes on (``on_dead="skip"``), or all that is behind it in the
    key is dead as `blocked` (``"block"``). Items are numbered by partition and key then.

    Raises what sending an item would raise (`InvalidArguments`, `Unsendable`) with the item's number; nothing is
    written then that the caller's rollback does not take back.
    """
    connection = session.connection() if isinstance(session, Session) else session
    _refuse(actor, then)
    _refuse_key(key)
    _refuse_count("a batch has {} shards", shards, MOST_SHARDS)
    if largest_slice is not None:
        _refuse_count("a slice has {} items", largest_slice, LARGEST)
    keying = _keying(mode, per, by, partitions, on_dead)
    constant = plain(dict(kwargs or {}), "kwargs")
    refuse_kwargs(actor, constant)
    batch = connection.scalar(_insert(actor, key, per, constant, shards, largest_slice, then, keying))
    if batch is None:
        return _earlier(connection, key)
    check = ItemCheck(actor, per)
    if keying is None:
        total = useful = load(connection, batch, items, check)
        if total:
            connection.execute(_cut(batch, total, _grain(total, shards)))
    else:
        total = keyed_sources.load(connection, batch, items, check, keying)
        useful = keyed_claims.cut(connection, batch)
    wish = min((bound for bound in (largest_slice, largest_wish(connection, batch, total)) if bound), default=None)
    connection.execute(sa.update(table).where(table.c.id == batch).values(total=total, largest_slice=wish))
    send_shards(connection, batch, mode, actor.queue, epoch=1, count=max(1, min(shards, useful)))
    return Batch(batch, total)


def status(session: Place, batch: int) -> Progress:
    """Return how far a batch is; raises `NoBatch`."""
    _refuse_number(batch)
    found = progress.status(session, batch)
    if found is None:
        raise NoBatch(batch=batch)
    return found


def latest(session: Place, limit: int = 20) -> list[Progress]:
    """Return how far the batches are that were opened last, the last one first."""
    return progress.latest(session, limit)


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
    """Take the dead items up again, from their first attempt; return how many. It runs then, and completes again.

    By partition they keep their order, and those of their key that are not in hand wait behind them.
    """
    mode = status(session, batch).mode
    revive = _REVIVE if mode == "claim" else keyed_claims.REVIVE
    numbers = _execute(session, revive, {"batch": batch}).rowcount  # type: ignore[attr-defined]
    if numbers:
        _restart(session, batch, ("running", "paused", "complete", "cancelled"))
    return int(numbers)


def send_shards(connection: sa.Connection, batch: int, mode: Mode, queue: str, epoch: int, count: int) -> None:
    """Send shard jobs of an epoch, in this transaction."""
    actor = SHARD if mode == "claim" else KEYED_SHARD
    jobs: list[Job] = [new_job(actor, queue, (batch, epoch), {}) for _ in range(count)]
    outbox.add(connection, *jobs)


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
        raise Misused(
            "a batch's items have no order with the jobs of an ordered actor (partition_by)", actor=actor.name
        )
    if then is not None:
        if then.partitions is not None:
            raise Misused("what a batch is followed by has no key: not an ordered actor (partition_by)", then=then.name)
        then.arguments.travelling((), {"batch": 1, "total": 1, "done": 1, "dead": 0})


def _refuse_key(key: object) -> None:
    if key is not None and not (isinstance(key, str) and key and key == storable(key, LONGEST_KEY)):
        raise Misused(f"a batch's key is 1 to {LONGEST_KEY} characters, no NUL and no lone surrogate", key=repr(key))


def _refuse_count(rule: str, count: object, most: int) -> None:
    if type(count) is not int or not 1 <= count <= most:
        raise Misused(rule.format(f"1 to {most}"), got=repr(count))


def _keying(mode: Mode, per: Per, by: By | None, partitions: int | None, on_dead: OnDead | None) -> Keying | None:
    if per not in get_args(Per):
        raise Misused("a batch gives its actor one item at a time or a slice of them: per='item' or 'slice'", per=per)
    if mode == "claim":
        if by is not None or partitions is not None or on_dead is not None:
            raise Misused("`by`, `partitions` and `on_dead` say how mode='partition' works, which is not given")
        return None
    if mode != "partition":
        raise Misused("a batch's mode is 'claim' or 'partition'", mode=mode)
    if per != "item":
        raise Misused("a batch by partition gives its actor one item at a time (per='item')", per=per)
    return Keying.of(by, partitions, on_dead)


def _insert(
    actor: Actor[..., Any],
    key: str | None,
    per: Per,
    kwargs: dict[str, Any],
    shards: int,
    largest_slice: int | None,
    then: Actor[..., Any] | None,
    keying: Keying | None,
) -> Any:
    origin = new_job(SHARD, actor.queue, (), {})
    values = {
        "key": key,
        "actor": actor.name,
        "queue": actor.queue,
        "per": per,
        "mode": "claim" if keying is None else "partition",
        "partitions": None if keying is None else keying.partitions,
        "on_dead": None if keying is None else keying.on_dead,
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
    "held_at": sa.func.clock_timestamp(),
    "ended_at": None,
    "done": None,
    "dead": None,
}


def _restart(session: Place, batch: int, states: tuple[str, ...]) -> None:
    row = _change(session, batch, "running", states, **_AFRESH)
    connection = session.connection() if isinstance(session, Session) else session
    send_shards(connection, batch, row.mode, row.queue, row.epoch, row.shards)


def _change(session: Place, batch: int, state: str, states: tuple[str, ...], **values: Any) -> Any:
    _refuse_number(batch)
    is_whole = sa.or_(table.c.ended_at.is_(None), table.c.ended_at > sa.text("'epoch'"))  # not being deleted
    of_these = sa.update(table).where(table.c.id == batch, table.c.state.in_(states), is_whole)
    changed = of_these.values(state=state, **values)
    row = _execute(session, changed.returning(table.c.mode, table.c.queue, table.c.epoch, table.c.shards)).one_or_none()
    if row is None:
        status(session, batch)
        raise NoBatch(batch=batch, wanted=" or ".join(states))
    return row


def _refuse_number(batch: object) -> None:
    if not isinstance(batch, int):
        raise NoBatch(batch=repr(batch))
    if not 1 <= batch <= LAST:
        raise NoBatch(batch=batch)


def _execute(session: Place, statement: sa.Executable, values: dict[str, Any] | None = None) -> sa.Result[Any]:
    return session.execute(statement, values or {})
