"""Find living supervisors of this machine, and a child of theirs: by process id, by post, or by a job that it runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.process import flightfile
from workers.process.flightfile import Running
from workers.supervisor.state_file import read_state

FOLDER_PREFIX = "smena-supervisor-"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """A child: its process id, where its files are, and at which post it is (empty for one that leaves)."""

    pid: int
    folder: Path
    post: str = ""

    def file(self, kind: str) -> Path:
        """Return one of the child's files."""
        return self.folder / f"{self.pid}.{kind}"

    def running(self) -> Sequence[Running]:
        """Return the jobs that it runs now."""
        return flightfile.read(self.file("flight"))


def folders(chosen: Path | None) -> Sequence[Path]:
    """Return the folders in which supervisors of this user may keep their state."""
    return [chosen] if chosen is not None else sorted(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"))


def find(target: str, among: Sequence[Path]) -> list[Whereabouts]:
    """Return the children that the target names; several where supervisors use the same names of posts."""
    children = list(_children(among))
    named = [child for child in children if target in (str(child.pid), child.post)]
    return named or [child for child in children if any(job.job_id == target for job in child.running())]


def living(among: Sequence[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield those of the folders whose supervisor lives, each with the state that it wrote last."""
    for folder in among:
        with suppress(PermissionError):  # another user's
            state = read_state(folder)
            if state is not None and _lives(state["pid"]):
                yield folder, state


def _children(among: Sequence[Path]) -> Iterator[Whereabouts]:
    for folder, state in living(among):
        for role, posts in state["roles"].items():
            for number, pid in posts.items():
                yield Whereabouts(pid, folder, f"{role}-{number}")
        for pid in state.get("leaving", ()):
            yield Whereabouts(pid, folder)


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
