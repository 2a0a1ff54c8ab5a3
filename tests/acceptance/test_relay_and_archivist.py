"""Relay and archivist as real processes: killed, doubled, drained."""

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from smena import outbox
from smena.amqp import names
from smena.job import Job
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process.exits import Exit

ROWS = 5000


@pytest.fixture
def rows(real_fleet: RealFleet) -> Iterator["psycopg.Connection[tuple[int]]"]:
    with psycopg.connect(real_fleet.database_url, autocommit=True) as connection:
        yield connection


def count(connection: "psycopg.Connection[tuple[int]]", condition: bytes) -> int:
    row = connection.execute(b"SELECT count(*) FROM smena.outbox WHERE " + condition).fetchone()
    return 0 if row is None else row[0]


def test_p14_a_relay_killed_at_any_moment_loses_nothing(
    real_fleet: RealFleet, rows: "psycopg.Connection[tuple[int]]", broker: BrokerView
) -> None:
    jobs = [Job(actor="jobs.note", queue="elsewhere", args=(number,), timestamp_ms=1) for number in range(ROWS)]
    with rows.transaction():
        outbox.add(rows, *jobs)
    short = {"amqp_publish_timeout_s": 1, "outbox_lease_s": 2, "database_idle_in_transaction_s": 1}
    real_fleet.up(roles="relay", outbox_batch=50, **short)
    interrupted = 0
    for kill in range(1, 4):
        eventually(lambda least=kill * 500: count(rows, b"state = 'sent'") >= least)  # type: ignore[misc]
        pid = eventually(lambda: real_fleet.pids("relay").get("0", 0))
        os.kill(pid, signal.SIGSTOP)  # so that what is counted is what the kill finds
        interrupted += count(rows, b"state = 'pending' AND owner IS NOT NULL")
        os.kill(pid, signal.SIGKILL)
        eventually(lambda dead=pid: real_fleet.pids("relay").get("0", dead) != dead)  # type: ignore[misc]
    eventually(lambda: count(rows, b"state = 'sent'") == ROWS)
    assert interrupted > 0, "the kills hit nothing"
    published = [properties.message_id for properties, _ in broker.take(names.work_queue(broker.prefix, "elsewhere"))]
    assert set(published) == {job.id for job in jobs}
    assert len(published) <= ROWS + interrupted
    assert count(rows, b"state = 'parked'") == 0
    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() == Exit.DRAINED


def test_a_job_that_dies_is_a_row_with_its_evidence_and_its_siblings_run(
    real_fleet: RealFleet, rows: "psycopg.Connection[tuple[int]]", broker: BrokerView
) -> None:
    real_fleet.up(roles="worker,relay,archivist")
    with rows.transaction():
        outbox.add(rows, book.broken_rule.message("r"), book.note_once.message("a"))
    eventually(lambda: real_fleet.effects() == {"a": 1})
    facts = b"""SELECT reason, actor, attempt, queue, worker <> '', build <> '', fingerprint <> '', traceback <> '',
        error_class, died_at >= first_enqueued_at FROM smena.dead_letters"""
    [letter] = eventually(lambda: real_fleet.rows(facts.decode()))
    assert letter[:4] == ("rule_broken", "jobs.broken_rule", 1, "jobs")
    assert letter[4:8] == (True, True, True, True)
    assert "BrokenRule" in letter[8] or "RuleBroken" in letter[8]
    assert eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 0)
    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() == Exit.DRAINED
