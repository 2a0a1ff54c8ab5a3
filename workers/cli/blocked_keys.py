"""What `smena doctor` says of keys of ordered queues that wait for an operator.

The job that blocks a key is no dead letter (it still may be tried again), so `smena dead list` does not have it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from smena.records.held_list import Blocked, HeldList
from smena.store.database import Database
from workers.cli.complaint import Complaint
from workers.cli.moment import utc


def blocked_keys(database: Database) -> Iterator[Complaint]:
    """Look into the rows of held keys."""
    for one in HeldList(database).blocked():
        yield Complaint("blocked keys", _found(one), _way(one))


def _found(one: Blocked) -> str:
    keys = "1 key is" if one.keys == 1 else f"{one.keys} keys are"
    jobs = "1 job waits" if one.waiting == 1 else f"{one.waiting} jobs wait"
    which = "" if one.keys == 1 else "the longest "
    return f"{one.queue}: {keys} blocked by a dead job, {which}{one.oldest} since {utc(one.since)}; {jobs} behind"


def _way(one: Blocked) -> str:
    named = shlex.join((one.queue, one.oldest))
    return (
        f"`smena partition keys --queue {one.queue}` says which and why; mend the cause, then `smena partition release "
        f"{named}` tries the job again, or `smena partition skip {named}` goes on without it"
    )
