"""Be the place where one job runs at a time: what happens there is recorded and counted.

A seat belongs to one thread, or to one coroutine slot of the event loop. It writes the flight
recorder before the first line of a job and after the last, so that a process that dies leaves behind
what it was running. The counters are the seat's own: no lock on the way of a job.
"""

from __future__ import annotations

from time import perf_counter, time
from typing import Final, Protocol

from smena.telemetry import events
from smena.telemetry.tally import Tally
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Done, Outcome, Returned
from workers.middleware.settle import tell_unsettled
from workers.middleware.stopwatch import Stopwatch

UNKNOWN: Final = "its outcome is not known"
"""Why a job is returned that may have run, outside of what judges it: it must not be run again in place."""


class Recorder(Protocol):
    """The flight recorder, as a seat uses it."""

    def bind(self, slot: int) -> None:
        """Note that the calling thread serves the slot."""

    def enter(self, slot: int, job_id: str, actor: str, attempt: int, started_at: float) -> None:
        """Note that the slot runs this attempt since ``started_at`` (Unix seconds)."""

    def leave(self, slot: int) -> None:
        """Note that the slot runs nothing."""


class Seat:
    """One slot's line in the flight recorder, its counters, and the watch over what it runs (``attempt``)."""

    __slots__ = ("_recorder", "ages", "attempt", "busy_s", "finished", "is_stuck", "slot", "tally", "watch")

    def __init__(self, slot: int, recorder: Recorder, tally: Tally) -> None:
        self.slot = slot
        self.tally = tally
        self.attempt: Attempt | None = None
        self.watch = Stopwatch(tally)
        self.is_stuck = False
        """Whether what runs here did not end when its time was up: nobody waits for it any more."""
        self.ages: dict[str, tuple[float, float]] = {}
        """By queue when the last new job was started here (Unix seconds), and how long it had been due then."""
        self.finished = 0
        self.busy_s = 0.0
        self._recorder = recorder

    def sit_down(self) -> None:
        """Tell the recorder that the calling thread serves this seat; once per thread."""
        self._recorder.bind(self.slot)
        self.watch.belongs_to_this_thread()

    @property
    def busy(self) -> bool:
        """Whether a job runs here."""
        return self.attempt is not None

    def run(self, attempt: Attempt) -> Outcome:
        """Run the attempt through its rings on this thread."""
        began = self._enter(attempt)
        try:
            outcome: Outcome = attempt.actor.call(attempt)
        except BaseException as error:  # noqa: BLE001 - the last seam: no thread dies of a job
            outcome = _unknown(attempt, error)
        self._leave(attempt, outcome, began)
        return outcome

    async def run_async(self, attempt: Attempt) -> Outcome:
        """Run the attempt through its rings on the event loop."""
        began = self._enter(attempt)
        try:
            outcome: Outcome = await attempt.actor.async_call(attempt)
        except BaseException as error:  # noqa: BLE001 - the last seam: no seat is lost to a job
            outcome = _unknown(attempt, error)
        self._leave(attempt, outcome, began)
        return outcome

    def _enter(self, attempt: Attempt) -> float:
        self.attempt = attempt
        attempt.watch = self.watch
        job = attempt.job
        now = time()
        self._recorder.enter(self.slot, job.id, attempt.actor.name, job.attempt, now)
        if events.wanted(events.JOB_STARTED):
            events.emit(events.JOB_STARTED, **job.facts(attempt.actor.name))
        if job.timestamp_ms and job.attempt == 1 and not job.snoozes:
            age_s = now - job.timestamp_ms / 1000
            self.tally.latency(job.queue, age_s)
            self.ages[job.queue] = now, age_s
        return perf_counter()

    def _leave(self, attempt: Attempt, outcome: Outcome, began: float) -> None:
        passed_s = perf_counter() - began
        self._recorder.leave(self.slot)
        self.attempt = None
        self.is_stuck = False
        self.finished += 1
        self.busy_s += passed_s
        actor = attempt.actor.name
        self.tally.count(actor, type(outcome).__name__.lower())
        self.tally.run_time(actor, passed_s)
        if isinstance(outcome, Done) and events.wanted(events.JOB_DONE):
            events.emit(events.JOB_DONE, **attempt.job.facts(actor), run_s=round(passed_s, 6))


def _unknown(attempt: Attempt, error: BaseException) -> Returned:
    """Keep a job that the rings lost: it is not acked, and goes back after a pause."""
    tell_unsettled(attempt, "unknown", error)
    return Returned(UNKNOWN)
