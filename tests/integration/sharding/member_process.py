"""A member in a process of its own, that can be killed and frozen: `python -m … URL OWNER LEASE_S`.

For each partition it owns it writes rows under its term as fast as a transaction with a pause in it goes: the row,
the pause, the fence, the commit. What the fence refuses it counts in the table `refused`.
"""

import sys
import threading
from collections.abc import Callable

import sqlalchemy as sa
from pydantic import SecretStr

from sharding.partitions import Partitions
from smena.clock import SYSTEM
from smena.errors import SmenaError, TermLost
from smena.settings.groups import Database as DatabaseSettings
from smena.store import terms
from smena.store.database import Database

TABLES = """
CREATE TABLE written (n bigserial PRIMARY KEY, partition int, term int, owner text);
CREATE TABLE refused (owner text)
"""
COUNT = 8
_WRITE = sa.text("INSERT INTO written (partition, term, owner) VALUES (:partition, :term, :owner)")
_PAUSE = sa.text("SELECT pg_sleep(0.02)")
_REFUSED = sa.text("INSERT INTO refused VALUES (:owner)")


class Writers:
    """A tenant with a thread for each partition."""

    def __init__(self, database: Database, owner: str) -> None:
        self.partitions: Partitions
        self._database = database
        self._owner = owner
        self._ends: dict[int, threading.Event] = {}

    def begin(self, partition: int, term: int) -> None:
        self._ends[partition] = end = threading.Event()
        threading.Thread(target=self._work, args=(partition, end), name=f"{partition}/{term}", daemon=True).start()

    def give_up(self, partition: int, done: Callable[[], None]) -> None:
        self._ends.pop(partition).set()
        done()

    def lost(self, partition: int) -> None:
        self._ends.pop(partition).set()

    def _work(self, partition: int, end: threading.Event) -> None:
        while not end.is_set():
            fence = self.partitions.fence_of(partition)
            if fence is None:
                return
            try:
                self._write(partition, fence)
            except TermLost:
                with self._database.transaction() as connection:
                    connection.execute(_REFUSED, {"owner": self._owner})
            except SmenaError as error:  # the server ended a transaction that was frozen in the middle
                print(error, file=sys.stderr)  # noqa: T201

    def _write(self, partition: int, fence: terms.Term) -> None:
        with self._database.transaction() as connection:
            connection.execute(_WRITE, {"partition": partition, "term": fence.number, "owner": self._owner})
            connection.execute(_PAUSE)
            terms.fence(connection, fence)


def main(url: str, owner: str, lease_s: str) -> None:
    """Be a member until the process is ended."""
    settings = DatabaseSettings(url=SecretStr(url), idle_in_transaction_s=600)  # what is frozen comes to its fence
    database = Database(settings, owner, pool_size=COUNT + 2)
    writers = Writers(database, owner)
    partitions = Partitions(
        database, "stock", COUNT, writers, lease_s=float(lease_s), clock=SYSTEM, owner=owner, worker=owner
    )
    writers.partitions = partitions
    partitions.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
