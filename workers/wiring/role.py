"""Live as one role's process: start, say ready once all is reached, report, drain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final, Protocol

from smena.amqp.link import Connection
from smena.errors import BrokerLost, DatabaseBusy, DatabaseLost
from smena.lifecycle import Service
from smena.settings import Settings
from smena.store.database import Database
from smena.store.pooler import refuse_pooler
from smena.store.refused import refusals
from smena.store.rights import require_rights
from smena.store.schema_version import require
from smena.telemetry.tally import Board
from workers.process.child import Child
from workers.process.exits import Exit
from workers.process.failure_figures import count_failures
from workers.process.link_figures import count_links
from workers.roles.pulse import Pulse

_ASK_AGAIN_S: Final = 0.5
_LOOK_S: Final = 0.05


class Ticking(Protocol):
    """A loop that a probe watches."""

    @property
    def tick(self) -> int:
        """A number that moves while the loop lives."""


class Watched(Service, Ticking, Protocol):
    """A service with a loop that a probe watches."""


@dataclass(frozen=True)
class Role:
    """What a role is made of, as far as its life is concerned."""

    services: Service
    loops: Mapping[str, Ticking]
    board: Board
    check: Callable[[], None]
    unreachable: Callable[[], list[str]]
    hold: Callable[[bool], object] | None = None
    """Take no work for now (True), or again; a role without it goes on while the fleet is paused."""


def live(role: Role, settings: Settings, child: Child) -> int:
    """Run the role until a drain is asked for and done; return the exit code."""
    with ExitStack() as ends:
        ends.callback(count_failures(role.board))
        ends.callback(count_links(role.board))
        return _live(role, settings, child)


def _live(role: Role, settings: Settings, child: Child) -> int:
    while lost := _lost(role.check):
        child.report(role.board.snapshot(), {}, lost)
        if child.wait(_ASK_AGAIN_S):
            return Exit.DRAINED
    if role.hold is not None:
        child.on_pause(role.hold)
    role.services.start()
    is_ready = False
    while not child.wait(settings.telemetry.tally_s if is_ready else _LOOK_S):
        child.mishaps.end_if_out_of_descriptors()
        unreachable = role.unreachable()
        if not is_ready and not unreachable:
            child.ready()
            is_ready = True
        child.report(role.board.snapshot(), {name: loop.tick for name, loop in role.loops.items()}, unreachable)
    ended = role.services.stop(child.drain_deadline(settings.worker.drain_s))
    child.report(role.board.snapshot(), {})  # what ended in the drain counts too
    return Exit.DRAINED if ended else Exit.DRAIN_OVERRAN


def check_schema(database: Database) -> None:
    """Raise `Misconfigured` where this build cannot work on the schema that is there, or not by this address or role.

    Raises `DatabaseLost` and `DatabaseBusy` where nobody can say.
    """
    with refusals(), database.transaction() as connection:
        refuse_pooler(connection, "database.url")
        require(connection)


def check_rights(database: Database) -> None:
    """Raise `RightsMissing` where jobs cannot be guarded under this role; for a worker, when the schema is checked."""
    with database.transaction() as connection:
        require_rights(connection)


def unreachable(connection: Connection, pulse: Pulse) -> list[str]:
    """Return what does not answer, or takes nothing, now."""
    broker_takes = connection.is_up and not connection.blocked
    return [name for name, is_there in (("broker", broker_takes), ("database", pulse.beats())) if not is_there]


def _lost(check: Callable[[], None]) -> list[str]:
    """Return what did not answer the check; nothing where it passed."""
    try:
        check()
    except (DatabaseLost, DatabaseBusy):
        return ["database"]
    except BrokerLost:
        return ["broker"]
    return []
