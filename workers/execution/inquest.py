"""Let a job that came back start only when it is known what it left behind.

A delivery that the broker hands out again may have been running in a process that died. Its strikes are looked up,
one query for all that wait. The broker is quick (5 to 11 ms) and the record of a death is not, so as long as a death
is known of and not written down the delivery waits, at most `WRITTEN_S`; what the dead had begun then counts as
suspected. While PostgreSQL cannot be asked it waits too: not to know is no reason to run.

Whoever is struck goes to the quarantine. Whoever is not leaves a start before it runs, and takes it back when it is
settled: so a host that dies with its supervisor leaves evidence too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from smena.clock import Clock
from smena.records.asked import Attempt as AttemptKey
from smena.records.strike import Start, Strike
from smena.records.strikes import Found
from smena.telemetry import events
from workers.execution.waiting_room import BATCH, WaitingRoom
from workers.middleware.attempt import Attempt

SEEN_S: Final = 0.1
"""A death shows in the table within some milliseconds; nothing redelivered starts sooner than this after it came."""
WRITTEN_S: Final = 1.0
"""How long a known death may take to be written down; then it is given up, which takes a moment more."""
_LOOK_S: Final = 0.03


class Register(Protocol):
    """Where deaths and starts are written down."""

    def find(self, attempts: Sequence[AttemptKey]) -> Found:
        """Return the strikes held against these attempts, and the processes that died unburied."""

    def give_up(self, unburied: Collection[str]) -> int:
        """Take the starts of processes that nobody buries for strikes; return how many."""

    def begin(self, begun: Sequence[Start]) -> None:
        """Note that these jobs are about to run."""

    def end(self, life: str, attempts: Sequence[AttemptKey]) -> None:
        """Forget that they were begun by this process."""


@dataclass(frozen=True, slots=True)
class Own:
    """This process, as its starts name it."""

    life: str
    worker: str
    host: str


class Inquest(WaitingRoom):
    """The deliveries whose past is looked into; ``suspect`` and ``start`` say where each goes then."""

    def __init__(
        self,
        register: Register,
        own: Own,
        suspect: Callable[[Attempt, Sequence[Strike]], None],
        start: Callable[[Attempt], None],
        clock: Clock,
        seen_s: float = SEEN_S,
        expect: Callable[[], object] = lambda: None,
    ) -> None:
        """Let ``expect`` know of a death that is not written down yet: suspects are likely to follow."""
        super().__init__("inquest", self._look_into, _LOOK_S)
        self._register = register
        self._own = own
        self._suspect = suspect
        self._start_job = start
        self._clock = clock
        self._seen_s = seen_s
        self._expect = expect
        self._ended: deque[AttemptKey] = deque()

    def _round(self, stopping: threading.Event) -> None:
        super()._round(stopping)
        self._forget_ended()

    def _look_into(self, batch: list[Attempt]) -> None:
        """Send on, and take out of the batch, those that are known well enough."""
        batch[:] = [attempt for attempt in batch if attempt.delivery.alive()]  # else the broker has them again
        found = self._find(batch)
        if found.unburied and batch:
            self._expect()
        if found.unburied and any(self._age_s(attempt) >= WRITTEN_S for attempt in batch):
            struck = self._register.give_up(found.unburied)
            events.emit(events.LIFE_LOST, lives=sorted(found.unburied), struck=struck)
            found = self._find(batch)
        known = [attempt for attempt in batch if self._is_known(attempt, found)]
        known_ids = set(map(id, known))
        batch[:] = [attempt for attempt in batch if id(attempt) not in known_ids]
        try:
            self._let_go(known, found)
        finally:
            batch += known

    def _find(self, batch: Sequence[Attempt]) -> Found:
        """Look them up; this process is not dead, even if its connection was lost and with it the sign of its life."""
        found = self._register.find([_key(attempt) for attempt in batch])
        return Found(found.strikes, found.unburied - {self._own.life})

    def _let_go(self, known: list[Attempt], found: Found) -> None:
        """Send each on its way, and take it out of the list when it is gone."""
        free = [attempt for attempt in known if not found.strikes.get(_key(attempt))]
        self._register.begin([self._start_of(attempt) for attempt in free if attempt.delivery.redelivered])
        while known:
            attempt = known.pop()
            held = found.strikes.get(_key(attempt), ())
            if held:
                self._tell(attempt, held[-1])
                self._suspect(attempt, held)
            else:
                self._let_start(attempt)

    def _is_known(self, attempt: Attempt, found: Found) -> bool:
        """Say whether nothing more is to be learnt of the attempt by waiting."""
        if found.strikes.get(_key(attempt)) or not attempt.delivery.redelivered:
            return True
        age_s = self._age_s(attempt)
        return age_s >= 2 * WRITTEN_S or (age_s >= self._seen_s and not found.unburied)

    def _age_s(self, attempt: Attempt) -> float:
        return self._clock.monotonic() - attempt.delivery.received_at

    def _let_start(self, attempt: Attempt) -> None:
        if attempt.delivery.redelivered:
            key = _key(attempt)
            attempt.delivery.when_settled(lambda: self._ended.append(key))
        self._start_job(attempt)

    def _start_of(self, attempt: Attempt) -> Start:
        own, job = self._own, attempt.job
        return Start(
            job_id=job.id,
            attempt=job.attempt,
            life=own.life,
            actor=attempt.actor.name,
            worker=own.worker,
            host=own.host,
        )

    def _forget_ended(self) -> None:
        while self._ended:
            keys = [self._ended.popleft() for _ in range(min(BATCH, len(self._ended)))]
            try:
                self._register.end(self._own.life, keys)
            except Exception:
                self._ended.extendleft(keys)
                raise

    def _tell(self, attempt: Attempt, strike: Strike) -> None:
        events.emit(events.JOB_SUSPECTED, **attempt.job.facts(), why=strike.why, how=strike.how, life=strike.life)


def _key(attempt: Attempt) -> AttemptKey:
    return attempt.job.id, attempt.job.attempt
