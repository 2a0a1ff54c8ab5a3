"""Write where everything is into ``supervisor.json``, for drills, probes and people.

    {"pid": 1, "state": "ready", "cwd": "/srv/shop", "metrics": {"host": "127.0.0.1", "port": 9191},
     "roles": {"worker": {"0": 12, "1": 13}},
     "nurseries": {"worker": 11}, "leaving": [], "paused": false}

``state`` is ``booting``, ``ready`` or ``draining``; ``cwd`` is the folder that it was started in; ``leaving`` are
children whose post is another's already; ``paused`` says whether the fleet takes no work for now. The file is replaced
as a whole, never seen half, and goes with its supervisor. A lock on the folder keeps a second supervisor out; the
kernel lets go of it with the process.

A folder that was removed while the supervisor lives, as cleaners of temporary folders do, is made again: without it no
child can start.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from smena.errors import Misconfigured

FILE = "supervisor.json"
_LOCK = "supervisor.lock"


class StateFile:
    """The supervisor's own folder, taken for as long as it lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._written: dict[str, Any] = {}
        self._lock = -1

    def take(self) -> None:
        """Make the folder (for this user alone) and lock it; raise `Misconfigured` when it cannot be ours."""
        self._lock = self._locked(was_chosen=True)

    def retake(self) -> bool:
        """Take the folder again if it or its lock is gone; return whether it was so.

        Who started the supervisor may have chosen a link or a folder of another user's; what stands there now nobody
        chose, so these are refused (`Misconfigured`).
        """
        if self._is_held():
            return False
        fresh = self._locked(was_chosen=False)
        os.close(self._lock)
        self._lock, self._written = fresh, {}
        return True

    def _is_held(self) -> bool:
        """Say whether the lock that is held is the one in the folder."""
        with suppress(OSError):
            return os.path.samestat((self.folder / _LOCK).stat(), os.fstat(self._lock))
        return False

    def _locked(self, *, was_chosen: bool) -> int:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not was_chosen and not _is_our_own(self.folder):
                raise Misconfigured("the supervisor's folder was removed and another stands there", folder=self.folder)
            lock = os.open(self.folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise Misconfigured(
                f"the supervisor's folder cannot be made or written ({error.strerror}); "
                "SMENA_SUPERVISOR_STATE_DIR names another",
                folder=self.folder,
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise Misconfigured(
                "another supervisor keeps its state here; give this one its own SMENA_SUPERVISOR_STATE_DIR",
                folder=self.folder,
            ) from None
        return lock

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file, if anything has changed."""
        if state == self._written:
            return
        fresh = self.folder / f"{FILE}.new"
        fresh.write_text(json.dumps(state, indent=1) + "\n")
        fresh.replace(self.folder / FILE)
        self._written = state

    def release(self) -> None:
        """Remove the file and let the folder go; the lock's own file stays, or two could hold it."""
        if self._is_held():
            (self.folder / FILE).unlink(missing_ok=True)
        os.close(self._lock)


def _is_our_own(folder: Path) -> bool:
    told = folder.lstat()
    return stat.S_ISDIR(told.st_mode) and told.st_uid == os.geteuid()


def remove_abandoned(folders: Iterable[Path]) -> int:
    """Remove those of the folders whose supervisor was killed: a state file is there and nobody holds the lock."""
    removed = 0
    for folder in folders:
        with suppress(OSError, Misconfigured):  # it is another user's, or its supervisor lives
            if (folder / FILE).exists():
                state = StateFile(folder)
                state.take()
                shutil.rmtree(folder)
                state.release()
                removed += 1
    return removed


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what the supervisor of that folder wrote last, or None without one."""
    try:
        state: dict[str, Any] = json.loads((folder / FILE).read_text())
    except FileNotFoundError:
        return None
    return state
