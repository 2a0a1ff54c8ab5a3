"""What the desks of a process have in common: what they run by, and whom they tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from smena.clock import Clock
from smena.job import Job
from workers.broker.delivery import Delivery
from workers.execution.ordered.decisions import Decisions
from workers.execution.pending import Pending
from workers.middleware.attempt import Attempt
from workers.middleware.bound import BoundActor
from workers.middleware.outcome import Dead


class Settles(Protocol):
    """What is needed of the settler for what has no key, or is none of the key's jobs."""

    def settle_job(self, delivery: Delivery, job: Job, outcome: Dead) -> None:
        """Settle a job that is not to run."""

    def settle_raw(self, delivery: Delivery, outcome: Dead) -> None:
        """Settle a delivery that could not be decoded."""


class Consuming(Protocol):
    """What consumes partitions."""

    def hold(self, queue: str, number: int, *, holding: bool) -> None:
        """Take nothing more of one for now, or go on."""

    def silence(self, queue: str, number: int, done: Callable[[], object]) -> None:
        """Take nothing more of one for good, and tell when nothing comes any more."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What all desks of a process have in common."""

    actors: Mapping[str, BoundActor]
    admit: Callable[[Attempt], None]
    decisions: Decisions
    settles: Settles
    publish: Callable[[Pending], None]
    """Take a dead letter whose settlement is written."""
    consumer: Consuming
    cue: Callable[[], None]
    """Wake the keeper."""
    clock: Clock
    most_snoozes: int
    most_parked: int
    idle_s: float | None = None
    """How long a job's transaction may be idle: less than the lease."""
