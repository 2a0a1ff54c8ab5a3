"""A process that stands for a seat and, while it leads, writes under its term as fast as it can.

`python -m tests.integration.election.holder DATABASE_URL DUTY LEASE_S BACKEND ADDRESS` prints one line for each thing
that happens: `became 3`, `lost 3 expired`, `refused 3` (a write that the fence did not let pass).
"""

import sys
import threading
from contextlib import ExitStack

import sqlalchemy as sa

from smena.clock import SYSTEM, Deadline
from smena.errors import DatabaseLost, TermLost
from smena.guarantees.election.leadership import Leadership, NotLeading
from smena.guarantees.election.tenure import Tenure
from smena.store import terms
from smena.store.database import Database
from smena.telemetry import events
from smena.telemetry.event import Occurrence

from .backends import election, opened, timing

_WRITE = sa.text("INSERT INTO effects (v) VALUES (:term)")
_STOP = threading.Event()


def main(database_url: str, duty: str, lease_s: str, backend: str, address: str) -> None:
    """Lead until standard input ends."""
    events.subscribe(_tell, only=[events.LEADER_BECAME, events.LEADER_LOST])
    database = opened(database_url)
    with ExitStack() as ends:
        ends.callback(database.close)
        own = election(ends, backend, address, database_url, duty, float(lease_s), SYSTEM)
        leadership = Leadership(own, timing(float(lease_s)), SYSTEM)
        leadership.start()
        writing = threading.Thread(target=_write_on, args=(leadership, database), name="writing")
        writing.start()
        sys.stdin.read()
        _STOP.set()
        leadership.stop(Deadline.within(30, SYSTEM))
        writing.join()


def _write_on(leadership: Leadership, database: Database) -> None:
    while not _STOP.is_set():
        try:
            with leadership.lead(0.2) as tenure:
                _write_under(tenure, database)
        except (NotLeading, TermLost):
            continue


def _write_under(tenure: Tenure, database: Database) -> None:
    try:
        while not _STOP.is_set():
            _write(database, tenure)
    except TermLost:
        _say(f"refused {tenure.number}")


def _write(database: Database, tenure: Tenure) -> None:
    """Write, and ask nobody but the fence."""
    try:
        with database.transaction() as connection:
            connection.execute(_WRITE, {"term": str(tenure.number)})
            terms.fence(connection, tenure.term)
    except DatabaseLost:
        return  # frozen in the middle of it, and the server has let its locks go


def _tell(occurrence: Occurrence) -> None:
    fields = occurrence.fields
    word = occurrence.event.name.removeprefix("leader.")
    _say(f"{word} {fields['term']} {fields.get('reason', '')}".strip())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
