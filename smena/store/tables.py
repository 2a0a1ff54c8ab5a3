"""Describe the tables of the schema `smena`, which lives in the business database.

These are the shapes that this build reads and writes; `migrations/` brings a database to them, and a
test holds the two equal. The rules behind them:

- Times are the database's (`now()`), never a worker's: leases are compared on one clock.
- What is never searched is `json`, not `jsonb`: it takes any text that is JSON, so an escaped NUL or
  a lone surrogate in a payload cannot fail a row (P25); and it costs no parse.
- Rows that are done leave the hot index: those indexes are partial.
- Text keys are compared byte by byte (collation C): order and equality depend on no locale.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from smena.store.escapes import json_value

SCHEMA = "smena"


class AnyJson(sa.types.TypeDecorator[Any]):
    """A `json` column that never fails its row: see `smena/store/escapes.py`."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Tame the value on its way in."""
        return json_value(value)


metadata = sa.MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    },
)

_KEY = sa.Text(collation="C")
_TIME = sa.DateTime(timezone=True)
_NOW = sa.text("now()")

outbox = sa.Table(
    "outbox",
    metadata,
    # Order of writing and handle of a row. Never a cursor: state is per row (P38).
    sa.Column("seq", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    # The message id, which is the job's id. A retry that waits here carries the id of its first attempt's row.
    sa.Column("id", _KEY, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("1")),
    sa.Column("snoozes", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("actor", sa.Text, nullable=False),
    # The logical queue. Exchange and routing key only where the row does not go to that queue's work queue.
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("exchange", sa.Text),
    sa.Column("routing_key", sa.Text),
    sa.Column("ordering_key", _KEY),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("properties", AnyJson, nullable=False),
    sa.Column("created_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("due_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("state", sa.Text, nullable=False, server_default=sa.text("'pending'")),
    # The claim: who publishes it, until when, under which term. A claim that ran out is anybody's again.
    sa.Column("owner", sa.Text),
    sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("lease_until", _TIME),
    # Tries to publish that failed for good or for now, and the last error.
    sa.Column("tries", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("error", sa.Text),
    sa.Column("sent_at", _TIME),
    sa.CheckConstraint("state IN ('pending', 'sent', 'parked')", name="state_check"),
    sa.UniqueConstraint("id", "attempt", "snoozes"),
    # The claim's own index: a claim changes none of its columns, so claiming is a heap-only update.
    sa.Index("outbox_pending_idx", "due_at", "seq", postgresql_where=sa.text("state = 'pending'")),
    sa.Index(
        "outbox_ordered_idx",
        "ordering_key",
        "seq",
        postgresql_where=sa.text("state = 'pending' AND ordering_key IS NOT NULL"),
    ),
    sa.Index("outbox_parked_idx", "seq", postgresql_where=sa.text("state = 'parked'")),
    sa.Index("outbox_sent_idx", "sent_at", postgresql_where=sa.text("state = 'sent'")),
)
"""Messages written with the business change, which the relay publishes."""

settlements = sa.Table(
    "settlements",
    metadata,
    sa.Column("job_id", _KEY, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("exchange", sa.Text, nullable=False),
    sa.Column("routing_key", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("properties", AnyJson, nullable=False),
    sa.Column("created_at", _TIME, nullable=False, server_default=_NOW),
    # When the broker confirmed the message; empty means that it may have to be published again.
    sa.Column("confirmed_at", _TIME),
    sa.CheckConstraint("kind IN ('retry', 'dead', 'snooze')", name="kind_check"),
    sa.Index("settlements_created_at_idx", "created_at"),
)
"""What became of an attempt: the message that followed it, written before that is published."""

once_keys = sa.Table(
    "once_keys",
    metadata,
    sa.Column("actor", _KEY, primary_key=True),
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("job_id", _KEY, nullable=False),
    # What the actor returned; SQL NULL for None.
    sa.Column("result", AnyJson),
    sa.Column("created_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("expires_at", _TIME, nullable=False),
    sa.Index("once_keys_expires_at_idx", "expires_at"),
)
"""Effects that have happened, committed together with them."""

dead_letters = sa.Table(
    "dead_letters",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("job_id", _KEY, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    # The logical queue of the job, and the broker's queue that the letter was read from.
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("source", sa.Text),
    # Empty where the message could not be decoded.
    sa.Column("actor", sa.Text),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("error_class", sa.Text),
    sa.Column("error_text", sa.Text),
    sa.Column("traceback", sa.Text),
    # Equal for failures of one kind at one place; groups letters.
    sa.Column("fingerprint", sa.Text),
    sa.Column("died_at", _TIME, nullable=False),
    sa.Column("first_enqueued_at", _TIME),
    sa.Column("worker", sa.Text),
    sa.Column("build", sa.Text),
    sa.Column("request_id", sa.Text),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("properties", AnyJson, nullable=False),
    sa.Column("archived_at", _TIME, nullable=False, server_default=_NOW),
    sa.UniqueConstraint("job_id", "attempt"),
    sa.Index("dead_letters_reason_died_at_idx", "reason", "died_at"),
    sa.Index("dead_letters_fingerprint_idx", "fingerprint"),
)
"""Jobs that ended without their effect, and why; only an operator removes them."""

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", _KEY, primary_key=True),
    # A random id per boot; a name would hide that its owner died and came back (P32).
    sa.Column("owner", sa.Text),
    sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("expires_at", _TIME, nullable=False),
    # Not needed for uniqueness: it makes the term a key column, so that a takeover waits for a fence
    # held FOR KEY SHARE while a renewal passes it.
    sa.UniqueConstraint("name", "term"),
)
"""Who holds what, until when, under which term."""

lives = sa.Table(
    "lives",
    metadata,
    # A random id for each worker process; the process holds a session's advisory lock of that name while it lives.
    sa.Column("life", _KEY, primary_key=True),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("born_at", _TIME, nullable=False, server_default=_NOW),
)
"""Worker processes that have not ended, or whose end nobody has looked into yet."""

starts = sa.Table(
    "starts",
    metadata,
    sa.Column("job_id", _KEY, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("life", _KEY, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    sa.Column("started_at", _TIME, nullable=False, server_default=_NOW),
    sa.Index("starts_life_idx", "life"),
    sa.Index("starts_started_at_idx", "started_at"),
)
"""Redelivered jobs that run: what is left of a host that dies with its supervisor."""

strikes = sa.Table(
    "strikes",
    metadata,
    sa.Column("job_id", _KEY, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    # The process that died; all strikes of one death have it in common.
    sa.Column("life", _KEY, primary_key=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    # How many jobs ran in that process when it died, this one included.
    sa.Column("beside", sa.Integer, nullable=False),
    # How it ended: a signal's name or an exit code in words.
    sa.Column("how", sa.Text, nullable=False),
    sa.Column("peak_mib", sa.Integer),
    sa.Column("ran_s", sa.Float),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("host", sa.Text, nullable=False),
    # The last lines of its log, and where the thread was that is to blame.
    sa.Column("lines", sa.Text),
    sa.Column("stack", sa.Text),
    sa.Column("struck_at", _TIME, nullable=False, server_default=_NOW),
    # When the job was shown not to be the one: it returned or raised while it ran apart from the others.
    sa.Column("cleared_at", _TIME),
    sa.CheckConstraint(
        "why IN ('suspected', 'ended', 'fault', 'hard_limit', 'held_interpreter', 'lost')", name="why_check"
    ),
    sa.Index("strikes_struck_at_idx", "struck_at"),
)
"""Jobs that ran in a process when it died; a suspicion, never an attempt."""

batches = sa.Table(
    "batches",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    # Of all batches that are opened with one key there is one.
    sa.Column("key", _KEY, unique=True),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("per", sa.Text, nullable=False),
    # Whether any worker takes any slice, or the items of a key are worked in their order.
    sa.Column("mode", sa.Text, nullable=False, server_default=sa.text("'claim'")),
    sa.Column("partitions", sa.Integer),
    # What follows the death of a key's item.
    sa.Column("on_dead", sa.Text),
    # What the actor is given beside the item.
    sa.Column("kwargs", AnyJson, nullable=False),
    sa.Column("shards", sa.Integer, nullable=False),
    sa.Column("largest_slice", sa.Integer),
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False, server_default=sa.text("'running'")),
    # Grows with every resume; shard jobs of an earlier epoch end where they are found.
    sa.Column("epoch", sa.Integer, nullable=False, server_default=sa.text("1")),
    # Counted once, at the end: a counter that every slice changed would be the one row that all wait for.
    sa.Column("done", sa.BigInteger),
    sa.Column("dead", sa.BigInteger),
    # Who is sent the counts then, and what it is to be traced back to.
    sa.Column("then_actor", sa.Text),
    sa.Column("then_queue", sa.Text),
    sa.Column("request_id", sa.Text),
    sa.Column("traceparent", sa.Text),
    sa.Column("opened_at", _TIME, nullable=False, server_default=_NOW),
    # When shard jobs were last sent, the first time included.
    sa.Column("sent_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("ended_at", _TIME),
    # When somebody was last seen to have it in hand: noted by a janitor, and as it is opened and taken up again.
    sa.Column("held_at", _TIME, nullable=False, server_default=_NOW),
    sa.CheckConstraint("per IN ('item', 'slice')", name="per_check"),
    sa.CheckConstraint("mode IN ('claim', 'partition')", name="mode_check"),
    sa.CheckConstraint("on_dead IN ('skip', 'block')", name="on_dead_check"),
    sa.CheckConstraint("state IN ('running', 'paused', 'cancelled', 'complete')", name="state_check"),
    sa.Index("batches_ended_at_idx", "ended_at", postgresql_where=sa.text("ended_at IS NOT NULL")),
)
"""Work that was cut into slices: one row for each batch, written when it is opened, paused and ended."""

batch_items = sa.Table(
    "batch_items",
    metadata,
    sa.Column("batch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("item", AnyJson, nullable=False),
)
"""The items of a batch, numbered from 0 without a gap: written once, never changed, so never dead under a snapshot."""

batch_keys = sa.Table(
    "batch_keys",
    metadata,
    sa.Column("batch", sa.BigInteger, primary_key=True, autoincrement=False),
    # The first and the last item, both within: a key's items are numbered one after the other, in their order.
    sa.Column("first", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("key", _KEY, nullable=False),
)
"""The keys of a batch by partition, and where their items lie: written once, as the items are."""

batch_slices = sa.Table(
    "batch_slices",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    # In the key, so that a takeover waits for a fence held FOR KEY SHARE while a renewal passes it.
    sa.Column("term", sa.Integer, primary_key=True, autoincrement=False, server_default=sa.text("0")),
    sa.Column("batch", sa.BigInteger, nullable=False),
    # Of a batch by partition; one slice of a partition has an owner at a time.
    sa.Column("partition", sa.Integer),
    # The first and the last item, both within.
    sa.Column("first", sa.BigInteger, nullable=False),
    sa.Column("last", sa.BigInteger, nullable=False),
    # Which attempt of its items this will be; by partition, of its first one.
    sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("1")),
    # How often a job was struck that held it.
    sa.Column("losses", sa.Integer, nullable=False, server_default=sa.text("0")),
    # A shard job in one life of a process (P32), as a strike names them; empty while nobody works it.
    sa.Column("owner", sa.Text),
    # Until when nobody else may take it: the owner's lease, or the wait before a retry.
    sa.Column("lease_until", _TIME, nullable=False, server_default=sa.text("'epoch'")),
    sa.Index("batch_slices_batch_idx", "batch", "first"),
    sa.Index(
        "batch_slices_partition_idx",
        "batch",
        "partition",
        "first",
        postgresql_where=sa.text("partition IS NOT NULL"),
    ),
    postgresql_with={"fillfactor": "50"},
)
"""What is left of a batch: runs of items that are not done and not dead. A claim takes rows, a finish deletes them."""

batch_marks = sa.Table(
    "batch_marks",
    metadata,
    sa.Column("batch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
)
"""Items whose effect was committed one by one, together with this row; it counts until their slice is finished."""

batch_dead = sa.Table(
    "batch_dead",
    metadata,
    sa.Column("batch", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("error_class", sa.Text),
    sa.Column("error_text", sa.Text),
    sa.Column("traceback", sa.Text),
    sa.Column("fingerprint", sa.Text),
    sa.Column("died_at", _TIME, nullable=False, server_default=_NOW),
)
"""Items that ended without their effect, and why."""
key_holds = sa.Table(
    "key_holds",
    metadata,
    sa.Column("queue", _KEY, primary_key=True),
    sa.Column("key", _KEY, primary_key=True),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    # The error, or what it was put off for.
    sa.Column("reason", sa.Text, nullable=False),
    # The job that holds its key up.
    sa.Column("job_id", _KEY, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("held_at", _TIME, nullable=False, server_default=_NOW),
    # Empty while the key is blocked by a death: an operator says how it goes on.
    sa.Column("due_at", _TIME),
    # An operator has done so; the partition's owner has still to see it.
    sa.Column("released", sa.Boolean, nullable=False, server_default=sa.text("false")),
    # The dead letter of a job that blocks its key, sent if it is skipped.
    sa.Column("letter_routing_key", sa.Text),
    sa.Column("letter_properties", AnyJson),
    sa.CheckConstraint("why IN ('retry', 'snooze', 'blocked', 'handed_over')", name="why_check"),
    sa.Index("key_holds_partition_idx", "queue", "partition"),
    sa.Index("key_holds_released_idx", "queue", postgresql_where=sa.text("released")),
)
"""Keys of ordered queues that wait, why and until when; other keys of their partitions go on."""

key_parked = sa.Table(
    "key_parked",
    metadata,
    # The order within a key.
    sa.Column("seq", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("queue", _KEY, nullable=False),
    sa.Column("partition", sa.Integer, nullable=False),
    sa.Column("key", _KEY, nullable=False),
    sa.Column("job_id", _KEY, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("snoozes", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("properties", AnyJson, nullable=False),
    sa.Column("parked_at", _TIME, nullable=False, server_default=_NOW),
    sa.UniqueConstraint("queue", "job_id"),
    sa.Index("key_parked_key_idx", "queue", "key", "seq"),
    sa.Index("key_parked_partition_idx", "queue", "partition"),
)
"""Jobs of held keys: the one that holds its key up, and behind it those that came later, in their order."""

partition_groups = sa.Table(
    "partition_groups",
    metadata,
    sa.Column("name", _KEY, primary_key=True),
    # Fixed: a key's partition follows from it.
    sa.Column("partitions", sa.Integer, nullable=False),
    # Grows with each plan; a plan is written only over the one it was made from.
    sa.Column("generation", sa.BigInteger, nullable=False, server_default=sa.text("0")),
    # The members it is made for, and each partition's owner as a number among them.
    sa.Column("plan", sa.JSON),
    sa.Column("planned_at", _TIME, nullable=False, server_default=_NOW),
)
"""Key spaces cut into partitions, and who should own which; who does is in ``leases``."""

members = sa.Table(
    "members",
    metadata,
    sa.Column("group_name", _KEY, primary_key=True),
    # A random id per boot; a name would hide that its owner died and came back (P32).
    sa.Column("member", _KEY, primary_key=True),
    sa.Column("worker", sa.Text, nullable=False),
    sa.Column("joined_at", _TIME, nullable=False, server_default=_NOW),
    # In no index: a heartbeat is a heap-only update.
    sa.Column("expires_at", _TIME, nullable=False),
    # It hands over what it holds and takes no share any more.
    sa.Column("leaving", sa.Boolean, nullable=False, server_default=sa.text("false")),
)
"""Processes that work the partitions of a group; a row lives as long as its heartbeats."""
schedules = sa.Table(
    "schedules",
    metadata,
    sa.Column("name", _KEY, primary_key=True),
    # Who wants it: a loaded book's declaration, or somebody who added it at run time.
    sa.Column("source", sa.Text, nullable=False),
    # The rule as text, which `smena.timetable.read` reads.
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("queue", sa.Text, nullable=False),
    sa.Column("args", AnyJson, nullable=False),
    sa.Column("kwargs", AnyJson, nullable=False),
    sa.Column("misfire", sa.Text, nullable=False),
    sa.Column("misfire_cap", sa.Integer, nullable=False),
    sa.Column("overlap", sa.Text, nullable=False),
    # What became of every tick up to here is decided. The first tick after it, or empty: none comes.
    sa.Column("since", _TIME, nullable=False),
    sa.Column("next_at", _TIME),
    sa.Column("paused_at", _TIME),
    # When a book last declared it, and since when its book does not any more.
    sa.Column("declared_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("removed_at", _TIME),
    sa.Column("created_at", _TIME, nullable=False, server_default=_NOW),
    sa.CheckConstraint("source IN ('book', 'added')", name="source_check"),
    sa.CheckConstraint("misfire IN ('skip', 'one', 'all')", name="misfire_check"),
    sa.CheckConstraint("overlap IN ('allow', 'skip', 'queue')", name="overlap_check"),
    sa.Index("schedules_next_at_idx", "next_at", postgresql_where=sa.text("paused_at IS NULL AND removed_at IS NULL")),
)
"""Periodic work: when it is due, and up to when that is decided."""

ticks = sa.Table(
    "ticks",
    metadata,
    sa.Column("schedule", _KEY, primary_key=True),
    # The planned time; by it two who fire the same tick are one.
    sa.Column("at", _TIME, primary_key=True),
    sa.Column("state", sa.Text, nullable=False),
    # fired: on_time, caught_up, by_hand, after_wait; skipped: missed, busy, queue_full, paused,
    # removed.
    sa.Column("why", sa.Text, nullable=False),
    # A row of several ticks that were passed over together: the last of them, and how many.
    sa.Column("until", _TIME),
    sa.Column("count", sa.Integer, nullable=False, server_default=sa.text("1")),
    sa.Column("job_id", _KEY),
    sa.Column("decided_at", _TIME, nullable=False, server_default=_NOW),
    sa.Column("fired_at", _TIME),
    # When its job was done or dead, or nothing was heard of it for too long.
    sa.Column("ended_at", _TIME),
    sa.Column("ending", sa.Text),
    sa.CheckConstraint("state IN ('fired', 'waiting', 'skipped')", name="state_check"),
    sa.CheckConstraint("ending IN ('done', 'dead', 'forgotten')", name="ending_check"),
    sa.Index("ticks_job_id_idx", "job_id", unique=True, postgresql_where=sa.text("ended_at IS NULL")),
    sa.Index("ticks_open_idx", "schedule", postgresql_where=sa.text("state = 'fired' AND ended_at IS NULL")),
    sa.Index("ticks_waiting_idx", "schedule", postgresql_where=sa.text("state = 'waiting'")),
    sa.Index("ticks_decided_at_idx", "decided_at"),
    # Whether a tick was passed over with others is asked for each: of all that are kept, few are such rows.
    sa.Index("ticks_until_idx", "schedule", "until", postgresql_where=sa.text("until IS NOT NULL")),
)
"""What became of each tick, written with its job's outbox row."""
