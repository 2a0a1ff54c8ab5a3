"""Leases of partitions: terms only grow, a claim waits for nobody, and who let go is not renewed."""

from collections.abc import Iterator

import psycopg
import pytest

from sharding import leases, plans
from sharding.leases import lease_name
from smena.errors import TermLost
from smena.store import terms
from smena.store.database import Database
from smena.store.terms import Term

Connection = psycopg.Connection[tuple[object, ...]]
NAMES = [lease_name("stock", partition) for partition in range(4)]


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    """Give a connection in autocommit to a database with a group of four partitions."""
    with database.connect(autocommit=True) as opened:
        plans.begin(opened, "stock", 4)
        yield opened


def run_out(connection: Connection) -> None:
    connection.execute("UPDATE smena.leases SET expires_at = clock_timestamp()")


def numbers(terms: list[Term]) -> dict[str, int]:
    return {term.lease: term.number for term in terms}


def test_free_leases_are_claimed_and_held_ones_are_not(connection: Connection) -> None:
    assert numbers(leases.claim(connection, NAMES[:3], "a", 60)) == dict.fromkeys(NAMES[:3], 1)
    assert numbers(leases.claim(connection, NAMES, "b", 60)) == {NAMES[3]: 1}
    assert leases.claim(connection, NAMES, "c", 60) == []


def test_every_claim_is_a_new_term_also_by_the_same_owner(connection: Connection) -> None:
    for number in (1, 2, 3):
        assert numbers(leases.claim(connection, NAMES[:1], "a", 60)) == {NAMES[0]: number}
        run_out(connection)


def test_a_released_lease_is_free_at_once_and_its_term_is_not_given_again(connection: Connection) -> None:
    leases.release(connection, leases.claim(connection, NAMES, "a", 60))
    assert numbers(leases.claim(connection, NAMES, "b", 60)) == dict.fromkeys(NAMES, 2)


def test_a_renewal_tells_what_is_another_s_by_now(connection: Connection) -> None:
    ours = leases.claim(connection, NAMES, "a", 60)
    run_out(connection)
    leases.claim(connection, NAMES[:1], "b", 60)
    assert numbers(list(leases.renew(connection, ours, 60))) == dict.fromkeys(NAMES[1:], 1)
    assert leases.claim(connection, NAMES, "c", 60) == []


def test_a_renewal_that_is_overtaken_by_the_release_does_not_bring_the_lease_back(connection: Connection) -> None:
    ours = leases.claim(connection, NAMES, "a", 60)
    leases.release(connection, ours)
    assert leases.renew(connection, ours, 60) == set()
    assert numbers(leases.claim(connection, NAMES, "b", 60)) == dict.fromkeys(NAMES, 2)


def test_p37_a_stale_holder_cannot_write(connection: Connection, database: Database) -> None:
    stale, *_ = leases.claim(connection, NAMES[:1], "a", 60)
    run_out(connection)
    current, *_ = leases.claim(connection, NAMES[:1], "b", 60)
    with database.transaction() as within:
        terms.fence(within, current)
    with pytest.raises(TermLost), database.transaction() as within:
        terms.fence(within, stale)
    leases.release(connection, [stale])
    assert leases.renew(connection, [current], 60) == {current}


def test_a_claim_does_not_wait_for_a_commit_under_the_old_term(connection: Connection, database: Database) -> None:
    first, *_ = leases.claim(connection, NAMES, "a", 60)
    run_out(connection)
    with database.transaction() as within:
        terms.fence(within, first)
        assert first.lease not in numbers(leases.claim(connection, NAMES, "b", 60))
        assert leases.renew(connection, [first], 0.001) == {first}
    run_out(connection)
    assert numbers(leases.claim(connection, [first.lease], "b", 60)) == {first.lease: 2}


def test_leases_are_listed_by_their_group_alone(connection: Connection) -> None:
    plans.begin(connection, "st_ck", 2)
    leases.claim(connection, NAMES[:1], "a", 60)
    listed = leases.held(connection, "stock")
    assert [(lease.name, lease.owner, lease.term, lease.lasts) for lease in listed] == [
        (NAMES[0], "a", 1, True),
        *((name, None, 0, False) for name in NAMES[1:]),
    ]
    assert len(leases.held(connection, "st_ck")) == 2
