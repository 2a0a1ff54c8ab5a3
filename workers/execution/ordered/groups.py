"""Work the ordered queues of a process: as the tenant of their partitions, and as a part of the worker.

For the worker it is a source (nothing more comes after its drain) and a runner (what has not started goes back, what
runs is waited for); what runs sits in the slots and on the event loop as any job does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sharding.leases import lease_name
from smena.clock import Deadline
from smena.records.held_keys import Place
from smena.store.terms import Term
from workers.broker.partition_consumer import PartitionConsumer
from workers.execution.ordered.desk import Desk
from workers.execution.ordered.floor import Floor
from workers.execution.ordered.keeper import Keeper
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Retry, Snooze


class Leases(Protocol):
    """The service that says which partitions are ours (`sharding.partitions.Partitions`)."""

    def start(self) -> None:
        """Begin to take part."""

    def stop(self, deadline: Deadline) -> bool:
        """Hand everything over."""


class Desks:
    """All desks of a process, by queue and partition; for all threads."""

    def __init__(self) -> None:
        self._desks: dict[tuple[str, int], Desk] = {}
        self._changing = threading.Lock()

    def all(self) -> list[Desk]:
        """Return all."""
        with self._changing:
            return list(self._desks.values())

    def put(self, desk: Desk) -> None:
        """Add one, in the place of any that was there."""
        with self._changing:
            self._desks[desk.place.queue, desk.place.partition] = desk

    def get(self, queue: str, partition: int | None) -> Desk | None:
        """Return the desk of a partition."""
        return None if partition is None else self._desks.get((queue, partition))

    def remove(self, desk: Desk) -> None:
        """Take one away, if it still is there."""
        with self._changing:
            if self._desks.get((desk.place.queue, desk.place.partition)) is desk:
                del self._desks[desk.place.queue, desk.place.partition]

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Hand an outcome to the desk that gave the job; where it is closed the outcome counts for nothing."""
        desk = self.get(attempt.job.queue, attempt.job.partition)
        if desk is not None and attempt.turn is not None and desk.place.term == attempt.turn.term:
            desk.settle(attempt, outcome)


class Group:
    """One ordered queue: the tenant of its partitions, called on their service's thread."""

    def __init__(
        self,
        queue: str,
        count: int,
        owner: str,
        desks: Desks,
        floor: Floor,
        keeper: Keeper,
        consumer: PartitionConsumer,
    ) -> None:
        self.queue = queue
        self._count = count
        self._owner = owner
        self._desks = desks
        self._floor = floor
        self._keeper = keeper
        self._consumer = consumer

    def begin(self, partition: int, term: int) -> None:
        """Work a partition: load what is held of it, then subscribe."""
        place = Place(self.queue, partition, Term(lease_name(self.queue, partition), self._owner, term))
        desk = Desk(place, self._count, self._floor)
        self._desks.put(desk)
        self._keeper.open(desk, lambda: self._consumer.take(self.queue, partition, desk))

    def give_up(self, partition: int, done: Callable[[], None]) -> None:
        """Let a partition go as soon as its keys in hand are finished."""
        desk = self._desks.get(self.queue, partition)
        if desk is None:
            done()
        else:
            desk.close(done)

    def lost(self, partition: int) -> None:
        """Stop at once, and drop the socket."""
        desk = self._desks.get(self.queue, partition)
        if desk is not None:
            desk.lose()
            self._desks.remove(desk)
            self._consumer.drop(self.queue, partition)


class Ordered:
    """The ordered queues of a process."""

    def __init__(self, leases: Sequence[Leases], desks: Desks, keeper: Keeper, consumer: PartitionConsumer) -> None:
        self._leases = leases
        self._desks = desks
        self._consumer = consumer
        keeper.on_leave(self._leave)

    def start(self) -> None:
        """Take part in the work."""
        self._consumer.start()
        for leases in self._leases:
            leases.start()

    def pause(self) -> None:
        """Take nothing more for now."""
        self._consumer.pause()

    def resume(self) -> None:
        """Go on."""
        self._consumer.resume()

    def waiting(self) -> int:
        """Return how many jobs in hand have not started."""
        return sum(desk.waiting() for desk in self._desks.all())

    def running(self) -> int:
        """Return 0: what runs sits elsewhere."""
        return 0

    def hand_back(self) -> int:
        """Let nothing start any more; what has not goes back when its partition is let go."""
        return sum(desk.stop_starting() for desk in self._desks.all())

    def finish(self, deadline: Deadline) -> bool:
        """Let all partitions go."""
        self.hand_back()
        ended = [leases.stop(deadline) for leases in self._leases]
        return all(ended)

    def held(self) -> Mapping[str, float]:
        """Return how many keys of each queue are held."""
        return self._sum(lambda desk: desk.look(1)[0])

    def blocked(self) -> Mapping[str, float]:
        """Return how many of each queue's held keys only an operator lets go on."""
        return self._sum(lambda desk: desk.blocked())

    def parked(self) -> Mapping[str, float]:
        """Return how many jobs of each queue are parked."""
        return self._sum(lambda desk: desk.look(1)[1])

    def _sum(self, read: Callable[[Desk], int]) -> Mapping[str, float]:
        counted: dict[str, float] = {}
        for desk in self._desks.all():
            counted[desk.place.queue] = counted.get(desk.place.queue, 0) + read(desk)
        return counted

    def _leave(self, desk: Desk, done: Callable[[], None]) -> None:
        def closed() -> None:
            self._desks.remove(desk)
            done()

        self._consumer.let_go(desk.place.queue, desk.place.partition, closed)
