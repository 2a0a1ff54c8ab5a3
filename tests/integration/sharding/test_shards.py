"""Shard jobs work a batch to its end: each item once, bad ones aside, and no other job waits longer than a turn."""

import threading
from collections import Counter
from typing import Any

import pytest
import sqlalchemy as sa

from sharding import batches, claims, weight
from sharding.batches import Per
from smena.book import Actor
from smena.context import current
from smena.errors import TermLost, Transient
from smena.store.database import Database
from tests.fixtures.hostile_errors import UNKNOWN
from workers.execution.claim_keeper import HeldClaim
from workers.middleware.once import MOST_LOSSES
from workers.middleware.outcome import DONE, YIELDED, Dead, Returned, Snooze

from . import book
from .world import Process, process

N = 300


def opened(database: Database, actor: Actor[..., Any], count: int = N, per: Per = "item", **options: Any) -> int:
    with database.session() as session:
        batch = batches.open(session, actor, range(count), per=per, then=book.ended, **options)
        session.commit()
    return batch.id


def effects(database: Database) -> Counter[int]:
    with database.transaction() as connection:
        return Counter(connection.scalars(sa.text("SELECT item FROM effects")))


def callbacks(database: Database) -> int:
    with database.transaction() as connection:
        found = connection.scalar(
            sa.text("SELECT count(*) FROM smena.outbox WHERE actor = :actor"), {"actor": book.ended.name}
        )
    return found or 0


def dead(database: Database, batch: int) -> dict[int, tuple[int | None, str | None]]:
    with database.session() as session:
        return {item.number: (item.attempts, item.reason) for item in batches.items(session, batch, "dead")}


def outcome_of(one: Process, batch: int) -> tuple[str, int, int, int]:
    stands = one.status(batch)
    return stands.state, stands.done, stands.dead, stands.left


@pytest.mark.parametrize(
    ("actor", "per"), [(book.plain, "item"), (book.commits, "item"), (book.slices, "slice")], ids=lambda one: str(one)
)
def test_each_item_is_done_once_and_the_batch_ends_once(database: Database, actor: Actor[..., Any], per: Per) -> None:
    batch = opened(database, actor, per=per)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N, 0, 0)
    assert Counter(book.doing.seen) == dict.fromkeys(range(N), 1)
    assert effects(database) == ({} if actor is book.plain else dict.fromkeys(range(N), 1))
    assert callbacks(database) == 1


@pytest.mark.parametrize(
    ("actor", "per"), [(book.plain, "item"), (book.commits, "item"), (book.slices, "slice")], ids=lambda one: str(one)
)
def test_one_bad_item_never_fails_its_slice(database: Database, actor: Actor[..., Any], per: Per) -> None:
    bad, flaky = {7, 8, 200}, 120
    failed: list[int] = []

    def hook(number: int) -> None:
        if number in bad:
            raise book.Bad(number=number)
        if number == flaky and not failed:
            failed.append(number)
            raise ValueError("a bug that shows once")

    book.doing.hook = hook
    batch = opened(database, actor, per=per)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 3, 3, 0)
    assert dead(database, batch) == dict.fromkeys(sorted(bad), (1, "bad"))
    if actor is not book.plain:
        assert effects(database) == dict.fromkeys(set(range(N)) - bad, 1)
    assert callbacks(database) == 1


def test_attempts_are_counted_item_by_item_until_it_is_dead_with_its_reason(database: Database) -> None:
    def hook(number: int) -> None:
        if number == 5:
            book.outage(number)
        if number == 6:
            raise ValueError("always")

    book.doing.hook = hook
    batch = opened(database, book.commits, 20)
    with process(database) as one:
        one.work(batch)
    assert dead(database, batch) == {5: (3, "exhausted"), 6: (2, "unexpected")}
    with database.session() as session:
        found = {item.number: item.error for item in batches.items(session, batch, "dead")}
    assert found[6] == "always"


@pytest.mark.parametrize(
    ("actor", "per"), [(book.plain, "item"), (book.commits, "item"), (book.slices, "slice")], ids=lambda one: str(one)
)
def test_an_item_whose_error_cannot_be_looked_at_is_dead_and_its_neighbours_are_done(
    database: Database, actor: Actor[..., Any], per: Per
) -> None:
    kinds = dict(enumerate(UNKNOWN.values()))

    def hook(number: int) -> None:
        if number in kinds:
            raise kinds[number]()

    book.doing.hook = hook
    batch = opened(database, actor, 20, per=per)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 20 - len(kinds), len(kinds), 0)
    assert dead(database, batch).keys() == kinds.keys()
    assert effects(database) == ({} if actor is book.plain else dict.fromkeys(set(range(20)) - kinds.keys(), 1))


@pytest.mark.parametrize("said", [{}, {"mode": "partition", "by": str}], ids=["claim", "partition"])
def test_an_item_that_lost_what_it_held_itself_is_tried_again_and_dead_at_last(
    database: Database, said: dict[str, Any]
) -> None:
    def hook(number: int) -> None:
        if number == 7 or (number == 20 and book.doing.seen.count(number) == 1):
            raise TermLost(lease="leader:day", term=3)

    book.doing.hook = hook
    batch = opened(database, book.commits, **said)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", N - 1, 1, 0)
    assert set(effects(database)) == set(range(N)) - {7}
    assert list(dead(database, batch).values()) == [(3, "exhausted")]


def end_its_session() -> None:
    context = current()
    assert context is not None
    session = context.plain_effect()
    assert session is not None
    session.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))


@pytest.mark.parametrize("said", [{}, {"mode": "partition", "by": str}], ids=["claim", "partition"])
def test_an_item_that_ends_its_own_session_each_time_is_dead_at_last_and_its_neighbours_are_done(
    database: Database, said: dict[str, Any]
) -> None:
    book.doing.hook = lambda number: end_its_session() if number == 7 else None
    batch = opened(database, book.commits, 40, **said)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 39, 1, 0)
    assert list(dead(database, batch).values()) == [(3, "exhausted")]
    assert effects(database) == dict.fromkeys(set(range(40)) - {7}, 1)
    spared_in_each_attempt = 3 * (MOST_LOSSES + 1)
    assert Counter(book.doing.seen) == dict.fromkeys(range(40), 1) | {7: spared_in_each_attempt}


@pytest.mark.parametrize("bad", [0, 7, 39])
def test_an_item_that_ends_the_session_of_its_slice_each_time_is_found_and_dead_at_last(
    database: Database, bad: int
) -> None:
    book.doing.hook = lambda number: end_its_session() if number == bad else None
    batch = opened(database, book.slices, 40, per="slice")
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 39, 1, 0)
    assert dead(database, batch) == {bad: (3, "exhausted")}
    assert effects(database) == dict.fromkeys(set(range(40)) - {bad}, 1)
    with database.transaction() as connection:
        assert set(connection.scalars(sa.text("SELECT attempt FROM effects"))) == {1}


@pytest.mark.parametrize(
    ("actor", "said"),
    [(book.commits, {}), (book.commits, {"mode": "partition", "by": str}), (book.slices, {"per": "slice"})],
    ids=["claim", "partition", "slice"],
)
def test_an_item_whose_session_was_taken_a_few_times_spends_no_attempt(
    database: Database, actor: Actor[..., Any], said: dict[str, Any]
) -> None:
    left = {"outages": MOST_LOSSES}

    def hook(_: int) -> None:
        if left["outages"]:
            left["outages"] -= 1
            end_its_session()

    book.doing.hook = hook
    batch = opened(database, actor, 40, **said)
    with process(database) as one:
        one.work(batch, threads=1)
        assert outcome_of(one, batch) == ("complete", 40, 0, 0)
    assert effects(database) == dict.fromkeys(range(40), 1)
    with database.transaction() as connection:
        assert set(connection.scalars(sa.text("SELECT attempt FROM effects"))) == {1}


@pytest.mark.parametrize(("actor", "per"), [(book.commits, "item"), (book.slices, "slice")], ids=str)
def test_an_item_cannot_commit_a_part_of_its_effect(database: Database, actor: Actor[..., Any], per: Per) -> None:
    """Its mark and the fence would be missing: it would take effect again, or beside another owner."""

    def hook(number: int) -> None:
        if number == 0 and book.doing.seen.count(number) == 1:
            context = current()
            assert context is not None
            session = context.plain_effect()
            assert session is not None
            session.commit()
            raise Transient("after its commit", item=number)

    book.doing.hook = hook
    batch = opened(database, actor, 20, per=per)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 20, 0, 0)
    assert effects(database) == dict.fromkeys(range(20), 1)


def test_a_slice_that_meets_an_outage_waits_whole_and_is_done_once(database: Database) -> None:
    away = {"calls": 3}

    def hook(number: int) -> None:
        if away["calls"] > 0:
            away["calls"] -= 1
            book.outage(number)

    book.doing.hook = hook
    batch = opened(database, book.slices, 64, per="slice", shards=1)
    with process(database) as one:
        one.work(batch, threads=1)
        assert outcome_of(one, batch)[:3] == ("complete", 64, 0)
    assert effects(database) == dict.fromkeys(range(64), 1)


@pytest.mark.parametrize("away", ["batches", "batch_slices", "batch_items"])
def test_a_shard_job_waits_where_a_table_of_the_fleets_own_is_away(database: Database, away: str) -> None:
    batch = opened(database, book.plain, 3)
    with process(database) as one:
        with database.transaction() as connection:
            connection.execute(sa.text(f"ALTER TABLE smena.{away} RENAME TO away"))
        outcome = one.turn(batch)
        assert isinstance(outcome, Snooze)
        assert outcome.why == "guard_refused"
        with database.transaction() as connection:
            connection.execute(sa.text(f"ALTER TABLE smena.away RENAME TO {away}"))
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 3, 0, 0)


def test_an_actors_once_key_holds_in_a_batch_too(database: Database) -> None:
    batch = opened(database, book.once, 250)
    with process(database) as one:
        one.work(batch)
        assert outcome_of(one, batch) == ("complete", 250, 0, 0)
    assert len(effects(database)) == 100  # keys are the number's last two digits


def test_constant_arguments_travel_beside_the_item(database: Database) -> None:
    batch = opened(database, book.commits, 3, kwargs={"offset": 1000})
    with process(database) as one:
        one.work(batch)
    assert sorted(effects(database)) == [1000, 1001, 1002]


def test_a_shard_job_lets_others_have_its_slot_when_its_turn_is_over(database: Database) -> None:
    batch = opened(database, book.plain, 5000, largest_slice=10)
    with process(database, turn_s=0.1) as one:
        outcome = one.turn(batch)
        assert outcome == Snooze(0.0, YIELDED)
        assert 0 < one.status(batch).left < 5000
        assert one.status(batch).held == 0  # it holds nothing while it waits


def test_p34_a_draining_process_finishes_the_item_in_hand_and_leaves_the_rest_free(database: Database) -> None:
    batch = opened(database, book.commits, 200, shards=1)
    with process(database, slice_s=5) as one:
        book.doing.hook = lambda number: one.ending.set() if number == 40 else None
        assert isinstance(one.turn(batch), Returned)
        stands = one.status(batch)
        assert (stands.done, stands.held, stands.left) == (41, 0, 159)
    with process(database) as other:
        other.work(batch)
        assert outcome_of(other, batch) == ("complete", 200, 0, 0)
    assert effects(database) == dict.fromkeys(range(200), 1)


def test_p32_a_dead_workers_claims_are_free_when_their_lease_is_over_and_nothing_is_done_twice(
    database: Database,
) -> None:
    batch = opened(database, book.commits, 50, shards=1)
    with process(database) as one:
        held = one.keeper.take("dead", batch, 1, 50, 0, claims.take)
        assert held is not None
        piece = held.claim.pieces[0]
        with database.session() as session:  # it has done its first item, and dies
            session.execute(book.EFFECT, {"item": 0, "job": "dead", "attempt": 1})
            claims.mark(session, piece, [0])
            session.commit()
        one.keeper.drop(held)
    with process(database) as other:
        waits = other.turn(batch)
        while isinstance(waits, Snooze) and waits.why == YIELDED:
            waits = other.turn(batch)
        assert isinstance(waits, Snooze)  # it comes back when the lease may be over
        with database.transaction() as connection:
            connection.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now()"))
        other.work(batch)
        assert outcome_of(other, batch) == ("complete", 50, 0, 0)
    assert effects(database) == dict.fromkeys(range(50), 1)


def test_an_owner_that_lost_its_slice_in_mid_item_writes_nothing_more(database: Database) -> None:
    batch = opened(database, book.commits, 30, shards=1)

    def hook(number: int) -> None:
        if number == 3 and not stolen:
            stolen.append(number)
            with database.transaction() as connection:
                connection.execute(sa.text("UPDATE smena.batch_slices SET term = term + 1, lease_until = now()"))

    stolen: list[int] = []
    book.doing.hook = hook
    with process(database) as one:
        one.work(batch, threads=1)
        assert outcome_of(one, batch) == ("complete", 30, 0, 0)
        assert one.board.snapshot()["counters"]["smena_stale_writes_total"] == {"batch": 1}
    assert effects(database) == dict.fromkeys(range(30), 1)
    assert Counter(book.doing.seen)[3] == 2  # it ran again, and only the second one's effect stands


def test_the_keeper_renews_what_is_worked_longer_than_a_lease_and_nobody_takes_it(database: Database) -> None:
    batch = opened(database, book.plain, 1)
    rival = threading.Event()
    with process(database, lease_s=2.5) as one:

        def hook(_: int) -> None:
            for _ in range(12):
                rival.wait(0.25)
                assert one.keeper.take("rival", batch, 1, 1, 0, claims.take) is None

        book.doing.hook = hook
        assert one.turn(batch) == DONE
        assert outcome_of(one, batch) == ("complete", 1, 0, 0)


def test_a_worker_that_could_not_renew_stops_before_its_lease_is_over(database: Database) -> None:
    batch = opened(database, book.plain, 100, shards=1)
    with process(database, lease_s=1.0, slice_s=50, turn_s=60) as one:
        held: list[int] = []

        def hook(number: int) -> None:
            if number >= 20 and not held:
                held.append(number)
                with one.keeper._changing:  # the renewing thread comes to nothing
                    threading.Event().wait(1.2)

        book.doing.hook = hook
        one.work(batch, threads=1)
        assert outcome_of(one, batch) == ("complete", 100, 0, 0)
    seen = Counter(book.doing.seen)
    assert seen[held[0]] == 2
    assert max(seen.values()) == 2  # it stopped there, and took its items again when the lease was over
    assert seen[held[0] + 1] == 1


def test_shard_jobs_of_an_unknown_actor_wait_and_those_of_an_unknown_batch_end(database: Database) -> None:
    batch = opened(database, book.plain, 1)
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batches SET actor = 'newer.actor'"))
    with process(database) as one:
        outcome = one.turn(batch)
        assert isinstance(outcome, Snooze)
        assert outcome.why == "unknown_actor"
        assert one.turn(batch + 1) == DONE
        assert one.turn(batch, epoch=0) == Snooze(outcome.delay_s, outcome.why)


@pytest.mark.parametrize("changed", [book.awaits, book.in_order], ids=["async", "ordered"])
def test_a_batch_waits_where_its_actor_became_one_that_no_batch_can_have(
    database: Database, changed: Actor[..., Any]
) -> None:
    """A call of an async function does nothing and returns; that must not count as done."""
    batch = opened(database, book.plain, 2)
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batches SET actor = :name"), {"name": changed.name})
    with process(database) as one:
        outcome = one.turn(batch)
        assert isinstance(outcome, Snooze)
        assert outcome.why == "misdeclared"
        assert (one.status(batch).left, one.status(batch).held) == (2, 0)


@pytest.mark.parametrize("actor", [batches.SHARD, batches.KEYED_SHARD])
@pytest.mark.parametrize(
    "args", [(2**63, 1), (10**200, 1), (0, 1), (1, 2**31)], ids=["bigint", "huge", "none", "epoch"]
)
def test_a_shard_job_that_names_what_no_column_holds_is_dead_at_once(
    database: Database, actor: str, args: tuple[int, int]
) -> None:
    with process(database) as one:
        outcome = one.given(actor, *args)
        assert isinstance(outcome, Dead)
        assert outcome.reason == "invalid_arguments"
        assert one.given(actor, 2**63 - 1, 2**31 - 1) == DONE  # there is none; there could be


UNREADABLE = """
SELECT CASE n WHEN 3 THEN CAST('1e999' AS json) WHEN 5 THEN CAST('"\\ud800"' AS json)
              WHEN 7 THEN CAST(repeat('[', 3000) || repeat(']', 3000) AS json) ELSE to_json(n) END
FROM generate_series(0, 9) AS n
"""


@pytest.mark.parametrize(
    ("actor", "per"),
    [(book.plain, "item"), (book.commits, "item"), (book.slices, "slice")],
    ids=["plain", "own", "slice"],
)
def test_p39_a_row_that_is_no_value_here_is_dead_alone_and_can_be_listed(
    database: Database, actor: Actor[..., Any], per: Per
) -> None:
    with database.session() as session:
        batch = batches.open(session, actor, batches.Query(UNREADABLE), per=per).id
        session.commit()
        assert [item.item for item in batches.items(session, batch, "left")][3:6] == ["1e999", 4, '"\\ud800"']
    with process(database) as one:
        one.work(batch, threads=1)
        assert (one.status(batch).state, one.status(batch).done) == ("complete", 7)
    assert dead(database, batch) == dict.fromkeys((3, 5, 7), (1, "unreadable_item"))
    assert sorted(book.doing.seen) == [0, 1, 2, 4, 6, 8, 9]


HEAVY_ONES_LAST = """
SELECT n, CASE WHEN n < 1500 THEN 'light' ELSE repeat('heavy ', 100000) END AS text FROM generate_series(0, 1599) AS n
"""


def test_no_claim_weighs_more_than_it_may_though_light_items_have_let_it_grow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.session() as session:
        batch = batches.open(session, book.row, batches.Query(HEAVY_ONES_LAST), shards=1).id
        session.commit()
    weights: list[int] = []
    with process(database, slice_s=60) as one:
        take = one.keeper.take

        def weighed(*wish: Any) -> HeldClaim | None:
            held = take(*wish)
            weights.append(0 if held is None else held.claim.bytes)
            return held

        monkeypatch.setattr(one.keeper, "take", weighed)
        one.work(batch, threads=1)
        assert outcome_of(one, batch) == ("complete", 1600, 0, 0)
    assert sum(weights) > weight.MOST_BYTES >= max(weights)


def test_shard_jobs_of_an_earlier_epoch_end_at_once(database: Database) -> None:
    batch = opened(database, book.plain, 10)
    with database.session() as session:
        batches.resume(session, batch)
        session.commit()
    with process(database) as one:
        assert one.turn(batch, epoch=1) == DONE
        assert book.doing.seen == []
        one.work(batch, epoch=2)
    assert sorted(book.doing.seen) == list(range(10))
