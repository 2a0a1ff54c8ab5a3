"""Two schedulers whose settings hold the election in Redis or in Kubernetes: one leads and fires, TERM hands over."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

import smena
from smena import schedules
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.acceptance.fleet.grip import FleetGrip
from tests.fixtures.eventually import eventually
from tests.fixtures.kubernetes_server import KubernetesServer
from workers.process.exits import Exit

LEASE_S = 30.0
"""Longer than the test waits for a successor of one that resigned."""

ERRANDS = "SELECT schedule, count(*) FROM smena.ticks WHERE schedule LIKE 'once:%' GROUP BY 1 ORDER BY 1"
FIRED = "SELECT count(*) FROM smena.ticks WHERE schedule = 'every.second' AND state = 'fired'"
SENT = "SELECT count(*) FROM smena.outbox WHERE actor = 'house.beat'"


class Scheduler(FleetGrip):
    """`smena scheduler`: a supervisor with one scheduler."""

    def up(self, **settings: object) -> None:
        """Start it; ``settings`` are environment names without `SMENA_`, in lower case."""
        env = {
            "SMENA_BOOKS": "tests.fixtures.hourly_book",
            "SMENA_SUPERVISOR_STATE_DIR": str(self.folder),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_TELEMETRY_LOG_FILE": str(self._log),
            "SMENA_LEADERSHIP_LEASE_S": str(LEASE_S),
            "SMENA_LEADERSHIP_RETRY_S": "0.2",
            "SMENA_SCHEDULE_POLL_S": "0.1",
            **{f"SMENA_{name.upper()}": str(value) for name, value in settings.items()},
        }
        self._open([sys.executable, "-m", "workers.cli", "scheduler"], env)

    def term(self) -> int:
        """Return the newest term under which it began to lead, 0 before."""
        return max((int(event["term"]) for event in self.events("leader.became")), default=0)

    def ends_in_order(self) -> None:
        """Ask it to end, and wait."""
        os.kill(self.process.pid, signal.SIGTERM)
        assert self.exit_code() == Exit.DRAINED


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Scheduler, Scheduler]]:
    """Give two schedulers that are not started yet, and leave nothing of them."""
    with ExitStack() as ends:
        grips = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            grips.append(Scheduler(tmp_path / name))
            ends.callback(grips[-1].clear)
        yield grips[0], grips[1]


def test_leadership_in_redis_leads_fires_and_hands_over(
    both: tuple[Scheduler, Scheduler], database_url: str, redis_url: str
) -> None:
    _hands_over(both, database_url, leadership_backend="redis", redis_url=redis_url)


def test_leadership_in_a_lease_of_kubernetes_leads_fires_and_hands_over(
    both: tuple[Scheduler, Scheduler], database_url: str
) -> None:
    server = KubernetesServer()
    server.start()
    try:
        address = f"http://127.0.0.1:{server.port}"
        where = {"leadership_kubernetes_url": address, "leadership_kubernetes_account": server.account}
        _hands_over(both, database_url, leadership_backend="kubernetes", **where)
        lease = server.leases.objects["smena-scheduler"]["spec"]
        assert lease["leaseTransitions"] >= 2
        assert not lease["holderIdentity"], "the last one resigned too"
    finally:
        server.end()


def _hands_over(both: tuple[Scheduler, Scheduler], database_url: str, **settings: object) -> None:
    database = Database(DatabaseSettings.model_validate({"url": database_url}), "test")
    second = smena.Schedule(smena.every(seconds=1), overlap="allow")
    with closing(database), database.transaction() as connection:
        schedules.add(connection, "every.second", smena.by_name("house.beat", queue="house"), second)
    for one in both:
        one.up(database_url=database_url, **settings)
    leader = eventually(lambda: next((one for one in both if one.term()), None))
    assert leader is not None
    (other,) = (one for one in both if one is not leader)
    eventually(lambda: _count(database_url, FIRED))
    eventually(lambda: other.state().get("state") == "ready")
    assert not other.term()

    leader.ends_in_order()
    eventually(other.term)
    fired = _count(database_url, FIRED)
    eventually(lambda: _count(database_url, FIRED) > fired)

    assert other.term() > leader.term()
    assert [event["reason"] for event in leader.events("leader.lost")] == ["resigned"]
    assert _at(other.events("leader.became")) - _at(leader.events("leader.lost")) < LEASE_S / 2
    other.ends_in_order()
    assert _count(database_url, SENT) == _count(database_url, FIRED), "each tick fired once, whoever led"
    with psycopg.connect(database_url) as connection:
        assert connection.execute(ERRANDS).fetchall() == [("once:first-import", 1), ("once:in-pieces", 1)]


def _at(events: list[dict[str, Any]]) -> float:
    return datetime.fromisoformat(events[0]["time"]).timestamp()


def _count(database_url: str, query: str) -> int:
    with psycopg.connect(database_url) as connection:
        [(count,)] = connection.execute(query.encode()).fetchall()
    return int(count)
