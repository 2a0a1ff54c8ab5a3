"""The systems that are measured: each a module with one job, and how jobs are sent to it and run.

Peers run as their own documentation advises: durable messages, acks after the job, one process with
eight threads (or the concurrency of an event loop), no results stored. Each module has a `publisher`:
a context manager that connects and lends a function which sends jobs by their numbers and returns when
they are as safe as this system makes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

Send = Callable[[Sequence[int]], None]
"""Send a job for each number; a single one is sent as a service would send it."""


def tell(**facts: object) -> None:
    """Tell the bench that started this process, as the last line of its output."""
    print(json.dumps(facts), flush=True)


def two_processes(work: Callable[[], None]) -> None:
    """Run a worker in this process and in a child of it."""
    os.fork()
    work()
