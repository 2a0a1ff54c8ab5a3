"""Share strikes between hosts through Redis, where there is no PostgreSQL (guarantee 4).

A supervisor writes what it held against those that ran in a process when that died; the workers of all hosts look
there before what came back may start. Nothing else is kept: a host that dies with its supervisor leaves no evidence,
and what Redis forgets is forgotten. Strikes go by themselves after a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from smena.clock import Deadline
from smena.records.asked import Attempt
from smena.records.strike import Strike
from smena.store.faults import translated

if TYPE_CHECKING:
    from smena.store.cache import Cache

KEEP_S: Final = 86_400
_KEY: Final = "smena:strikes:"


class SharedStrikes:
    """A hash for each attempt, by the process that died. Safe from all threads; raises `CacheLost`.

    A service only in that its end closes the cache.
    """

    def __init__(self, cache: Cache) -> None:
        self.name = "shared-strikes"
        self._cache = cache

    def start(self) -> None:
        """Do nothing: the first use connects."""

    def stop(self, deadline: Deadline) -> bool:  # noqa: ARG002 - it waits for nothing
        """Close the connections."""
        self._cache.close()
        return True

    def bury(self, life: str, found: Sequence[Strike]) -> None:  # noqa: ARG002 - each strike names its life
        """Write what a dead process leaves behind. Twice is once."""
        if not found:
            return
        with translated(), self._cache.client.pipeline() as both:
            for strike in found:
                key = _key((strike.job_id, strike.attempt))
                both.hsetnx(key, strike.life, msgspec.json.encode(strike))
                both.expire(key, KEEP_S)
            both.execute()

    def find(self, attempts: Sequence[Attempt]) -> dict[Attempt, tuple[Strike, ...]]:
        """Return the strikes that are held against these attempts, by attempt."""
        with translated(), self._cache.client.pipeline(transaction=False) as asked:
            for attempt in attempts:
                asked.hvals(_key(attempt))
            answers = asked.execute()
        held = zip(attempts, answers, strict=True)
        return {attempt: tuple(map(_read, values)) for attempt, values in held if values}

    def clear(self, attempts: Sequence[Attempt]) -> None:
        """Hold nothing against these attempts any more."""
        if attempts:
            with translated():
                self._cache.client.delete(*map(_key, attempts))


def _key(attempt: Attempt) -> str:
    job_id, number = attempt
    return f"{_KEY}{number}:{job_id}"


def _read(value: bytes) -> Strike:
    return msgspec.json.decode(value, type=Strike)
