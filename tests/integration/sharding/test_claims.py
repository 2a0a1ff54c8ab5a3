"""A slice has one owner at a time, and who lost it cannot finish it (guarantee 3, P32, P34)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa

from sharding import batches, claims
from sharding.claims import Again, Claim, DeadItem, Wish, joined
from smena.errors import ClaimLost
from smena.records.strikes import Strikes
from smena.store.database import Database

from . import book
from .deaths import JOB, strike


def opened(database: Database, count: int, **options: int) -> int:
    with database.session() as session:
        batch = batches.open(session, book.each, range(count), **options)  # type: ignore[arg-type]
        session.commit()
    return batch.id


def take(database: Database, batch: int, life: str = "a", items: int = 1000, job: str = JOB) -> Claim | None:
    with database.transaction() as connection:
        return claims.take(connection, Wish(batch, 1, claims.owner(life, job), 60, items))


def taken(database: Database, batch: int, life: str = "a", items: int = 1000, job: str = JOB) -> Claim:
    claim = take(database, batch, life, items, job)
    assert claim is not None
    return claim


def of(claim: Claim) -> list[int]:
    return [item for piece in claim.pieces for item in piece.items]


def run_out(database: Database) -> None:
    """Let all leases be over."""
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batch_slices SET lease_until = now() - interval '1 s'"))


def finish(database: Database, claim: Claim, again: Sequence[Again] = (), dead: Sequence[DeadItem] = ()) -> None:
    with database.transaction() as connection:
        claims.finish(connection, claim, again, dead)


def test_claimers_that_come_at_once_share_all_items_and_no_item_twice(database: Database) -> None:
    batch = opened(database, 5000)

    def work(number: int) -> list[int]:
        mine: list[int] = []
        while claim := take(database, batch, f"owner-{number}", items=70 + number):
            mine += of(claim)
        return mine

    with ThreadPoolExecutor(8) as threads:
        shares = list(threads.map(work, range(8)))
    assert sorted(item for share in shares for item in share) == list(range(5000))


@pytest.mark.parametrize("wish", [1, 3, 10, 33, 1000])
def test_a_claim_is_about_as_large_as_wished_and_never_empty(database: Database, wish: int) -> None:
    batch = opened(database, 200)
    seen: list[int] = []
    while claim := take(database, batch, items=wish):
        assert 1 <= claim.size <= wish * 1.5
        seen += of(claim)
        finish(database, claim)
    assert sorted(seen) == list(range(200))


def test_a_claim_that_ran_out_is_anybodys_under_a_new_term(database: Database) -> None:
    batch = opened(database, 1)
    stale = taken(database, batch)
    assert take(database, batch, "b") is None
    run_out(database)
    fresh = taken(database, batch, "b")
    assert (fresh.pieces[0].id, fresh.pieces[0].term) == (stale.pieces[0].id, stale.pieces[0].term + 1)
    with pytest.raises(ClaimLost):
        finish(database, stale, dead=[DeadItem(0, 1, "bad")])
    with database.session() as session:
        with pytest.raises(ClaimLost, match="item=0"):
            claims.mark(session, stale.pieces[0], [0])
        session.rollback()
        stands = batches.status(session, batch)
    assert (stands.dead, stands.done, stands.left) == (0, 0, 1)  # nothing of the stale one's was written
    finish(database, fresh)


def test_one_lost_slice_of_a_claim_takes_the_whole_finish_back(database: Database) -> None:
    batch = opened(database, 100)
    claim = taken(database, batch, items=10)
    assert len(claim.pieces) > 1
    with database.transaction() as connection:
        connection.execute(
            sa.text("UPDATE smena.batch_slices SET term = term + 1 WHERE id = :id"), {"id": claim.pieces[0].id}
        )
    with pytest.raises(ClaimLost):
        finish(database, claim)
    with database.session() as session:
        assert batches.status(session, batch).left == 100


def test_a_lease_that_ran_out_and_that_nobody_took_is_still_ours(database: Database) -> None:
    claim = taken(database, opened(database, 1))
    run_out(database)
    finish(database, claim)


def test_a_renewal_passes_an_items_open_transaction_and_a_takeover_does_not(database: Database) -> None:
    batch = opened(database, 1)
    claim = taken(database, batch)
    piece = claim.pieces[0]
    with database.session() as session:
        claims.mark(session, piece, [piece.first])
        with database.transaction() as connection:
            assert claims.renew(connection, [(piece.id, piece.term)], 60) == {piece.id}
        run_out(database)
        assert take(database, batch, "b") is None  # passed over, not waited for
        session.commit()
    fresh = taken(database, batch, "b")
    with database.transaction() as connection:
        assert claims.renew(connection, [(piece.id, piece.term)], 60) == set()
        assert claims.marked(connection, batch, fresh.pieces[0]) == {0}


def test_an_item_that_is_to_wait_is_taken_by_nobody_before_its_time(database: Database) -> None:
    batch = opened(database, 4)
    while claim := take(database, batch):
        finish(database, claim, again=[Again(n, n, 2, 3600.0) for n in of(claim) if n == 2])
    assert take(database, batch) is None
    with database.session() as session:
        assert batches.status(session, batch).waiting == 1
    run_out(database)
    claim = taken(database, batch)
    assert (of(claim), claim.pieces[0].attempt) == ([2], 2)


def test_neighbours_that_wait_for_the_same_time_are_one_slice() -> None:
    alone = [Again(3, 3, 2, 1.5), Again(4, 5, 2, 4.0), Again(6, 6, 3, 4.0), Again(8, 8, 1), Again(9, 12, 1)]
    assert joined(alone) == [Again(3, 5, 2, 4.0), Again(6, 6, 3, 4.0), Again(8, 12, 1)]
    assert joined([]) == []


def test_a_slice_that_kills_its_owners_is_parted_until_the_one_item_stands_alone(database: Database) -> None:
    batch = opened(database, 64, shards=1)
    poison, crashes = 37, 0
    while claim := take(database, batch, f"life-{crashes}", items=64):
        held = of(claim)
        if held == [poison] and claim.pieces[0].losses >= 2:
            finish(database, claim, dead=[DeadItem(poison, 1, "crashed")])
        elif poison in held:
            strike(database, f"life-{crashes}")
            crashes += 1
            run_out(database)
        else:
            finish(database, claim)
    assert crashes <= 8
    with database.session() as session:
        stands = batches.status(session, batch)
    assert (stands.left, stands.dead) == (0, 1)


def test_whoever_is_gone_and_not_struck_has_cost_the_slice_nothing(database: Database) -> None:
    batch = opened(database, 8, shards=1)
    for life in ("drained", "frozen", "cut off from the database"):
        assert of(taken(database, batch, life)) == list(range(8))
        run_out(database)
    strike(database, "another")
    claim = taken(database, batch)
    assert (of(claim), {piece.losses for piece in claim.pieces}) == (list(range(8)), {0})


def test_of_the_jobs_of_a_dead_process_those_are_to_blame_that_are_struck(database: Database) -> None:
    batch = opened(database, 8, shards=1)
    held = [of(taken(database, batch, items=4, job=job)) for job in ("faulty", "beside")]
    assert held == [[0, 1, 2, 3], [4, 5, 6, 7]]
    strike(database, "a", "faulty")
    run_out(database)
    losses: dict[int, int] = {}
    while claim := take(database, batch, "b"):
        losses |= {item: piece.losses for piece in claim.pieces for item in piece.items}
    assert losses == dict.fromkeys(held[0], 1) | dict.fromkeys(held[1], 0)


def test_a_job_that_is_cleared_of_a_death_does_not_clear_what_it_held(database: Database) -> None:
    batch = opened(database, 1)
    taken(database, batch)
    strike(database, "a")
    Strikes(database).clear([(JOB, 1)])
    run_out(database)
    assert taken(database, batch, "b").pieces[0].losses == 1


def test_a_batch_of_many_items_leaves_few_dead_rows_under_a_held_snapshot(
    database: Database, database_url: str
) -> None:
    batch = opened(database, 20_000)
    with psycopg.connect(database_url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1 FROM smena.batches")
        while claim := take(database, batch):
            finish(database, claim)
    with database.transaction() as connection:
        connection.execute(sa.text("SELECT pg_stat_force_next_flush()"))
    with database.transaction() as connection:
        written = connection.execute(
            sa.text("SELECT sum(n_tup_upd + n_tup_del) FROM pg_stat_user_tables WHERE relname LIKE 'batch%'")
        ).scalar()
    assert written is not None
    assert written <= 20_000 / 100
