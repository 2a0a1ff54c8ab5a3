"""Decide who runs a server that refuses root.

An ordinary user runs it as itself. Root lets `nobody` run it, when `nobody` can reach the checkout; else (a checkout
under `/root`, say) `nobody` is given the one capability that lets it pass closed folders. Nothing on the way to the
checkout is made readable for others. A user namespace would do as well, but containers and chroots forbid them.
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
# The secure bit lets access(2), with which PostgreSQL looks at its own programs, count the capability as well.
_CAPABLE: Final = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_override", "--ambient-caps=+dac_override"),
    *("--securebits=+no_setuid_fixup", "--"),
)


@dataclass(frozen=True)
class Identity:
    """Say who a process runs as: by the user it is started as, or by what stands before its command."""

    owner: int | None = None
    user: int | None = None
    prefix: tuple[str, ...] = ()

    def command(self, command: list[str]) -> list[str]:
        """Return ``command`` as it must be started."""
        return [*self.prefix, *command]

    def own(self, path: Path) -> None:
        """Give ``path`` to whom the process runs as, when that is another than ours."""
        if self.owner is not None:
            os.chown(path, self.owner, self.owner)

    def remove(self, folder: Path) -> None:
        """Remove a folder that may not be there."""
        if folder.exists():
            shutil.rmtree(folder)


def identity_for(folder: Path, programs: Path) -> Identity:
    """Return who may run ``programs`` with data in ``folder``; raises `Missing` when root has no way."""
    if os.geteuid() != 0:
        return Identity()
    if _open_to_others(folder.parent) and _open_to_others(programs):
        return Identity(owner=_NOBODY, user=_NOBODY)
    if _capability_works():
        return Identity(owner=_NOBODY, prefix=_CAPABLE)
    raise Missing(
        "PostgreSQL refuses to run as root, the user nobody cannot reach this folder, and setpriv cannot help it; "
        "move the checkout to a folder that others may enter, or run as an ordinary user",
        folder=folder,
    )


def _open_to_others(path: Path) -> bool:
    return all(step.stat().st_mode & stat.S_IXOTH for step in (path, *path.resolve().parents))


def _capability_works() -> bool:
    if shutil.which(_CAPABLE[0]) is None:
        return False
    return subprocess.run([*_CAPABLE, "true"], capture_output=True, check=False).returncode == 0
