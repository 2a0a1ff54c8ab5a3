"""Say when periodic work is due: pure functions of instants, without a clock, a database or a job.

`cron` and `every` make a `When`, which gives the next instant after any instant. `misfire` says what becomes of
ticks that nobody fired in time, `overlap` of ticks whose predecessor still runs, `listing` shows what a clock change
does to them.
"""

from smena.timetable.expression import Cron, cron
from smena.timetable.interval import Every, every
from smena.timetable.misfire import Misfire
from smena.timetable.overlap import Overlap
from smena.timetable.reading import read
from smena.timetable.when import When

__all__ = ["Cron", "Every", "Misfire", "Overlap", "When", "cron", "every", "read"]
