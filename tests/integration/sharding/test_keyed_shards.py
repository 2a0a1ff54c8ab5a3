"""Shard jobs work a batch by partition: each key in order whatever fails, and no key for the sake of another."""

import threading
from collections import Counter, defaultdict
from typing import Any

import pytest
import sqlalchemy as sa

from sharding import batches, claims, keyed_claims, upkeep
from smena.book import Actor
from smena.errors import ClaimLost, Transient
from smena.store.database import Database
from workers.middleware.outcome import Returned

from . import book
from .test_shards import callbacks, dead, effects, outcome_of
from .world import process

N, KEYS = 240, 6


def opened(database: Database, actor: Actor[..., Any] = book.commits, **said: Any) -> int:
    options: dict[str, Any] = {"by": lambda number: number % KEYS, "partitions": 3, "then": book.ended} | said
    with database.session() as session:
        batch = batches.open(session, actor, range(N), mode="partition", **options)
        session.commit()
    return batch.id


def of_keys(numbers: list[int]) -> dict[int, list[int]]:
    """Return what was worked of each key, in the order in which it was."""
    found = defaultdict(list)
    for number in numbers:
        found[number % KEYS].append(number)
    return dict(found)


def in_order(*left_out: int) -> dict[int, list[int]]:
    return {key: [n for n in range(key, N, KEYS) if n not in left_out] for key in range(KEYS)}


def retry(database: Database, batch: int) -> int:
    with database.session() as session:
        count = batches.retry(session, batch)
        session.commit()
    return count


def test_its_shard_jobs_are_none_that_a_worker_knows_who_knows_no_partitions(database: Database) -> None:
    batch = opened(database)
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batches SET sent_at = now() - interval '1 h'"))
        assert upkeep.wake(connection, 60)
    with database.session() as session:
        batches.pause(session, batch)
        batches.resume(session, batch)
        session.commit()
    with database.transaction() as connection:
        sent = connection.execute(sa.text("SELECT DISTINCT actor FROM smena.outbox")).scalars().all()
    assert sent == [batches.KEYED_SHARD]


@pytest.mark.parametrize("actor", [book.plain, book.commits], ids=str)
def test_each_key_is_worked_in_order_and_one_at_a_time_by_several_workers(
    database: Database, actor: Actor[..., Any]
) -> None:
    at_work: set[int] = set()

    def hook(number: int) -> None:
        assert number % KEYS not in at_work
        at_work.add(number % KEYS)
        threading.Event().wait(0.001)
        at_work.discard(number % KEYS)

    book.doing.hook = hook
    batch = opened(database, actor)
    with process(database, slice_s=0.02) as one, process(database, slice_s=0.02) as other:
        threads = [threading.Thread(target=each.work, args=(batch,), name=f"work {each}") for each in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    assert of_keys(book.doing.seen) == in_order()
    assert effects(database) == ({} if actor is book.plain else dict.fromkeys(range(N), 1))
    assert callbacks(database) == 1


def test_an_item_that_fails_holds_up_its_key_until_it_is_done_and_no_other_key(database: Database) -> None:
    flaky = 33
    failed: list[int] = []
    ahead: list[int] = []

    def hook(number: int) -> None:
        if number == flaky and len(failed) < 2:
            failed.append(number)
            book.outage(number)
        if failed and flaky not in ahead:
            ahead.append(number)

    book.doing.hook = hook
    batch = opened(database)
    with process(database) as one:  # whose claims do not end with it, however slow the machine is
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    seen = of_keys(book.doing.seen)
    assert seen.pop(flaky % KEYS) == [n for n in range(3, N, KEYS) for _ in range(3 if n == flaky else 1)]
    assert seen == {key: numbers for key, numbers in in_order().items() if key != flaky % KEYS}
    assert {number % KEYS for number in ahead} > {flaky % KEYS}  # others went on meanwhile
    with database.transaction() as connection:
        attempts = connection.execute(sa.text("SELECT item, attempt FROM effects WHERE attempt > 1")).all()
    assert [tuple(row) for row in attempts] == [(flaky, 3)]


def test_after_a_dead_item_its_key_goes_on(database: Database) -> None:
    def hook(number: int) -> None:
        if number in (9, 21, 100):
            raise book.Bad(number=number)

    book.doing.hook = hook
    batch = opened(database)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 3, 3, 0)
        assert of_keys(book.doing.seen) == in_order()
        assert set(effects(database)) == set(range(N)) - {9, 21, 100}
        book.doing.__init__()  # type: ignore[misc]  # as new
        assert retry(database, batch) == 3
        one.work(batch, epoch=2)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    assert of_keys(book.doing.seen) == {3: [9, 21], 4: [100]}
    assert callbacks(database) == 2


def test_an_item_that_is_dead_stays_so_when_its_worker_is_gone_after_the_next_of_its_key(database: Database) -> None:
    """A death that is written with the slice alone is forgotten with it, and the item takes effect out of turn."""
    bad, last = 100, 102
    is_gone = threading.Event()

    def hook(number: int) -> None:
        if number == bad and not is_gone.is_set():
            raise book.Bad(number=number)
        if number == last and not is_gone.is_set():
            is_gone.set()
            raise ClaimLost(item=number)  # what was not committed by then never was

    book.doing.hook = hook
    batch = opened(database, by=lambda _: "one")
    with process(database, lease_s=1.0, slice_s=60) as one:  # so that both are in one claim
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 1, 1, 0)
    assert is_gone.is_set()
    assert set(effects(database)) == set(range(N)) - {bad}


@pytest.mark.parametrize("largest", [None, 5], ids=["in hand", "and beyond"])
def test_a_dead_item_blocks_what_is_behind_it_until_it_is_retried(database: Database, largest: int | None) -> None:
    bad = 45

    def hook(number: int) -> None:
        if number == bad:
            raise book.Bad(number=number)

    book.doing.hook = hook
    batch = opened(database, on_dead="block", largest_slice=largest)
    behind = list(range(bad + KEYS, N, KEYS))
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 1 - len(behind), 1 + len(behind), 0)
        assert of_keys(book.doing.seen) == in_order(*behind)
        items = one.board.snapshot()["counters"]["smena_batch_items_total"]
        assert items["works.commits|dead"] == 1 + len(behind)
        assert Counter(dead(database, batch).values()) == {(1, "bad"): 1, (0, "blocked"): len(behind)}
        book.doing.__init__()  # type: ignore[misc]  # as new
        assert retry(database, batch) == 1 + len(behind)
        one.work(batch, epoch=2)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    assert book.doing.seen == [bad, *behind]
    assert effects(database) == dict.fromkeys(range(N), 1)


UNREADABLE = """
SELECT n % 2 AS key, n, CASE n WHEN 4 THEN CAST('1e999' AS json) END AS odd FROM generate_series(0, 9) AS n
"""


def test_p39_a_row_that_is_no_value_here_dies_in_its_turn_and_blocks_its_key(database: Database) -> None:
    with database.session() as session:
        query = batches.Query(UNREADABLE)
        batch = batches.open(session, book.row, query, mode="partition", by="key", on_dead="block").id
        session.commit()
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 7, 3, 0)
    assert Counter(dead(database, batch).values()) == {(1, "unreadable_item"): 1, (0, "blocked"): 2}
    assert sorted(book.doing.seen) == [0, 1, 2, 3, 5, 7, 9]


def test_p32_an_heir_goes_on_where_a_frozen_owner_was_and_the_owner_writes_nothing_more(database: Database) -> None:
    batch = opened(database, shards=1, partitions=1)
    with process(database) as one, process(database) as heir:

        def hook(number: int) -> None:
            if number == 39 and not frozen:
                frozen.append(number)  # for longer than its lease, in the middle of its item
                with database.transaction() as connection:
                    connection.execute(
                        sa.text("UPDATE smena.batch_slices SET lease_until = now() WHERE owner IS NOT NULL")
                    )
                heir.work(batch, threads=1)

        frozen: list[int] = []
        book.doing.hook = hook
        one.work(batch, threads=1)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
        assert one.board.snapshot()["counters"]["smena_stale_writes_total"] == {"batch": 1}
    assert effects(database) == dict.fromkeys(range(N), 1)
    seen = of_keys(book.doing.seen)
    assert seen.pop(3) == [n for n in range(3, N, KEYS) for _ in range(2 if n == 39 else 1)]
    with database.transaction() as connection:
        written = of_keys(list(connection.scalars(sa.text("SELECT item FROM effects ORDER BY ctid"))))
    assert written == in_order()


def test_what_an_owner_committed_before_it_died_is_not_worked_again(database: Database) -> None:
    batch = opened(database, partitions=1)
    with process(database) as one:
        held = one.keeper.take("dead", batch, 1, 16, 0, keyed_claims.take)
        assert held is not None
        piece = held.claim.pieces[0]
        for place in range(3):
            with database.session() as session:
                session.execute(book.EFFECT, {"item": piece.items[place], "job": "dead", "attempt": 1})
                claims.mark(session, piece, [piece.first + place])
                session.commit()
        one.keeper.drop(held)
        with database.transaction() as connection:
            connection.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now()"))
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
        with database.session() as session, pytest.raises(ClaimLost):
            claims.mark(session, piece, [piece.first + 3])
    assert effects(database) == dict.fromkeys(range(N), 1)
    assert set(piece.items[:3]).isdisjoint(book.doing.seen)


def test_a_batch_that_is_paused_or_drained_keeps_its_order(database: Database) -> None:
    batch = opened(database)
    with process(database, slice_s=5) as one:

        def hook(number: int) -> None:
            if number == 100:
                with database.session() as session:
                    batches.pause(session, batch)
                    session.commit()
                one.ending.set()

        book.doing.hook = hook
        assert isinstance(one.turn(batch), Returned)
        assert one.status(batch).held == 0
        assert one.status(batch).state == "paused"
    with database.session() as session:
        batches.resume(session, batch)
        session.commit()
    with process(database) as other:
        other.work(batch, epoch=2)
        assert outcome_of(other, batch) == ("complete", N, 0, 0)
    assert of_keys(book.doing.seen) == in_order()


def test_an_item_that_kills_its_owner_is_dead_and_its_key_goes_on_in_order(database: Database) -> None:
    batch = opened(database, partitions=1)
    with database.transaction() as connection:
        connection.execute(
            sa.text(
                "WITH parted AS (UPDATE smena.batch_slices SET last = 0, losses = 3 RETURNING batch, partition)"
                " INSERT INTO smena.batch_slices (batch, partition, first, last) SELECT batch, partition, 1, :last"
                " FROM parted"
            ),
            {"last": N - 1},
        )
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 1, 1, 0)
    assert dead(database, batch) == {0: (1, "crashed")}
    assert sum(map(len, of_keys(book.doing.seen).values())) == N - 1


def test_an_outage_leaves_few_slices_and_each_key_in_order(database: Database) -> None:
    calls = {"left": 300}

    def hook(number: int) -> None:
        if calls["left"] > 0:
            calls["left"] -= 1
            raise Transient("away", item=number)

    book.doing.hook = hook
    batch = opened(database, book.patient, by=lambda number: number // 2, partitions=1)
    with process(database) as one:
        most = 0
        give_up = threading.Event()
        while one.status(batch).state == "running" and not give_up.wait(0.01):
            one.turn(batch)
            with database.transaction() as connection:
                most = max(most, connection.scalar(sa.text("SELECT count(*) FROM smena.batch_slices")) or 0)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    assert most <= 2 * keyed_claims.MOST_HELD + 1
    with database.transaction() as connection:
        written = list(connection.scalars(sa.text("SELECT item FROM effects ORDER BY ctid")))
    assert all(written.index(number) < written.index(number + 1) for number in range(0, N, 2))
