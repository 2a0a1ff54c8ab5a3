"""Decide who runs a server that refuses root.

An ordinary user runs it as itself. Root lets `nobody` run it, when `nobody` can reach the checkout; else (a checkout
under `/root`, say) root runs it inside a user namespace, in which root's own id reads as another. Nothing on the way
to the checkout is made readable for others.
"""

import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.local.faults import Missing

_NOBODY: Final = 65_534
_NAMESPACE: Final = ("unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}", "--")


@dataclass(frozen=True)
class Identity:
    """Say which user a process is given, and what stands before its command."""

    user: int | None = None
    prefix: tuple[str, ...] = ()

    def command(self, command: list[str]) -> list[str]:
        """Return ``command`` as it must be started."""
        return [*self.prefix, *command]

    def own(self, path: Path) -> None:
        """Give ``path`` to the user, when that is another than ours."""
        if self.user is not None:
            os.chown(path, self.user, self.user)

    def remove(self, folder: Path) -> None:
        """Remove a folder that may not be there."""
        if folder.exists():
            shutil.rmtree(folder)


def identity_for(folder: Path, programs: Path) -> Identity:
    """Return who may run ``programs`` with data in ``folder``; raises `Missing` when root has no way."""
    if os.geteuid() != 0:
        return Identity()
    if _open_to_others(folder.parent) and _open_to_others(programs):
        return Identity(user=_NOBODY)
    if _namespaces_work():
        return Identity(prefix=_NAMESPACE)
    raise Missing(
        "PostgreSQL refuses to run as root, the user nobody cannot reach this folder, and user namespaces are closed; "
        "move the checkout to a folder that others may enter, or run as an ordinary user",
        folder=folder,
    )


def _open_to_others(path: Path) -> bool:
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.resolve().parents))


def _namespaces_work() -> bool:
    if shutil.which(_NAMESPACE[0]) is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
