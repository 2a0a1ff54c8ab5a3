"""Say what a child is told when it starts: which role at which post, and whose child it is.

Orders travel as JSON on a command line or over the nursery's pipe. They hold no secrets: a child reads its settings
itself, from the same environment as the supervisor, with the same command-line overrides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

KINDS = ("flight", "fault", "stacks", "lines")
"""The files of a child: what its slots run, what it wrote while dying, where its threads are when asked, what it logged
last."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What one child is to be.

    ``module`` is imported in the child and has ``run(settings, child) -> int``; ``post`` counts the children of one
    role from 0; ``overrides`` go to `smena.settings.load`; a child that is ``paused`` takes no work until it is
    told to. ``life`` is a random id of this one process: strikes and starts name it, not a pid that comes again.
    A child that ``stands_back`` leaves the processor to others until it is ready. Below ``cgroup``, if it is given,
    steps may have control groups of their own.
    """

    role: str
    module: str
    post: int
    supervisor_pid: int
    state_dir: str
    overrides: dict[str, Any] = msgspec.field(default_factory=dict)
    paused: bool = False
    life: str = ""
    stands_back: bool = False
    cgroup: str = ""

    def name(self) -> str:
        """Return how the child is called in logs and metrics, such as ``worker-0``."""
        return f"{self.role}-{self.post}"

    def file(self, pid: int, kind: str) -> Path:
        """Return the path of one of a child's files; the kinds are `KINDS`."""
        return Path(self.state_dir) / f"{pid}.{kind}"
