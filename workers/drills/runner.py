"""Hold one drill: fleet up, load on, fault, wait for the end of every job, fleet down, verdict."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final

import smena
from smena.clock import SYSTEM, Deadline
from smena.errors import SmenaError
from smena.settings import load
from workers.drills.drill import Control, Drill
from workers.drills.fleet import Fleet, FleetFailed
from workers.drills.ground import Ground
from workers.drills.load import Load
from workers.drills.report import Report
from workers.drills.sight import Sight
from workers.drills.stage import Stage
from workers.drills.verdict import Verdict, judge, left_in_database

_ACCEPT_S: Final = 30.0
_STILL_S: Final = 8.0
_STILL_UNGUARDED_S: Final = 3.0
"""Time without any change after which a run is judged as it stands; longer than any wait of its jobs."""
_END_S: Final = 20.0
_LOOK_S: Final = 0.1


def hold(
    drill: Drill,
    stage: Stage,
    control: Control | None = None,
    seconds: float = 3.0,
    look: Callable[[], None] = lambda: None,
) -> Report:
    """Hold the drill, or one of its controls, and report; ``seconds`` is how long the load goes on after the fault.

    Whatever waits calls ``look``, which raises when all is to end.
    """
    return _Holding(drill, stage, control, seconds, look).report()


class _Holding:
    """One run and what it met."""

    def __init__(
        self, drill: Drill, stage: Stage, control: Control | None, seconds: float, look: Callable[[], None]
    ) -> None:
        self._drill, self._stage, self._control, self._look = drill, stage, control, look
        self._failures: list[str] = []
        self._met: list[str] = []
        run = f"{drill.name}-{uuid.uuid4().hex[:8]}"
        self._sight = Sight(stage.database_url, run)
        folder = stage.runs / run
        folder.mkdir(parents=True)
        self._ground = Ground(
            run=run,
            seconds=seconds,
            services=stage.services,
            environ=stage.environ(),
            folder=folder,
            plan=drill.fleet,
            guard=None if control is None else control.guard,
            sight=self._sight,
            load=Load(drill.load, run, stage.database_url),
            queues=stage.queues,
            sends_to=stage.environ(),
            look=look,
        )

    def report(self) -> Report:
        """Go through it all."""
        began = time.monotonic()
        with ExitStack() as ends:
            ends.callback(self._sight.close)
            ends.callback(self._clear)
            ends.enter_context(self._surroundings())
            ends.enter_context(smena.connect(load(env=self._ground.sends_to)))
            self._under_load()
            self._end_fleets()
            verdict, left_over = judge(self._sight), self._left_over()
        ground = self._ground
        self._judge(verdict, left_over)
        seconds = time.monotonic() - began
        return Report(
            self._drill.name,
            ground.run,
            self._control,
            ground.bite,
            verdict,
            ground.recover_s,
            left_over,
            seconds,
            ground.bars,
            ground.notes,
            self._failures,
        )

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        around = self._drill.around or _nothing
        with around(self._ground) as settings:
            self._ground.environ = {**self._ground.environ, **settings}
            yield

    def _under_load(self) -> None:
        """Start the fleet and its load, make the fault, and wait until every job has ended."""
        ground = self._ground
        try:
            fleet = ground.new_fleet()
            fleet.start()
            fleet.wait_ready()
            ground.load.start()
            self._drill.fault(ground)
            ground.go_on(ground.seconds)
        except SmenaError as error:
            self._met.append(str(error))
        if not ground.load.finish(Deadline.within(_ACCEPT_S, SYSTEM)):
            self._met.append(f"jobs were left that nobody accepted: {ground.load.trouble}")
        self._await_stillness()

    def _await_stillness(self) -> None:
        """Wait until every accepted job has ended, or nothing moves any more."""
        still_s = _STILL_S if self._control is None else _STILL_UNGUARDED_S
        seen: object = None
        moved_at = time.monotonic()
        while time.monotonic() - moved_at < still_s:
            self._look()
            accepted, effects, dead, unsent = self._sight.standing()
            running = self._sight.running()
            if accepted <= effects + dead and not running and not unsent:
                return
            now = (accepted, effects, dead, unsent, running)
            if now != seen:
                seen, moved_at = now, time.monotonic()
            time.sleep(_LOOK_S)

    def _end_fleets(self) -> None:
        for fleet in self._ground.fleets:
            if not fleet.has_ended:
                self._end(fleet)

    def _end(self, fleet: Fleet) -> None:
        try:
            fleet.tell(signal.SIGTERM)
            code = fleet.wait_exit(_END_S)
            if code != 0:
                self._met.append(f"the fleet ended with {code}: {fleet.complaint()}")
        except FleetFailed as failure:
            self._met.append(str(failure))

    def _left_over(self) -> int:
        """Count what is left of jobs in queues and outbox, of sessions, and of processes."""
        view = self._ground.queues()
        try:
            messages = view.left()
        finally:
            view.close()
        processes = sum(len(fleet.members()) for fleet in self._ground.fleets)
        return messages + processes + left_in_database(self._sight, sessions=not self._stage.given)

    def _judge(self, verdict: Verdict, left_over: int) -> None:
        ground = self._ground
        if ground.bite < self._drill.least_bite:
            self._failures.append(f"the fault hit {ground.bite} jobs; under {self._drill.least_bite} it proves nothing")
        if self._control is not None:
            found = {*verdict.faults(), *(bar.name for bar in ground.bars if not bar.holds)}
            if self._control.must_be not in found:
                self._failures.append(f"without its guard nothing was {self._control.must_be}: the judge is blind")
            return
        self._failures += self._met
        self._failures += [f"jobs were {fault}" for fault in sorted(verdict.faults())]
        self._failures += [f"the bar does not hold: {bar}" for bar in ground.bars if not bar.holds]
        if left_over:
            self._failures.append(f"{left_over} messages, rows, sessions or processes were left over")

    def _clear(self) -> None:
        """Leave nothing for the next drill, whatever happened in this one."""
        self._ground.load.stop(Deadline.within(5, SYSTEM))
        for fleet in self._ground.fleets:
            fleet.destroy()
        view = self._ground.queues()
        try:
            view.purge()
        finally:
            view.close()


def _nothing(_ground: Ground) -> AbstractContextManager[Mapping[str, str]]:
    return nullcontext({})
