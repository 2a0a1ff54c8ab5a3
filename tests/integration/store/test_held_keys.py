"""Keys that wait are kept under the partition's term, in their order, each job once (guarantee 5)."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from smena.errors import TermLost
from smena.records.held_keys import Changes, HeldKeys, Hold, Message, Parked, Place, Waiting
from smena.records.settlements import Settlements, StoredMessage
from smena.store import terms
from smena.store.database import Database


@pytest.fixture
def place(database: Database) -> Place:
    with database.transaction() as connection:
        term = terms.take(connection, "partition:stock:003", "me", 60)
    assert term is not None
    return Place("stock", 3, term)


def message(number: int, key: str = "k", attempt: int = 1) -> Message:
    body = b'{"n":%d}' % number
    return Message(key, f"job-{number}", "stock.move", attempt, 0, body, {"headers": {"smena-partition-key": key}})


def hold(number: int, key: str = "k", **said: object) -> Hold:
    given = {"why": "retry", "reason": "transient", "wait_s": 60.0, **said}
    return Hold(message(number, key, attempt=2), **given)  # type: ignore[arg-type]


def count(database: Database, table: str) -> int:
    with database.transaction() as connection:
        rows = sa.select(sa.func.count()).select_from(sa.table(table, schema="smena"))
        return int(connection.execute(rows).scalar_one())


def test_jobs_of_a_held_key_come_back_one_after_the_other_in_their_order(database: Database, place: Place) -> None:
    held = HeldKeys(database)
    held.write(place, Changes(holds=[hold(1)], behind=[message(2), message(3)]))
    held.write(place, Changes(behind=[message(4)]))

    order: list[str] = []
    head: Parked | None = held.heads("stock", ["k", "free"])["k"]
    assert head is not None
    assert head.message == message(1, attempt=2)
    while head is not None:
        order.append(head.message.job_id)
        assert held.load(place)[0]
        head = held.write(place, Changes(over=[head])).heads["k"]

    assert order == ["job-1", "job-2", "job-3", "job-4"]
    assert held.load(place) == ([], 0)


def test_a_job_that_holds_its_key_again_stays_the_first(database: Database, place: Place) -> None:
    held = HeldKeys(database)
    held.write(place, Changes(holds=[hold(1)], behind=[message(2)]))
    first = held.heads("stock", ["k"])["k"]

    again = Hold(message(1, attempt=3), "snooze", "busy", 0.0, seq=first.seq)
    held.write(place, Changes(holds=[again]))

    assert held.heads("stock", ["k"])["k"] == Parked(first.seq, message(1, attempt=3))
    assert held.load(place) == ([Waiting("k", 0.0)], 2)


def test_a_copy_of_a_parked_job_is_no_second_one(database: Database, place: Place) -> None:
    held = HeldKeys(database)
    held.write(place, Changes(holds=[hold(1)], behind=[message(2)]))

    written = held.write(place, Changes(behind=[message(2), message(3)]))

    assert written.copies == {"job-2": message(2).body}
    assert count(database, "key_parked") == 3


def test_an_attempt_that_ended_is_settled_with_its_hold(database: Database, place: Place) -> None:
    HeldKeys(database).write(place, Changes(holds=[hold(1, ended=1)]))

    assert Settlements(database).find([("job-1", 1)])["job-1", 1].is_over


def test_a_former_owner_changes_nothing(database: Database, place: Place) -> None:
    held = HeldKeys(database)
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.leases SET expires_at = now() - interval '1 s'"))
        assert terms.take(connection, place.term.lease, "another", 60) is not None
    death = StoredMessage("", "smena.stock.dead", b"", {}, "dead", "stock")
    everything = Changes([hold(1, ended=1)], [message(2)], [Parked(7, message(9))], deaths=[(("job-3", 1), death)])

    with pytest.raises(TermLost):
        held.write(place, everything)

    assert [count(database, name) for name in ("key_holds", "key_parked", "settlements")] == [0, 0, 0]


def test_a_blocked_key_waits_for_nobody_but_an_operator(database: Database, place: Place) -> None:
    letter = StoredMessage("", "smena.stock.dead", b"", {"headers": {"smena-reason": "bad"}}, "dead", "stock")
    held = HeldKeys(database)
    held.write(place, Changes(holds=[hold(1, why="blocked", wait_s=None, letter=letter), hold(2, "other")]))

    waiting, parked = held.load(place)

    assert {each.key: each.wait_s is None for each in waiting} == {"k": True, "other": False}
    assert parked == 2
    assert held.released("stock") == []
