"""A batch whose shard jobs were lost gets new ones, and what ended long ago is deleted piece by piece."""

from typing import Any

import sqlalchemy as sa

from sharding import batches, claims, keyed_claims, upkeep
from sharding.claims import Wish
from smena.store.database import Database

from . import book


def opened(database: Database, count: int, **options: Any) -> int:
    with database.session() as session:
        batch = batches.open(session, book.each, range(count), shards=3, **options)
        session.commit()
    return batch.id


def run(database: Database, statement: str, **values: int) -> None:
    with database.transaction() as connection:
        connection.execute(sa.text(statement), values)


def woken(database: Database) -> list[tuple[int, int]]:
    with database.transaction() as connection:
        return [(one.batch, one.epoch) for one in upkeep.wake(connection, 60)]


def test_a_batch_that_nobody_holds_is_sent_new_shard_jobs_later_each_time(database: Database) -> None:
    batch = opened(database, 100)
    assert woken(database) == []  # it was sent just now
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '61 s'; DELETE FROM smena.outbox")
    assert woken(database) == [(batch, 2)]
    assert woken(database) == []
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '61 s'")
    assert woken(database) == []  # the second time it is given twice as long
    with database.transaction() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM smena.outbox")) == 3


def test_a_batch_that_was_taken_up_again_often_does_not_wait_for_ever(database: Database) -> None:
    batch = opened(database, 100)
    run(database, "UPDATE smena.batches SET epoch = 1000, sent_at = now() - interval '601 s'")
    assert woken(database) == [(batch, 1001)]


def test_a_batch_by_partition_is_woken_and_its_order_kept(database: Database) -> None:
    batch = opened(database, 100, mode="partition", by=lambda number: number % 2, partitions=1)
    with database.transaction() as connection:
        held = keyed_claims.take(connection, Wish(batch, 1, "me", 60, 10))
    assert held is not None
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '61 s'")
    assert woken(database) == []
    run(database, "UPDATE smena.batch_slices SET lease_until = now() WHERE owner IS NOT NULL")
    assert woken(database) == [(batch, 2)]
    with database.transaction() as connection:
        heir = keyed_claims.take(connection, Wish(batch, 2, "other", 60, 10))
    assert heir is not None
    assert heir.pieces[0].first == held.pieces[0].first


def test_a_batch_that_somebody_holds_or_that_does_not_run_is_left_alone(database: Database) -> None:
    held, paused = opened(database, 10), opened(database, 10)
    with database.session() as session:
        batches.pause(session, paused)
        session.commit()
    with database.transaction() as connection:
        assert claims.take(connection, Wish(held, 1, "me", 60, 1))
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '1 h', held_at = now() - interval '1 h'")
    assert woken(database) == []
    with database.transaction() as connection:
        assert upkeep.stalled(connection, 60) == []


def idle(database: Database, stalled_s: float = 60) -> list[tuple[int, int]]:
    with database.transaction() as connection:
        return [(one.batch, round(one.since_s / 60)) for one in upkeep.stalled(connection, stalled_s)]


def test_a_batch_that_nobody_works_is_told_of_for_as_long_as_that_is_so_whoever_sends_it_anew(
    database: Database,
) -> None:
    batch = opened(database, 100)
    assert idle(database) == []  # it was opened just now
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '1 h', held_at = now() - interval '1 h'")
    assert woken(database) == [(batch, 2)]
    assert idle(database) == [(batch, 60)]  # new shard jobs are no work
    with database.session() as session:
        assert round(batches.status(session, batch).idle_s / 60) == 60
        batches.resume(session, batch)
        session.commit()
    assert idle(database) == []  # an operator has just taken it up


def test_a_batch_is_in_hand_until_it_was_last_seen_so(database: Database) -> None:
    batch = opened(database, 100)
    with database.transaction() as connection:
        held = claims.take(connection, Wish(batch, 1, "me", 60, 10))
    run(database, "UPDATE smena.batches SET sent_at = now() - interval '1 h', held_at = now() - interval '1 h'")
    assert idle(database) == []
    run(database, "UPDATE smena.batch_slices SET lease_until = now() - interval '5 min' WHERE owner IS NOT NULL")
    assert idle(database) == [(batch, 5)]  # its owner died, and its lease ended then
    run(database, "UPDATE smena.batch_slices SET lease_until = now() + interval '60 s' WHERE owner IS NOT NULL")
    with database.transaction() as connection:
        assert [upkeep.see(connection, 60), upkeep.see(connection, 60)] == [1, 0]
    assert held is not None
    with database.transaction() as connection:
        claims.finish(connection, held)
    assert idle(database) == []  # a finished slice leaves no trace, and it was seen at work


def test_a_batch_is_pruned_with_all_its_rows_in_small_steps(database: Database) -> None:
    old, young = opened(database, 25, mode="partition", by=str), opened(database, 5)
    ended = "UPDATE smena.batches SET state = 'cancelled', ended_at = now() - interval '2 h' WHERE id = :batch"
    run(database, ended, batch=old)
    steps = []
    while True:
        with database.transaction() as connection:
            deleted = upkeep.prune(connection, 3600, 10)
        if not deleted:
            break
        steps.append(deleted)
    assert max(steps) <= 10
    with database.transaction() as connection:
        left = connection.execute(sa.text("SELECT DISTINCT batch FROM smena.batch_items")).scalars().all()
        assert connection.scalar(sa.text("SELECT count(*) FROM smena.batch_keys")) == 0
        kept = connection.execute(sa.text("SELECT id FROM smena.batches")).scalars().all()
    assert (left, kept) == ([young], [young])
