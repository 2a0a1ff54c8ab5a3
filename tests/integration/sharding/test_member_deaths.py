"""A member that dies or freezes: its partitions are owned again in time, and what it still writes is refused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, LiteralString

import psycopg
import pytest

from sharding import leases
from tests.fixtures.eventually import eventually
from tests.integration.sharding.member_process import COUNT, TABLES

LEASE_S = 2.0
SLACK_S = 10.0
"""What a busy machine may add; `./run bench partitions` measures the bounds themselves."""

Process = subprocess.Popen[bytes]


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Give a connection that looks on."""
    with psycopg.connect(database_url, autocommit=True) as opened:
        opened.execute(TABLES)
        yield opened


@pytest.fixture
def start(database_url: str) -> Iterator[Callable[[str], Process]]:
    """Give a function that starts a member; all are killed with the test."""
    with ExitStack() as ends:

        def started(owner: str) -> Process:
            command = [sys.executable, "-m", "tests.integration.sharding.member_process"]
            process = subprocess.Popen([*command, database_url, owner, str(LEASE_S)])
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process

        yield started


def shares(connection: psycopg.Connection[Any]) -> dict[str | None, int]:
    """Return how many leases that last each owner has."""
    counted: dict[str | None, int] = {}
    for lease in leases.held(connection, "stock"):
        if lease.lasts:
            counted[lease.owner] = counted.get(lease.owner, 0) + 1
    return counted


def test_p37_a_frozen_and_a_killed_member_s_partitions_are_owned_again_and_nothing_stale_is_kept(
    connection: psycopg.Connection[Any], start: Callable[[str], Process]
) -> None:
    members = {owner: start(owner) for owner in ("a", "b", "c")}
    eventually(lambda: sorted(shares(connection).values()) == [2, 3, 3])
    eventually(lambda: connection.execute("SELECT count(DISTINCT owner) FROM written").fetchone() == (3,))

    eventually(lambda: _is_frozen_in_mid_write(connection, members["a"]))
    began_s = time.monotonic()
    eventually(lambda: shares(connection) == {"b": COUNT // 2, "c": COUNT // 2})
    assert time.monotonic() - began_s < LEASE_S + 1.0 + SLACK_S
    eventually(lambda: _written_under_newest_terms(connection))

    os.kill(members["a"].pid, signal.SIGCONT)
    eventually(lambda: connection.execute("SELECT count(*) > 0 FROM refused WHERE owner = 'a'").fetchone() == (True,))
    eventually(lambda: sorted(shares(connection).values()) == [2, 3, 3])

    members["b"].kill()
    began_s = time.monotonic()
    eventually(lambda: shares(connection) == {"a": COUNT // 2, "c": COUNT // 2})
    assert time.monotonic() - began_s < LEASE_S + 1.0 + SLACK_S
    eventually(lambda: _written_under_newest_terms(connection))
    assert _stale_writes(connection) == []


def _is_frozen_in_mid_write(connection: psycopg.Connection[Any], member: Process) -> bool:
    """Freeze member a; let it go on again where none of its writes has still to pass the fence."""
    os.kill(member.pid, signal.SIGSTOP)
    eventually(lambda: _sessions_of_a(connection, "state = 'active'") == 0)
    if _sessions_of_a(connection, "state = 'idle in transaction' AND query LIKE '%pg_sleep%'"):
        return True
    os.kill(member.pid, signal.SIGCONT)
    return False


def _sessions_of_a(connection: psycopg.Connection[Any], condition: LiteralString) -> int:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'a' AND "
    ((count,),) = connection.execute(asked + condition).fetchall()
    return int(count)


def _written_under_newest_terms(connection: psycopg.Connection[Any]) -> bool:
    newest = {leases.partition_in(lease.name): lease.term for lease in leases.held(connection, "stock")}
    written = dict(connection.execute("SELECT partition, max(term) FROM written GROUP BY 1").fetchall())
    return newest == written


def _stale_writes(connection: psycopg.Connection[Any]) -> list[Any]:
    """Return rows that were written under a term, or by an owner, after a later term had begun to write."""
    return connection.execute("""
        SELECT * FROM (
            SELECT *, max(term) OVER (PARTITION BY partition ORDER BY n) AS newest,
                   min(owner) OVER same <> max(owner) OVER same AS shared
            FROM written WINDOW same AS (PARTITION BY partition, term)) AS w
        WHERE term < newest OR shared
    """).fetchall()
