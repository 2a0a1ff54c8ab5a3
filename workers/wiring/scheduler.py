"""Build and join a scheduler process: leadership, the timekeeper of the schedules, the janitor.

It speaks to PostgreSQL only: ticks become outbox rows, which the relay publishes. Of several such processes one leads;
the others are there for the moment at which it does not.
"""

from __future__ import annotations

from contextlib import ExitStack

from smena.book import load_books
from smena.clock import SYSTEM, Deadline
from smena.guarantees.election.candidacy import leadership_of
from smena.guarantees.election.figures import show
from smena.guarantees.election.leadership import Leadership
from smena.guarantees.solo import Solo
from smena.lifecycle import Group, Service
from smena.schedules.keeping import check_declared
from smena.schedules.turns import Turns
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry.metric import POOL_WAIT
from smena.telemetry.tally import Board
from workers.process.child import Child
from workers.roles.figures import count_events, count_ticks
from workers.roles.janitor import Janitor
from workers.roles.pulse import Pulse
from workers.roles.timekeeper import Timekeeper
from workers.wiring.duties import duties_of
from workers.wiring.role import Role, check_schema, live

_CONNECTIONS = 4
"""Of the pool: timekeeper, janitor, pulse and the terms of an election that is held elsewhere use one each; the solo,
and a candidate in PostgreSQL, have their own beside it."""

_DUTY = "scheduler"


def run(settings: Settings, child: Child) -> int:
    """Be a scheduler until a drain is asked for and done; return the exit code."""
    database = Database(settings.database, child.name, _CONNECTIONS)
    board = Board()
    with ExitStack() as ends:
        ends.callback(database.close)
        ends.callback(count_events(board))
        ends.callback(count_ticks(board))
        leadership = leadership_of(settings, _DUTY, database, child.name, ends)
        ends.callback(show(board, [leadership]))
        return live(_role(settings, child.name, database, board, leadership), settings, child)


def _role(settings: Settings, name: str, database: Database, board: Board, leadership: Leadership) -> Role:
    board.gauge(POOL_WAIT, database.waits)
    pulse = Pulse(database.ping, SYSTEM)
    timekeeper = _timekeeper(settings, database, leadership)
    janitor = Janitor(Solo(database, "janitor"), duties_of(settings, database))
    services: list[Service] = [pulse, leadership, timekeeper, janitor]
    return Role(
        Group(name, services, lambda: Deadline.within(settings.worker.drain_s, SYSTEM)),
        {"pulse": pulse, leadership.name: leadership, "timekeeper": timekeeper, "janitor": janitor},
        board,
        lambda: _check(database, leadership),
        lambda: [] if pulse.beats() else ["database"],
    )


def _check(database: Database, leadership: Leadership) -> None:
    """Raise where this build, or an election, cannot work on what is there."""
    check_schema(database)
    leadership.check()


def _timekeeper(settings: Settings, database: Database, leadership: Leadership) -> Timekeeper:
    wanted = settings.schedule
    turns = Turns(database, leadership.lease_name, late_s=wanted.late_s, forgotten_s=wanted.forgotten_s)
    registry = load_books(settings.books)
    check_declared(registry)
    return Timekeeper(turns, leadership, registry, SYSTEM, poll_s=wanted.poll_s)
