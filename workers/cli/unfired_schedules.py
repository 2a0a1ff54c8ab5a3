"""What `smena doctor` says of schedules that nobody fires, and of the upkeep that nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from smena.guarantees.election.seats import Seat, seats
from smena.records import schedules
from smena.settings import Settings
from smena.store.database import Database
from workers.cli.complaint import Complaint

_DUTY: Final = "scheduler"
_START: Final = "start a scheduler (`smena scheduler`, or `smena up`)"


def unfired_schedules(database: Database, settings: Settings) -> Iterator[Complaint]:
    """Look for ticks that count as missed, and for a leadership that nobody has taken up within a lease."""
    lease_s = settings.leadership.lease_s
    with database.transaction() as connection:
        overdue = schedules.overdue(connection, max(lease_s, settings.schedule.late_s))
    seat = next((one for one in seats(database) if one.duty == _DUTY), None)
    if overdue:
        yield _unfired(overdue, seat)
    elif seat is not None and seat.left_s < -lease_s:
        found = f"nobody leads {_DUTY} since {-seat.left_s:.0f} s: no schedule fires, and no table is pruned"
        yield Complaint("leadership", found, _START)


def _unfired(overdue: list[schedules.Overdue], seat: Seat | None) -> Complaint:
    first = overdue[0]
    found = f"{len(overdue)} with a tick that is due and not fired, {first.name} since {first.late_s:.0f} s"
    if seat is None or not seat.is_held:
        return Complaint("schedules", f"{found}; nobody leads {_DUTY}", _START)
    way = (
        f"see what {seat.owner} logs, which leads {_DUTY}: `schedule.failed` names a schedule that cannot be decided, "
        f"and why; if it logs nothing, `smena leader resign {_DUTY}` lets another lead"
    )
    return Complaint("schedules", found, way)
