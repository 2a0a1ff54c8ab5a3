"""Make a rule of its text: the `spec` of a `When`, as rows hold it and an operator types it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from smena.errors import Misdeclared
from smena.timetable.expression import Cron
from smena.timetable.interval import Every
from smena.timetable.when import When

_PERIOD: Final = re.compile(r"(\d{1,9})(s|m|h|d)", re.ASCII)
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read(spec: str) -> When:
    """Return the rule: ``every 300s`` (m, h, d too), ``cron 0 3 * * * Europe/Moscow``; raises `Misdeclared`."""
    kind, _, rest = " ".join(spec.split()).partition(" ")
    if kind == "every" and (period := _PERIOD.fullmatch(rest)):
        return Every(timedelta(**{_UNITS[period[2]]: int(period[1])}))
    fields = rest.split()
    if kind == "cron" and fields:
        named = fields[0].startswith("@")
        expression, zone = fields[: 1 if named else 5], fields[1 if named else 5 :]
        if len(zone) <= 1:
            return Cron(" ".join(expression), *zone)
    raise Misdeclared("a schedule reads `every 5m` or `cron 0 3 * * * Europe/Moscow`", spec=repr(spec))
