"""Two members of an ordered queue, six, three, under load: partitions change hands, and no key loses its order."""

from __future__ import annotations

import signal
from typing import Final

from workers.drills.drill import Drill
from workers.drills.fleet import FleetPlan
from workers.drills.ground import Ground
from workers.drills.load import LoadPlan
from workers.drills.ordered_book import OWNED, PARTITIONS, VIOLATIONS

_LEASE_S: Final = 4
_BOUND_S: Final = _LEASE_S + 4.0
_MORE: Final = 150
_SETTINGS: Final = {"books": "workers.drills.ordered_book", "partitions_lease_s": _LEASE_S}


def fault(ground: Ground) -> None:
    """Go from two members to six, then to three."""
    _works_on(ground)
    _go_to(ground, 6, signal.SIGTTIN)
    ground.strike(len(ground.sight.running()))
    owned_s = ground.recovered(lambda: _are_shared(ground, 6), "six members to own all partitions")
    ground.bar("partitions shared by six, s", owned_s, _BOUND_S)
    _works_on(ground)
    _go_to(ground, 3, signal.SIGTTOU)
    ground.until(lambda: not ground.fleet.leaving(), "three members to leave")
    ground.strike(0)
    owned_s = ground.recovered(lambda: _are_shared(ground, 3), "three members to own all partitions")
    ground.bar("partitions shared by three, s", owned_s, _BOUND_S)
    _works_on(ground)
    [(violations,)] = ground.sight.rows(VIOLATIONS)
    ground.bar("effects out of their key's order", violations, 0)


def _works_on(ground: Ground) -> None:
    """Wait until many more jobs took effect."""
    _, before, _, _ = ground.sight.standing()
    ground.until(lambda: ground.sight.standing()[1] >= before + _MORE, "more jobs to take effect")


def _are_shared(ground: Ground, members: int) -> bool:
    return bool(ground.sight.rows(OWNED) == [(PARTITIONS, members)])


def _go_to(ground: Ground, count: int, number: signal.Signals) -> None:
    """Send a signal so many times; two of a kind that meet would be one, so each is seen to act."""
    while len(ground.fleet.workers()) != count:
        before = len(ground.fleet.workers())
        ground.fleet.tell(number)
        ground.until(lambda seen=before: len(ground.fleet.workers()) != seen, "the signal to act")  # type: ignore[misc]
    ground.fleet.wait_ready()


DRILL = Drill(
    name="scale-shards",
    group="work",
    summary="an ordered queue's members: two, six, three",
    fault=fault,
    load=LoadPlan(
        ahead=300,
        ms=10,
        actors=("ordered",) * 9 + ("ordered_again",),
        outbox_every=0,
        module="workers.drills.ordered_book",
    ),
    fleet=FleetPlan(threads=4, settings=_SETTINGS),
    least_bite=2,
)
