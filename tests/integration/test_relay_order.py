"""Rows of one ordering key leave in the order of their writing, however many relays there are, whatever dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from sharding import leases
from smena import outbox
from smena.amqp import names
from smena.job import Job
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.roles.slots import GROUP

KEYS = 12
Process = subprocess.Popen[bytes]


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


@pytest.fixture
def start_relay(database_url: str, amqp_url: str, broker: BrokerView) -> Iterator[Callable[[], Process]]:
    """Give a function that starts a relay in a process of its own; all are killed with the test."""
    with ExitStack() as ends:

        def start() -> Process:
            command = [sys.executable, "-m", "tests.integration.relay_process", database_url, amqp_url, broker.prefix]
            process = subprocess.Popen(command)
            ends.callback(process.wait)
            ends.callback(process.kill)
            return process

        yield start


class Writer:
    """Writes numbered rows of each key, a transaction each: each is committed before the next is written."""

    def __init__(self, database: Database) -> None:
        self.written: dict[str, tuple[str, int]] = {}
        self._database = database
        self._number = 0

    def write(self, rows: int) -> None:
        for _ in range(rows):
            self._number += 1
            for key in map(str, range(KEYS)):
                job = Job(actor="sales.record", queue="sales", args=(self._number,), timestamp_ms=1_700_000_000_000)
                with self._database.transaction() as connection:
                    outbox.add(connection, job, ordering_key=key)
                self.written[job.id] = (key, self._number)


def unsent(database: Database) -> int:
    with database.transaction() as connection:
        return int(connection.scalar(sa.text("SELECT count(*) FROM smena.outbox WHERE state <> 'sent'")) or 0)


def owners(database: Database) -> set[str | None]:
    with database.connect(autocommit=True) as connection:
        return {lease.owner for lease in leases.held(connection, GROUP) if lease.lasts}


def test_a_key_s_rows_leave_in_order_from_several_relays_of_which_one_is_killed_and_one_freezes(
    database: Database, broker: BrokerView, start_relay: Callable[[], Process]
) -> None:
    broker.knows("sales")
    writer = Writer(database)
    killed, frozen, well = start_relay(), start_relay(), start_relay()
    eventually(lambda: len(owners(database)) == 3)
    writer.write(20)
    killed.kill()
    writer.write(20)
    os.kill(frozen.pid, signal.SIGSTOP)
    writer.write(20)
    eventually(lambda: unsent(database) == 0)  # also what the two had claimed, long before those claims run out
    writer.write(20)
    os.kill(frozen.pid, signal.SIGCONT)
    writer.write(20)
    eventually(lambda: unsent(database) == 0)
    assert well.poll() is None

    seen: dict[str, None] = dict.fromkeys(
        str(properties.message_id) for properties, _ in broker.take(names.work_queue(broker.prefix, "sales"))
    )
    assert seen.keys() == writer.written.keys()
    for key in map(str, range(KEYS)):
        numbers = [writer.written[one][1] for one in seen if writer.written[one][0] == key]
        assert numbers == sorted(numbers), key
