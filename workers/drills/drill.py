"""What one drill is: see the package's docstring for the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan

Group = Literal["deaths", "weather", "work"]


@dataclass(frozen=True)
class Control:
    """One guard that is taken out (a name in `unguarded.GUARDS`), and what the judge must find then.

    ``must_be`` is what jobs must be (lost, doubled, blamed), or the name of a bar that must not hold.
    """

    guard: str
    must_be: str


@dataclass(frozen=True)
class Drill:
    """One fault, what it strikes, and how much of it must have been hit."""

    name: str
    group: Group
    summary: str
    fault: Callable[[Ground], None]
    least_bite: int
    destructive: bool = False
    private: bool = False
    load: LoadPlan = field(default_factory=LoadPlan)
    fleet: FleetPlan = field(default_factory=FleetPlan)
    around: Callable[[Ground], AbstractContextManager[Mapping[str, str]]] | None = None
    controls: tuple[Control, ...] = ()
