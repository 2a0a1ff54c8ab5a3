"""Say when an actor runs by itself, with what arguments, and what becomes of ticks that are late or overlap.

The job of a tick tells its planned time: ``ctx.tick``. A schedule needs PostgreSQL and a running scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from smena.book.arguments import Arguments
from smena.errors import Misdeclared, Permanent
from smena.timetable import Misfire, Overlap, When
from smena.timetable.misfire import CAP

_MOST_CAUGHT_UP: Final = 10_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """When, and how.

    ``misfire`` says what becomes of ticks that nobody fired in time (`smena/timetable/misfire.py`), ``misfire_cap`` how
    many ``"all"`` catches up; ``overlap`` of ticks whose predecessor still runs (`smena/timetable/overlap.py`).
    ``args`` and ``kwargs`` are what each job is called with.
    """

    when: When
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    misfire: Misfire = "one"
    misfire_cap: int = CAP
    overlap: Overlap = "skip"

    def __post_init__(self) -> None:
        if self.misfire not in get_args(Misfire) or self.overlap not in get_args(Overlap):
            told = f"misfire is one of {get_args(Misfire)}, overlap one of {get_args(Overlap)}"
            raise Misdeclared(told, misfire=self.misfire, overlap=self.overlap)
        if not 1 <= self.misfire_cap <= _MOST_CAUGHT_UP:
            raise Misdeclared("misfire_cap is from 1 to 10,000 ticks", misfire_cap=self.misfire_cap)
        if isinstance(self.args, str) or not callable(getattr(self.when, "after", None)):
            told = "a schedule is cron(…) or every(…), its args a tuple"
            raise Misdeclared(told, schedule=repr(self.when), args=repr(self.args))


def read_schedule(
    given: When | Schedule | None, misfire: Misfire | None, overlap: Overlap | None, place: str
) -> Schedule | None:
    """Return what an author gave; raise `Misdeclared` with the place for what does not go together."""
    if given is None or isinstance(given, Schedule):
        if misfire is not None or overlap is not None:
            told = "`misfire` and `overlap` go with a plain `schedule=`; a Schedule holds its own"
            raise Misdeclared(told, place=place)
        return given
    try:
        return Schedule(given, misfire=misfire or "one", overlap=overlap or "skip")
    except Misdeclared as refusal:
        raise Misdeclared(refusal.detail, place=place, **refusal.facts) from refusal


def check_arguments(schedule: Schedule, arguments: Arguments, place: str) -> Schedule:
    """Return the schedule with arguments as they travel; raise `Misdeclared` where the actor cannot be called so."""
    try:
        args, kwargs = arguments.travelling(tuple(schedule.args), dict(schedule.kwargs))
    except Permanent as refusal:
        told = "a scheduled actor is called with what its schedule gives: smena.Schedule(…, args=(…))"
        raise Misdeclared(f"{told}; {refusal.detail}", place=place) from refusal
    return Schedule(schedule.when, args, kwargs, schedule.misfire, schedule.misfire_cap, schedule.overlap)
