"""Let the user's modules be found in the current folder, behind the machine's own packages.

Processes of the fleet start without the current folder on their search path. It is put at the end, so that the
machine's packages win; a folder of the user's with one of their names could then never be imported, which is refused.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from smena.errors import Misconfigured

OWN = ("smena", "sharding", "workers")


def open_user_path(folder: Path) -> None:
    """Make modules in ``folder`` importable; raise `Misconfigured` when one of them is called like one of ours."""
    for name in OWN:
        theirs = next((path for path in (folder / name, folder / f"{name}.py") if path.exists()), None)
        ours = _place(name)
        if theirs is not None and not _same(theirs, ours) and _is_module(theirs):
            raise Misconfigured(f"a module is called like one of Smena's own: rename {theirs} (ours is {ours})")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _place(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise Misconfigured(f"the package {name} is not installed")
    return Path(spec.origin).parent


def _same(theirs: Path, ours: Path) -> bool:
    return theirs.resolve() == ours.resolve()


def _is_module(path: Path) -> bool:
    return path.suffix == ".py" or any(path.glob("*.py"))
