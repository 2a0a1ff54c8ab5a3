"""Run jobs by the clock: schedules are rows, and a tick's row commits with its job's outbox row.

Books declare schedules with ``schedule=``; others are added at run time, in the caller's transaction:

    schedules.add(session, "report.acme", report, smena.cron("0 3 * * *", tz="Europe/Moscow"), args=("acme",))
    schedules.remove(session, "report.acme")

The scheduler that leads fires what is due (`turns.py`); an operator or a Kubernetes CronJob fires by hand
(`by_hand.py`).
"""

from smena.schedules.added import add, remove
from smena.schedules.errands import leave_off, left_off

__all__ = ["add", "leave_off", "left_off", "remove"]
