"""Find the drills: every module of `deaths`, `weather` and `work` is one."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from smena.errors import Refused
from workers.drills import deaths, weather, work
from workers.drills.drill import Drill

_ROOMS: Final = (deaths, weather, work)


class NoSuchDrill(Refused):
    """There is no drill of that name."""


def drills() -> dict[str, Drill]:
    """Return all drills by name, the deaths first."""
    return {drill.name: drill for drill in _found()}


def chosen(names: Sequence[str], group: str | None) -> list[Drill]:
    """Return the named drills in the order of naming, or all (of a group) where none is named."""
    known = drills()
    for name in names:
        if name not in known:
            raise NoSuchDrill(f"{name!r}; there are {', '.join(known)}")
    return [drill for drill in map(known.__getitem__, names or known) if group in (None, drill.group)]


def _found() -> Iterator[Drill]:
    for room in _ROOMS:
        for module in pkgutil.iter_modules(room.__path__):
            drill: Drill = import_module(f"{room.__name__}.{module.name}").DRILL
            yield drill
