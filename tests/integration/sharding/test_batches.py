"""A batch is opened whole or not at all, can be watched, stopped and taken up, and ends exactly once."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sharding import batches, claims, progress, upkeep, weight
from sharding.batches import NoBatch, Per
from sharding.claims import Claim, DeadItem, Wish
from smena.errors import InvalidArguments, Misused, Unsendable
from smena.store.database import Database
from tests.fixtures.eventually import eventually

from . import book


def opened(database: Database, items: Any = range(100), **options: Any) -> int:
    """Open a batch of numbers and commit it."""
    with database.session() as session:
        batch = batches.open(session, options.pop("actor", book.each), items, **options)
        session.commit()
    return batch.id


def take(database: Database, batch: int, items: int = 1000, epoch: int = 1) -> Claim | None:
    with database.transaction() as connection:
        return claims.take(connection, Wish(batch, epoch, "me", 60, items))


def finish_all(database: Database, batch: int, dead: tuple[int, ...] = (), epoch: int = 1) -> None:
    """Work the whole batch; items of these numbers die."""
    while claim := take(database, batch, epoch=epoch):
        held = {piece.first + place for piece in claim.pieces for place in range(len(piece.items))}
        ended = [DeadItem(number, 1, "bad") for number in dead if number in held]
        with database.transaction() as connection:
            claims.finish(connection, claim, dead=ended)


def numbers(database: Database, batch: int, state: batches.State, **options: int) -> list[int]:
    with database.session() as session:
        return [item.number for item in batches.items(session, batch, state, **options)]


def complete(database: Database, batch: int) -> progress.End | None:
    with database.transaction() as connection:
        return progress.complete(connection, batch)


def waits_for_a_lock(database: Database) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.transaction() as connection:
        return bool(connection.scalar(sa.text(waiting)))


def sent(database: Database) -> list[tuple[str, str, Any]]:
    """Return actor, queue and body of what lies in the outbox."""
    with database.transaction() as connection:
        rows = connection.execute(sa.text("SELECT actor, queue, body FROM smena.outbox ORDER BY seq")).all()
    return [(actor, queue, json.loads(body)) for actor, queue, body in rows]


def test_a_batch_is_there_with_its_items_and_its_shard_jobs_when_its_opener_commits(database: Database) -> None:
    with database.session() as session:
        batches.open(session, book.each, range(10))
        session.rollback()
    assert sent(database) == []
    batch = opened(database, range(3))
    with database.session() as session:
        stands = batches.status(session, batch)
    assert (stands.total, stands.left, stands.done, stands.dead, stands.state) == (3, 3, 0, 0, "running")
    assert [(actor, queue, body["args"]) for actor, queue, body in sent(database)] == [
        (batches.SHARD, "works", [batch, 1])
    ] * 3  # no more of them than items


@pytest.mark.parametrize("per", ["item", "slice"])
def test_items_are_held_against_the_annotations_before_anything_is_written(database: Database, per: Per) -> None:
    actor = book.each if per == "item" else book.many
    with database.session() as session:
        with pytest.raises(InvalidArguments, match="item=2"):
            batches.open(session, actor, [0, 1, "two"], per=per)
        session.rollback()
    with database.session() as session, pytest.raises(Misused, match="async"):
        batches.open(session, book.awaits, [1])
    with database.session() as session, pytest.raises(Misused, match="no order"):
        batches.open(session, book.in_order, [1])
    with database.session() as session, pytest.raises(Misused, match="many items"):
        batches.open(session, book.each, "abc")


@pytest.mark.parametrize(
    "items", [[1], [], batches.Query("SELECT 1"), sa.select(sa.literal(1))], ids=["one", "none", "text", "query"]
)
def test_what_the_actor_is_given_beside_an_item_is_checked_whatever_the_items_come_from(
    database: Database, items: Any
) -> None:
    wrong: list[dict[str, Any]] = [{}, {"rate": "much"}, {"rate": 1, "other": 2}, {"rate": 1, "item": 3}]
    for kwargs in wrong:
        with database.session() as session, pytest.raises(InvalidArguments, match=r"works\.priced"):
            batches.open(session, book.priced, items, kwargs=kwargs)
    with database.session() as session, pytest.raises(Misused, match="as its first argument"):
        batches.open(session, book.by_name, items, kwargs={"item": 1})
    batch = opened(database, items, actor=book.priced, kwargs={"rate": "1.5"})
    with database.session() as session:
        assert batches.status(session, batch).state == "running"


def test_text_of_any_kind_comes_back_as_it_was(database: Database) -> None:
    texts = ["tab\t, end\n, \\ back, \\N, \\.", 'quote " and é€😀', ""]
    with database.session() as session:
        with pytest.raises(Unsendable, match="NUL"):
            batches.open(session, book.line, [book.Line(1, "\0")])
        session.rollback()
    batch = opened(database, [book.Line(i, text) for i, text in enumerate(texts)], actor=book.line)
    claim = take(database, batch)
    assert claim is not None
    assert [item for piece in claim.pieces for item in piece.items] == [
        {"number": i, "code": text} for i, text in enumerate(texts)
    ]


def test_a_generator_is_read_once_and_never_held_whole(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharding.sources.MOST_ITEMS", 10)
    monkeypatch.setattr("sharding.sources.FIRST_CHUNK", 10)
    monkeypatch.setattr("sharding.sources.OPEN_S", 0)
    read: list[int] = []
    written: list[int] = []

    def source() -> Iterator[int]:
        with database.transaction() as connection:
            for number in range(35):
                if number % 10 == 5:
                    written.append(connection.scalar(sa.text("SELECT pg_relation_size('smena.batch_items')")) or 0)
                read.append(number)
                yield number

    batch = opened(database, source())
    assert read == list(range(35))
    assert written[0] == 0 < written[-1]  # the first pieces were on their way before the last were made
    assert numbers(database, batch, "left") == read


def test_the_rows_of_a_query_are_items_and_travel_nowhere(database: Database) -> None:
    series = sa.func.generate_series(5, 7).column_valued("n")
    one = opened(database, sa.select(series))
    several = opened(database, sa.select(series.label("number"), sa.literal("x").label("code")), actor=book.line)
    with database.session() as session:
        assert [item.item for item in batches.items(session, one, "left")] == [5, 6, 7]
        assert [item.item for item in batches.items(session, several, "left")] == [
            {"number": n, "code": "x"} for n in (5, 6, 7)
        ]


def test_a_file_gives_its_lines(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"number": 1, "code": "é"}\n\n{"number": 2, "code": "b"}\n', encoding="utf-8")
    (tmp_path / "b.csv").write_text('number,code\n3,"c, d"\n', encoding="utf-8")
    (tmp_path / "c.txt").write_text("4\n5\n")
    found = []
    for name, actor in (("a.jsonl", book.line), ("b.csv", book.line), ("c.txt", book.each)):
        batch = opened(database, tmp_path / name, actor=actor)
        with database.session() as session:
            found += [item.item for item in batches.items(session, batch, "left")]
    assert found == [
        {"number": 1, "code": "é"},
        {"number": 2, "code": "b"},
        {"number": 3, "code": "c, d"},
        4,
        5,
    ]


BAD_FILES = {
    "broken.jsonl": (b"1\n{bad\n", "line=2"),
    "nan.jsonl": (b"1\n\nNaN\n", "line=3"),
    "huge.jsonl": (b"1e999\n", "line=1"),
    "deep.jsonl": (b"[" * 100_000 + b"]" * 100_000, "line=1"),
    "surrogate.jsonl": (b'"\\ud800"\n', "line=1"),
    "bytes.jsonl": (b'1\n"\xff"\n', "no UTF-8: line=2"),
    "bytes.txt": (b"a\n\xff\n", "item=1"),
    "nul.txt": (b"a\nb\x00\n", "item=1"),
    "cells.csv": (b"a,b\n1,2\n1,2,3\n", "fields than the header: fields=3 header=2 line=3"),
    "short.csv": (b"a,b\n1\n", "line=2"),
    "names.csv": (b"a,a\n1,2\n", "line=1"),
    "quote.csv": (b'a,b\n"1,2\n', "cannot be read"),
    "field.csv": (b"a\n" + b"x" * 200_000 + b"\n", "line=2"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_p23_what_cannot_be_read_of_a_file_is_refused_with_its_place(
    database: Database, tmp_path: Path, name: str
) -> None:
    content, place = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unsendable, match=place):
        opened(database, tmp_path / name, actor=book.anything)


def test_p23_a_mark_of_the_byte_order_is_no_text(database: Database, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfname\nx\n")
    batch = opened(database, tmp_path / "a.csv", actor=book.anything)
    with database.session() as session:
        assert [item.item for item in batches.items(session, batch, "left")] == [{"name": "x"}]


def test_a_query_is_taken_as_its_text_stands(database: Database) -> None:
    queries = {
        "SELECT ':a %s' AS x -- why": ":a %s",
        "SELECT NULL": None,
        "SELECT 1 AS source, 2 AS _;": {"source": 1, "_": 2},
        "SELECT 1 AS smena_row, 2 AS smena_row_": {"smena_row": 1, "smena_row_": 2},
    }
    for text, item in queries.items():
        batch = opened(database, batches.Query(text), actor=book.anything)
        with database.session() as session:
            assert [one.item for one in batches.items(session, batch, "left")] == [item]
    with pytest.raises(Misused, match="one name"):
        opened(database, batches.Query("SELECT 1 AS a, 2 AS a"), actor=book.anything)
    for nothing in (batches.Query("SELECT"), sa.select()):
        with pytest.raises(Misused, match="no column"):
            opened(database, nothing, actor=book.anything)
    twice = sa.select(sa.literal(1).label("a"), sa.literal(2).label("a"))
    with pytest.raises(Misused, match="one name"):
        opened(database, twice, actor=book.anything)
    writes = "WITH gone AS (DELETE FROM smena.batches RETURNING id) SELECT id FROM gone"
    with pytest.raises(Misused, match="refused"):
        opened(database, batches.Query(writes), actor=book.anything)


@pytest.mark.parametrize(
    "options",
    [{"key": ""}, {"key": "\0"}, {"key": "\ud800"}, {"key": "k" * 501}, {"shards": 0}, {"shards": 10**9},
     {"shards": 2.5}, {"shards": True}, {"largest_slice": 0}, {"largest_slice": -1}, {"largest_slice": 2**40},
     {"largest_slice": 2.5}, {"key": 5}, {"per": "lot"}],
    ids=repr,
)  # fmt: skip
def test_keys_and_sizes_that_cannot_be_are_refused(database: Database, options: dict[str, Any]) -> None:
    with pytest.raises(Misused):
        opened(database, **options)


def test_what_follows_a_batch_is_none_whose_key_nobody_gives(database: Database) -> None:
    with pytest.raises(Misused, match="ordered"):
        opened(database, range(3), then=book.ended_in_order)


def test_of_all_batches_with_one_key_there_is_one(database: Database) -> None:
    first = opened(database, range(7), key="night-1")

    unread = iter(range(9))
    with database.session() as session:
        second = batches.open(session, book.each, unread, key="night-1")
    assert (second.id, second.total, second.is_new) == (first, 7, False)
    assert next(unread) == 0


def test_it_completes_once_however_many_try_and_tells_its_callback_the_counts(database: Database) -> None:
    batch = opened(database, range(50), then=book.ended)
    finish_all(database, batch, dead=(7, 30))

    def attempt(_: int) -> progress.End | None:
        with database.transaction() as connection:
            return progress.complete(connection, batch)

    with ThreadPoolExecutor(8) as threads:
        ends = [end for end in threads.map(attempt, range(8)) if end]
    assert ends == [progress.End(batch, total=50, done=48, dead=2)]
    told = [(queue, body["kwargs"]) for actor, queue, body in sent(database) if actor == book.ended.name]
    assert told == [("ends", {"batch": batch, "total": 50, "done": 48, "dead": 2})]


def test_nothing_completes_while_a_slice_is_left(database: Database) -> None:
    batch = opened(database, range(3))
    assert take(database, batch)
    with database.transaction() as connection:
        assert progress.complete(connection, batch) is None


def test_an_empty_batch_completes_too(database: Database) -> None:
    batch = opened(database, [], then=book.ended)
    assert len(sent(database)) == 1  # somebody has to find that out
    with database.transaction() as connection:
        assert progress.complete(connection, batch) == progress.End(batch, 0, 0, 0)


def test_done_dead_and_left_items_can_be_paged_through(database: Database) -> None:
    batch = opened(database, range(20))
    claim = take(database, batch, items=2)
    assert claim is not None
    with database.transaction() as connection:
        claims.finish(connection, claim, dead=[DeadItem(1, 3, "bad", "ValueError", "no")])
    assert numbers(database, batch, "done") == [0]
    assert numbers(database, batch, "left", limit=3) == [2, 3, 4]
    assert numbers(database, batch, "left", after=4, limit=2) == [5, 6]
    with database.session() as session:
        (dead,) = batches.items(session, batch, "dead")
    assert (dead.number, dead.item, dead.attempts, dead.reason, dead.error) == (1, 1, 3, "bad", "no")


EVERY = (batches.pause, batches.resume, batches.cancel, batches.retry, batches.status)


@pytest.mark.parametrize("change", EVERY)
def test_a_batch_that_cannot_be_is_there_for_no_command(database: Database, change: Callable[..., Any]) -> None:
    for number in (0, -1, 2**63, 10**30):
        with database.session() as session, pytest.raises(batches.NoBatch):
            change(session, number)


@pytest.mark.parametrize("change", EVERY, ids=lambda change: change.__name__)
def test_what_is_no_number_of_a_batch_is_none_for_every_command(database: Database, change: Callable[..., Any]) -> None:
    batch = opened(database, range(3))
    for number in (str(batch), None, float(batch)):
        with database.session() as session, pytest.raises(batches.NoBatch):
            change(session, number)


def test_the_dead_are_taken_up_again_and_it_completes_again(database: Database) -> None:
    batch = opened(database, range(30), then=book.ended)
    finish_all(database, batch, dead=(3, 4, 5, 20))
    with database.transaction() as connection:
        assert progress.complete(connection, batch)
    with database.session() as session:
        assert batches.retry(session, batch) == 4
        session.commit()
    assert numbers(database, batch, "left") == [3, 4, 5, 20]
    assert take(database, batch, epoch=1) is None  # shard jobs of the time before end where they are
    finish_all(database, batch, epoch=2)
    with database.transaction() as connection:
        assert progress.complete(connection, batch) == progress.End(batch, 30, 30, 0)
    ids = [body["message_id"] for actor, _, body in sent(database) if actor == book.ended.name]
    assert len(ids) == len(set(ids)) == 2


def test_a_batch_that_is_taken_up_again_while_it_is_being_ended_keeps_what_is_left(database: Database) -> None:
    batch = opened(database, range(10))
    finish_all(database, batch, dead=(3,))
    with ThreadPoolExecutor(1) as pool, database.session() as session:
        assert batches.retry(session, batch) == 1
        ended = pool.submit(complete, database, batch)
        eventually(lambda: waits_for_a_lock(database))
        session.commit()
        assert ended.result() is None
        assert batches.status(session, batch).state == "running"
    assert take(database, batch, epoch=2) is not None


def test_what_has_begun_to_be_deleted_is_not_taken_up_again(database: Database) -> None:
    dying, stopped = opened(database, range(10)), opened(database, range(10))
    finish_all(database, dying, dead=(3,))
    assert complete(database, dying)
    with database.session() as session:
        batches.cancel(session, stopped)
        session.commit()
    with database.transaction() as connection:
        long_ago = "UPDATE smena.batches SET ended_at = now() - make_interval(days => CAST(100 - id AS int))"
        connection.execute(sa.text(long_ago))  # the one that died first
    for _ in range(2):
        with database.transaction() as connection:
            assert upkeep.prune(connection, keep_s=86_400, limit=4) == 4
    for take_up in (lambda session: batches.retry(session, dying), lambda session: batches.resume(session, stopped)):
        with database.session() as session, pytest.raises(NoBatch):
            take_up(session)
        for _ in range(5):
            with database.transaction() as connection:
                upkeep.prune(connection, keep_s=86_400, limit=4)


def test_nobody_takes_of_a_batch_that_is_paused_or_cancelled_until_it_is_resumed(database: Database) -> None:
    batch = opened(database, range(40))
    held = take(database, batch, items=5)
    assert held is not None
    with database.session() as session:
        batches.pause(session, batch)
        session.commit()
        assert take(database, batch) is None
        with pytest.raises(NoBatch, match="wanted=running"):
            batches.pause(session, batch)
        batches.resume(session, batch)
        session.commit()
        assert take(database, batch, items=5, epoch=2)
        batches.cancel(session, batch)
        session.commit()
        assert batches.status(session, batch).ended_at is not None
        with pytest.raises(NoBatch):
            batches.status(session, 999)
    assert take(database, batch, epoch=2) is None
    with database.transaction() as connection:
        claims.finish(connection, held)  # what was taken before counts
        assert progress.complete(connection, batch) is None


def test_a_batch_that_stood_still_between_has_no_rate(database: Database) -> None:
    batch = opened(database, range(10))
    finish_all(database, batch, dead=(7,))
    with database.transaction() as connection:
        assert progress.complete(connection, batch)
        assert batches.status(connection, batch).rate
        batches.retry(connection, batch)
        going = batches.status(connection, batch)
        assert (going.rate, going.eta_s) == (None, None)
    finish_all(database, batch, epoch=2)
    with database.transaction() as connection:
        assert progress.complete(connection, batch)
        assert batches.status(connection, batch).rate is None

    rested = opened(database, range(10))
    with database.transaction() as connection:
        assert batches.status(connection, rested).rate is not None
        batches.pause(connection, rested)
        assert batches.status(connection, rested).rate is None


def test_progress_counts_what_was_committed_item_by_item(database: Database) -> None:
    batch = opened(database, range(10))
    claim = take(database, batch)
    assert claim is not None
    with database.session() as session:
        claims.mark(session, claim.pieces[0], [claim.pieces[0].first])
        session.commit()
        stands = batches.status(session, batch)
    assert (stands.done, stands.left, stands.held) == (1, 9, 10)
    assert stands.rate
    assert stands.eta_s is not None
    assert numbers(database, batch, "done") == [0]


@pytest.mark.parametrize(
    ("heavy", "asked", "expected"),
    [(0, None, None), (0, 7, 7), (1, None, None), (3, None, 1), (3, 1, 1), (9, None, 1)],
    ids=["light", "asked", "one", "several", "asked for less", "each too much"],
)
def test_a_slice_is_as_long_as_its_heaviest_items_let_it_be(
    database: Database, monkeypatch: pytest.MonkeyPatch, heavy: int, asked: int | None, expected: int | None
) -> None:
    monkeypatch.setattr(weight, "MOST_BYTES", 5000 if heavy < 9 else 1000)
    batch = opened(database, ["x" * 2000] * heavy + ["x"] * 100, actor=book.anything, largest_slice=asked)
    with database.transaction() as connection:
        assert (
            connection.scalar(sa.text("SELECT largest_slice FROM smena.batches WHERE id = :id"), {"id": batch})
            == expected
        )
