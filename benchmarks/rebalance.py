"""Let members of an ordered queue join, leave, die and freeze; take the time until its partitions are worked again.

A member is a worker process of its own, and jobs come all the time. A time runs from what happens to the member (of one
that joins: from its first heartbeat) until by the database's word every partition has an owner that lives and all have
their share, and a job of each has started after that. No more partitions must have moved than had to, and in the end
every job must have started.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import psycopg

from benchmarks import order
from benchmarks.ground import Ground
from benchmarks.peers.smena_ordered import KEYS, PARTITIONS
from benchmarks.proof import Proof
from benchmarks.report import Bar
from benchmarks.running import Process, kill, sender, tell_all, wait_for, worker
from benchmarks.systems import PYTHON, SMENA_ORDERED
from smena.keyspace import partition_of

_LEASE_S: Final = 10
_HEARTBEAT_S: Final = 3
"""Of a connection that consumes partitions: at most a third of the lease (`workers/wiring/ordered.py`)."""

BARS: Final = (
    Bar("join_s", 2, at_most=True),
    Bar("leave_s", 2, at_most=True),
    Bar("kill_s", _LEASE_S + 1, at_most=True),
    Bar("freeze_s", _LEASE_S + 3 * _HEARTBEAT_S + 1, at_most=True),
    Bar("needless_moves", 0, at_most=True),
)

_RATE: Final = 500
"""Jobs a second, so that a job of each partition comes every tenth of a second or so."""

_ROUND_S: Final = 120
_LOOKED_AT: Final = 30_000
"""Jobs among which one of each partition is sought: those of a minute; more would cost the workers their processor."""

_PARTITION: Final = [partition_of(key, PARTITIONS) for key in range(KEYS)]
_OWNERS: Final = b"""
SELECT CAST(right(name, 3) AS int), owner, term FROM smena.leases
WHERE name LIKE 'partition:bench_ordered:%' AND owner IS NOT NULL AND expires_at > clock_timestamp()
"""
_MEMBERS: Final = b"""
SELECT member FROM smena.members
WHERE group_name = 'bench_ordered' AND NOT leaving AND expires_at > clock_timestamp()
"""

Owners = dict[int, tuple[str, int]]
"""Of each partition that is owned: by whom, and under which term."""


def worst(ground: Ground, rounds: int) -> dict[str, float | None]:
    """Play so many rounds; return the longest time of each kind in seconds, and how many partitions moved in vain."""
    proof = Proof(ground.folder / "rebalance.proof", _RATE * _ROUND_S * rounds)
    found: dict[str, float | None] = {}
    try:
        with (
            ground.database() as connection,
            _member(ground, proof, "stays"),
            _member(ground, proof, "stays-too"),
        ):
            connection.autocommit = True
            stage = _Stage(ground, proof, connection)
            with sender(SMENA_ORDERED, ground, proof, "paced", proof.ids, _RATE):
                stage.shared(2, time.monotonic())
                for _ in range(rounds):
                    for name, seconds in _round(stage):
                        found[name] = max(seconds, found.get(name) or 0.0)
            found["needless_moves"] = float(stage.needless_moves)
            wait_for(lambda: not proof.waiting(), "jobs are lost")
        order.check(proof)
    finally:
        proof.close()
    return found


def _round(stage: _Stage) -> Iterator[tuple[str, float]]:
    with stage.joined() as (third, joined_s):
        yield "join_s", joined_s
        yield "leave_s", stage.shared_after(third.terminate)
    with stage.joined() as (third, _):
        yield "kill_s", stage.shared_after(partial(kill, third))
    with stage.joined() as (third, _):
        yield "freeze_s", stage.shared_after(partial(tell_all, third, signal.SIGSTOP))
        tell_all(third, signal.SIGCONT)


@dataclass
class _Stage:
    """Two members that stay, and a third that comes and goes."""

    ground: Ground
    proof: Proof
    connection: psycopg.Connection[Any]
    needless_moves: int = 0

    @contextmanager
    def joined(self) -> Iterator[tuple[Process, float]]:
        """Let a third member join for the block; give its process, and the seconds until it had its share."""
        before = self._owners()
        with _member(self.ground, self.proof, "third") as process:
            wait_for(lambda: self._members() == 3, "the third member does not join", process)
            seconds = self.shared(3, time.monotonic())
            self._count_moves(before)
            yield process, seconds

    def shared_after(self, happens: Callable[[], object]) -> float:
        """Let something happen to the third member; return the seconds until the others share its partitions."""
        before = self._owners()
        began_s = time.monotonic()
        happens()
        seconds = self.shared(2, began_s)
        self._count_moves(before)
        return seconds

    def shared(self, members: int, began_s: float) -> float:
        """Wait until so many members share all partitions and work them; return the seconds since ``began_s``."""
        wait_for(lambda: _are_even(self._owners(), members), f"{members} members do not share the partitions")
        owned_s = time.monotonic()
        waiting = self.proof.first_not_started()
        wait_for(lambda: len(self._worked_since(owned_s, waiting)) == PARTITIONS, "not all partitions are worked")
        return max(self._worked_since(owned_s, waiting).values()) - began_s

    def _worked_since(self, since_s: float, waiting: int) -> dict[int, float]:
        """Return when each partition's first job since then started; all jobs before ``waiting`` had by then."""
        first: dict[int, float] = {}
        for job, started_s in enumerate(self.proof.starts(waiting, _LOOKED_AT), waiting):
            if started_s >= since_s:
                partition = _PARTITION[job % KEYS]
                first[partition] = min(started_s, first.get(partition, started_s))
        return first

    def _owners(self) -> Owners:
        return {number: (owner, term) for number, owner, term in self.connection.execute(_OWNERS)}

    def _members(self) -> int:
        return len(self.connection.execute(_MEMBERS).fetchall())

    def _count_moves(self, before: Owners) -> None:
        """Count the claims beyond those that had to be: of who is gone, and a share for who is new.

        Each claim is a term, so a partition that moved and came back between two looks counts too.
        """
        after = self._owners()
        had, have = ({owner for owner, _ in owners.values()} for owners in (before, after))
        gone = sum(owner not in have for owner, _ in before.values())
        needed = gone + len(have - had) * (PARTITIONS // len(have))
        claims = sum(after[number][1] - term for number, (_, term) in before.items())
        self.needless_moves += max(0, claims - needed)


def _are_even(owners: Owners, members: int) -> bool:
    shares = Counter(owner for owner, _ in owners.values())
    return len(owners) == PARTITIONS and len(shares) == members and max(shares.values()) - min(shares.values()) <= 1


@contextmanager
def _member(ground: Ground, proof: Proof, name: str) -> Iterator[Process]:
    """Run a worker of one process for the block."""
    one = replace(
        SMENA_ORDERED,
        name=name,
        command=(PYTHON, "-m", "workers.cli", "worker", "--processes", "1"),
    ).plus(SMENA_SUPERVISOR_STATE_DIR=str(ground.folder / f"state-{name}"))
    with worker(one, ground, proof.path) as process:
        yield process
