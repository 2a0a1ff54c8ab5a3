"""Slices of a batch by partition: a partition has one owner, and a key's items are taken in their order."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sharding import batches, claims, keyed_claims
from sharding.batches import NoBatch, Query
from sharding.claims import Again, Claim, DeadItem, Wish
from sharding.keyed_claims import Block
from smena.errors import ClaimLost, Misused, Unsendable
from smena.keyspace import partition_of
from smena.store.database import Database

from . import book
from .deaths import JOB, strike

BY_TEN = {"mode": "partition", "by": lambda number: number % 10}
ONE_KEY = {"mode": "partition", "by": lambda _: "k"}


def opened(database: Database, items: Any, **options: Any) -> int:
    with database.session() as session:
        batch = batches.open(session, options.pop("actor", book.each), items, **options)
        session.commit()
    return batch.id


def take(database: Database, batch: int, items: int = 1000, epoch: int = 1, life: str = "a") -> Claim | None:
    with database.transaction() as connection:
        return keyed_claims.take(connection, Wish(batch, epoch, claims.owner(life, JOB), 60, items))


def taken(database: Database, batch: int, items: int = 1000, epoch: int = 1) -> Claim:
    claim = take(database, batch, items, epoch)
    assert claim is not None
    return claim


def finish(
    database: Database,
    claim: Claim,
    again: Sequence[Again] = (),
    dead: Sequence[DeadItem] = (),
    blocks: Sequence[Block] = (),
) -> None:
    with database.transaction() as connection:
        keyed_claims.finish(connection, claim, again, dead, blocks)


def of(claim: Claim) -> list[int]:
    return list(claim.pieces[0].items)


def run_out(database: Database) -> None:
    """Let all leases and waits be over."""
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now() - interval '1 s'"))


def numbers(database: Database, batch: int, state: batches.State) -> list[int]:
    with database.session() as session:
        return [item.number for item in batches.items(session, batch, state)]


def test_items_lie_by_partition_and_key_in_the_order_in_which_they_were_given(database: Database) -> None:
    batch = opened(database, range(200), partitions=4, **BY_TEN)
    with database.session() as session:
        left = list(batches.items(session, batch, "left"))
        keys = session.execute(sa.text("SELECT key, partition FROM smena.batch_keys ORDER BY first")).all()
    assert [item.number for item in left] == list(range(200))
    assert dict(keys) == {str(k): partition_of(k, 4) for k in range(10)}
    assert [partition for _, partition in keys] == sorted(partition for _, partition in keys)
    by_key: defaultdict[str | None, list[int]] = defaultdict(list)
    for item in left:
        by_key[item.key].append(item.item)
    assert by_key == {str(k): list(range(k, 200, 10)) for k in range(10)}
    assert len({item.key for item in left[:20]}) == 1


def test_postgresql_and_python_know_one_partition_of_a_key(database: Database) -> None:
    words = ["é", "e\u0301", "😀", "смена", "tab\t, end\n, \\N", "%(a)s", "7", "x" * 255]
    batch = opened(database, words, actor=book.anything, mode="partition", by=str, partitions=4096)
    with database.session() as session:
        keys = session.execute(sa.text("SELECT key, partition FROM smena.batch_keys WHERE batch = :b"), {"b": batch})
        assert {row.key: row.partition for row in keys} == {word: partition_of(word, 4096) for word in words}


def test_rows_of_a_query_and_of_a_file_have_their_key_in_a_column(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('number,code\n1,b\n2,"a\t\\n"\n3,b\n', encoding="utf-8")
    series = sa.func.generate_series(1, 3).column_valued("number")
    sources = [
        (tmp_path / "a.csv", book.line, "code"),
        (Query("SELECT n AS number, 'c%' || n AS code FROM generate_series(1, 3) AS n"), book.line, "code"),
        (Query("SELECT n FROM generate_series(1, 3) AS n"), book.each, "n"),
        (sa.select(series, sa.literal("x").label("code")), book.line, "code"),
        (sa.select(series), book.each, "number"),
    ]
    found = []
    for source, actor, by in sources:
        batch = opened(database, source, actor=actor, mode="partition", by=by, partitions=1)
        with database.session() as session:
            found.append([item.key for item in batches.items(session, batch, "left")])
    assert found == [["a\t\\n", "b", "b"], ["c%1", "c%2", "c%3"], ["1", "2", "3"], ["x"] * 3, ["1", "2", "3"]]


@pytest.mark.parametrize(
    ("items", "options", "told"),
    [
        ([1], {"by": "n"}, "not given"),
        ([1], {"mode": "partition"}, "wants `by`"),
        ([1], {"mode": "partition", "by": ""}, "wants `by`"),
        ([1], {"mode": "parted"}, "'claim' or 'partition'"),
        ([1], ONE_KEY | {"per": "slice", "actor": book.many}, "one item at a time"),
        ([1], ONE_KEY | {"partitions": 0}, "1 to 4096"),
        ([1], ONE_KEY | {"on_dead": "wait"}, "'block' or 'skip'"),
        ([1], ONE_KEY | {"actor": book.in_order}, "no order"),
        ([1, 2], {"mode": "partition", "by": lambda n: None if n == 2 else n}, "not NoneType.*item=1"),
        ([1, 2], {"mode": "partition", "by": lambda n: "" if n == 2 else n}, "1 to 255 characters.*item=1"),
        ([1, 2], {"mode": "partition", "by": lambda n: "\0" if n == 2 else n}, "NUL.*item=1"),
        ([1], {"mode": "partition", "by": "code"}, "no field code.*item=0"),
        (Query("SELECT 1 AS a"), {"mode": "partition", "by": "b"}, "no column"),
        (Query("SELECT 1 AS a"), ONE_KEY, "name of a column"),
        (Query("SELECT 1.5 AS a"), {"mode": "partition", "by": "a"}, "cast.*item=0"),
        (Query("SELECT CAST(NULL AS text) AS a"), {"mode": "partition", "by": "a"}, "cast.*item=0"),
    ],
    ids=range(16),
)
def test_what_gives_no_order_is_refused(database: Database, items: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises((Misused, Unsendable), match=told):
        opened(database, items, **options)


def test_claimers_that_come_at_once_keep_each_key_in_order_and_each_partition_to_one(database: Database) -> None:
    batch = opened(database, range(3000), partitions=3, **BY_TEN)
    seen: defaultdict[int, list[int]] = defaultdict(list)
    owned: set[int | None] = set()

    def work(number: int) -> None:
        while True:
            claim = take(database, batch, items=30 + number, life=f"life-{number}")
            if claim is None:
                with database.transaction() as connection:
                    if not keyed_claims.outlook(connection, batch, 1).is_open:
                        return
                continue
            assert claim.partition not in owned
            owned.add(claim.partition)
            for item in of(claim):
                seen[item % 10].append(item)
            owned.discard(claim.partition)
            finish(database, claim)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert seen == {key: list(range(key, 3000, 10)) for key in range(10)}


def test_two_claimers_at_one_moment_do_not_share_a_partition(database: Database) -> None:
    batch = opened(database, range(20), partitions=1, **BY_TEN)
    finish(database, taken(database, batch, items=4), again=[Again(0, 1, 2, 3600.0)])
    with database.transaction() as connection:
        first = keyed_claims.take(connection, Wish(batch, 1, "a", 60, 100))
        assert first is not None
        with database.transaction() as other:  # what waited is free from this moment on
            other.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now() WHERE first = 0"))
        assert take(database, batch, life="b") is None  # the first one is not committed yet, and holds all the same
    assert take(database, batch, life="b") is None
    finish(database, first)
    assert of(taken(database, batch)) != of(first)


@pytest.mark.parametrize(("wish", "sizes"), [(1000, [20]), (9, [8, 8, 4]), (3, [3, 1] * 5)])
def test_a_claim_ends_with_a_key_unless_the_key_is_longer(database: Database, wish: int, sizes: list[int]) -> None:
    batch = opened(database, range(20), mode="partition", by=lambda number: number % 5, partitions=1)
    found = []
    while claim := take(database, batch, items=wish):
        found.append(of(claim))
        finish(database, claim)
    assert [len(items) for items in found] == sizes
    assert [item for items in found for item in items] == [n for k in range(5) for n in range(k, 20, 5)]


def test_an_item_that_waits_holds_up_its_key_and_no_other(database: Database) -> None:
    batch = opened(database, range(40), mode="partition", by=lambda number: number % 2, partitions=1)
    claim = taken(database, batch, items=5)  # of the first key's twenty
    finish(database, claim, again=[Again(2, 4, 2, 3600.0)])
    others = taken(database, batch)
    assert of(others) == list(range(1, 40, 2))  # the second key; what is behind the item that waits is not there
    finish(database, others)
    assert take(database, batch) is None
    with database.transaction() as connection:
        assert keyed_claims.outlook(connection, batch, 1).wait_s > 3000  # nobody looks again before
    run_out(database)
    again = taken(database, batch)
    assert (of(again), again.pieces[0].attempt) == ([4, 6, 8], 2)
    finish(database, again)
    rest = taken(database, batch)
    assert (of(rest), rest.pieces[0].attempt) == (list(range(10, 40, 2)), 1)


def test_a_stale_owner_of_a_partition_cannot_write_and_its_heir_goes_on_where_it_was(database: Database) -> None:
    batch = opened(database, range(20), partitions=1, **BY_TEN)
    finish(database, taken(database, batch, items=4), again=[Again(0, 1, 2, 3600.0)])
    stale = taken(database, batch, items=2)
    assert take(database, batch, life="b") is None
    run_out(database)
    fresh = taken(database, batch)
    assert (fresh.pieces[0].id, fresh.pieces[0].term) == (stale.pieces[0].id, stale.pieces[0].term + 1)
    for dead in ([], [DeadItem(stale.pieces[0].first, 1, "bad")]):
        with pytest.raises(ClaimLost):
            finish(database, stale, dead=dead)
    with database.session() as session, pytest.raises(ClaimLost):
        claims.mark(session, stale.pieces[0], [stale.pieces[0].first])
    assert numbers(database, batch, "dead") == []
    finish(database, fresh)


def test_what_stands_behind_a_dead_item_is_dead_wherever_it_lies_and_is_taken_up_in_order(database: Database) -> None:
    batch = opened(database, range(40), mode="partition", by=lambda number: number % 2, partitions=1, on_dead="block")
    claim = taken(database, batch, items=5)
    finish(database, claim, dead=[DeadItem(2, 1, "bad")], blocks=[Block(2, 4, 19)])
    assert numbers(database, batch, "dead") == list(range(2, 20))
    with database.session() as session:
        blocked = list(batches.items(session, batch, "dead"))[-1]
    assert (blocked.reason, blocked.error, blocked.attempts) == ("blocked", "blocked by item 2", 0)
    others = taken(database, batch)
    assert of(others) == list(range(1, 40, 2))
    finish(database, others)
    with database.session() as session:
        assert batches.retry(session, batch) == 18
        session.commit()
    assert of(taken(database, batch, epoch=2)) == list(range(4, 40, 2))


def test_dead_items_that_are_taken_up_go_before_what_is_left_of_their_key(database: Database) -> None:
    batch = opened(database, range(30), partitions=1, **ONE_KEY)
    finish(database, taken(database, batch, items=10), dead=[DeadItem(n, 1, "bad") for n in (2, 3, 7)])
    held = taken(database, batch, items=10)
    with database.session() as session:
        assert batches.retry(session, batch) == 3
        session.commit()
    assert take(database, batch, epoch=2) is None  # what is in hand is finished first
    finish(database, held)
    found = []
    while claim := take(database, batch, epoch=2):
        found += of(claim)
        finish(database, claim)
    assert found == [2, 3, 7, *range(20, 30)]


def test_an_abandoned_slice_is_ended_before_dead_items_that_were_taken_up(database: Database) -> None:
    batch = opened(database, range(30), partitions=1, **ONE_KEY)
    finish(database, taken(database, batch, items=10), dead=[DeadItem(2, 1, "bad")])
    taken(database, batch, items=10)
    with database.session() as session:
        batches.retry(session, batch)
        session.commit()
    strike(database, "a")
    run_out(database)
    found = []
    while claim := take(database, batch, epoch=2, life="b"):
        found.append(of(claim))
        finish(database, claim)
    assert found == [list(range(10, 15)), [2], list(range(15, 20)), list(range(20, 30))]


def test_dead_items_of_two_partitions_are_no_one_slice(database: Database) -> None:
    batch = opened(database, range(100), partitions=2, **BY_TEN)
    while claim := take(database, batch):
        piece = claim.pieces[0]
        finish(database, claim, dead=[DeadItem(n, 1, "bad") for n in range(piece.first, piece.last + 1)])
    with database.session() as session:
        assert batches.retry(session, batch) == 100
        session.commit()
    first, second = taken(database, batch, epoch=2), taken(database, batch, epoch=2)
    assert {first.partition, second.partition} == {0, 1}
    assert first.size + second.size == 100
    for claim in (first, second):
        assert {partition_of(item % 10, 2) for item in of(claim)} == {claim.partition}


def test_nobody_takes_of_it_while_it_is_paused(database: Database) -> None:
    batch = opened(database, range(20), partitions=1, **BY_TEN)
    held = taken(database, batch, items=2)
    with database.session() as session:
        batches.pause(session, batch)
        session.commit()
    finish(database, held)
    assert take(database, batch) is None
    with database.session() as session:
        batches.resume(session, batch)
        session.commit()
    assert of(taken(database, batch, epoch=2, items=2)) != of(held)
    with database.session() as session, pytest.raises(NoBatch):
        batches.retry(session, 999)


def test_an_item_that_kills_its_owners_is_found_and_its_key_stays_in_order(database: Database) -> None:
    batch = opened(database, range(64), mode="partition", by=lambda number: number % 4, partitions=1)
    poison, crashes, seen = 37, 0, []
    while claim := take(database, batch, items=64, life=f"life-{crashes}"):
        held, piece = of(claim), claim.pieces[0]
        if held == [poison] and piece.losses >= 2:
            finish(database, claim, dead=[DeadItem(piece.first, 1, "crashed")])
        elif poison in held:
            strike(database, f"life-{crashes}")
            crashes += 1
            run_out(database)
        else:
            seen += held
            finish(database, claim)
    assert crashes <= 9
    assert seen == [n for k in range(4) for n in range(k, 64, 4) if n != poison]


def test_whoever_is_gone_and_not_struck_has_cost_the_partition_nothing(database: Database) -> None:
    batch = opened(database, range(8), partitions=1, **ONE_KEY)
    for life in ("drained", "frozen", "cut off from the database"):
        assert take(database, batch, life=life) is not None
        run_out(database)
    strike(database, "another")
    claim = taken(database, batch)
    assert (of(claim), claim.pieces[0].losses) == (list(range(8)), 0)


def test_a_partition_of_which_many_keys_wait_waits_for_the_first_of_them(database: Database) -> None:
    batch = opened(database, range(100), mode="partition", by=lambda number: number, partitions=1)
    wait_s = {place: 60.0 + place for place in range(keyed_claims.MOST_HELD)}
    claim = taken(database, batch, items=keyed_claims.MOST_HELD)
    finish(database, claim, again=[Again(place, place, 2, wait) for place, wait in wait_s.items()])
    assert take(database, batch) is None
    with database.transaction() as connection:
        assert 30 < keyed_claims.outlook(connection, batch, 1).wait_s <= 60
        connection.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now() WHERE first = 3"))
    assert taken(database, batch).pieces[0].first == 3
