"""Run suspects apart from everybody else, until it is known which one kills.

Suspects of one death are split in halves, each half runs in a fresh process (`Cell`), and the half that dies is split
again, at last into single ones: so one poison message kills at most 1 + ceil(log2(n)) processes, n being how many ran
beside it, itself included (2 where it was alone). Whoever returns or raises is cleared and settled with just that.
Who dies alone is dead: `crashed`, with the evidence. The worker that holds the messages is never at risk.

What cannot be tried now (no process can be had) waits; a drain hands back what has not begun and waits for the rest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from smena.clock import Clock, Deadline
from smena.errors import Crashed, PoolBroken
from smena.lifecycle import Loop
from smena.records.asked import Attempt as AttemptKey
from smena.records.strike import Strike, Why
from smena.telemetry import events
from smena.telemetry.metric import JOBS, SUSPECTS
from smena.telemetry.tally import Board
from workers.execution.cell import Cell, Death, Suspect
from workers.execution.cell_frames import Answer, Talk
from workers.execution.inquest import Own
from workers.execution.pool_process import Ending, Server
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import Evidence, Reported, of_crash
from workers.middleware.outcome import Dead, Retry, Snooze
from workers.process.orders import Orders
from workers.process.recorder import Running

MOST_CELLS: Final = 12
"""Cells of one worker at a time: while the innocent of 1,000 run on apart, the eleven steps to the one that is not."""
GATHER_S: Final = 0.05
"""How long the suspects of one death are waited for before they are split."""
IDLE_S: Final = 0.5
SERVER_KEPT_S: Final = 60.0
"""How long the program that forks cells is kept when there is nobody to try."""
_BOOT_LOOK_S: Final = 0.1

_UNTOLD: Final = Evidence("", "", "", "")
_OUTCOMES: Final = {"acked": "done", "back": "returned", "retry": "retry", "snooze": "snooze", "dead": "dead"}

Group = tuple[Suspect, ...]

Convict = Callable[[Attempt, Why], None]
"""Settle a delivery as an attempt that ran out of time."""


class Settles(Protocol):
    """What the quarantine needs of the settler."""

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over the delivery; never waits and never raises."""


class Register(Protocol):
    """Where strikes are written down."""

    def bury(self, life: str, found: Sequence[Strike]) -> None:
        """Write what a dead process leaves behind."""

    def clear(self, attempts: Sequence[AttemptKey]) -> None:
        """Hold nothing against these attempts any more."""


class Quarantine(Loop):
    """The suspects of one worker process: those that wait, and those in cells. A service and a runner."""

    def __init__(
        self,
        launch: Callable[[], Server],
        orders: Orders,
        own: Own,
        settler: Settles,
        convict: Convict,
        register: Register,
        board: Board,
        clock: Clock,
    ) -> None:
        super().__init__("quarantine", self._round, events.loop_failed)
        self._launch = launch
        self._orders = orders
        self._own = own
        self._settler = settler
        self._convict_as = convict
        self._register = register
        self._board = board
        self._clock = clock
        self._arrived: deque[Suspect] = deque()
        self._groups: deque[Group] = deque()
        self._cells: dict[Cell, threading.Thread] = {}
        self._changing = threading.Lock()
        self._serving = threading.Lock()
        self._server: Server | None = None
        self._needed_s = 0.0
        self._cue = threading.Event()
        self._over = threading.Event()

    def put(self, attempt: Attempt, strikes: Sequence[Strike]) -> None:
        """Take a suspect; from any thread. After `hand_back` it goes back to the broker."""
        if self._over.is_set():
            attempt.delivery.give_back()
            return
        self._arrived.append(Suspect(attempt, strikes))
        self._cue.set()

    def waiting(self) -> int:
        """Return how many have not begun."""
        return len(self._arrived) + sum(map(len, self._groups))

    def running(self) -> int:
        """Return how many are in cells."""
        return sum(len(cell.left) for cell in list(self._cells))

    def hand_back(self) -> int:
        """Give what has not begun back to the broker; return how many."""
        self._over.set()
        self.ask_to_stop()
        self._cue.set()
        with self._changing:
            waiting = [*self._arrived, *(suspect for group in self._groups for suspect in group)]
            self._arrived.clear()
            self._groups.clear()
        for suspect in waiting:
            suspect.attempt.delivery.give_back()
        return len(waiting)

    def finish(self, deadline: Deadline) -> bool:
        """Hand back what waits and wait for the cells; what is left at the deadline goes back as it came."""
        self.hand_back()
        ended = super().stop(deadline)
        for thread in list(self._cells.values()):
            thread.join(deadline.left_s())
        late = dict(self._cells)
        for cell in late:
            cell.kill()
        for thread in late.values():
            thread.join(2.0)
        self.hand_back()
        return ended and not late

    def stop(self, deadline: Deadline) -> bool:
        """Finish, and end the program that forks cells."""
        ended = self.finish(deadline)
        self._end_server()
        return ended

    # --- the loop ---------------------------------------------------------------------------------

    def _round(self, stopping: threading.Event) -> None:
        self._cue.wait(IDLE_S)
        self._cue.clear()
        if self._arrived:
            stopping.wait(GATHER_S)
            self._sort()
        if self._groups or self._cells:
            self._needed_s = self._clock.monotonic()
        elif self._clock.monotonic() - self._needed_s > SERVER_KEPT_S:
            self._end_server()
        while self._groups and len(self._cells) < MOST_CELLS and not stopping.is_set():
            if not self._is_up(stopping):
                return
            self._begin()

    def _sort(self) -> None:
        """Put together those that died together last, in halves."""
        with self._changing:
            deaths: dict[str, list[Suspect]] = {}
            while self._arrived:
                suspect = self._arrived.popleft()
                deaths.setdefault(suspect.strikes[-1].life, []).append(suspect)
            for group in deaths.values():
                self._groups += halves(group)

    def _is_up(self, stopping: threading.Event) -> bool:
        """Wait for the program that forks cells; a start that fails rises, and is tried again after a pause."""
        with self._serving:
            if self._server is not None and not self._server.lives():
                self._server.stop()
                self._server = None
            if self._server is None:
                self._server = self._launch()
            try:
                while not self._server.is_up(_BOOT_LOOK_S):
                    if stopping.is_set():
                        return False
            except PoolBroken:
                self._server.stop()
                self._server = None
                raise
        return True

    def _begin(self) -> None:
        with self._serving:
            assert self._server is not None  # noqa: S101 - `_is_up` has just said so
            pid, line, mark = self._server.bear()
        mark.close()
        line.settimeout(None)
        with self._changing:
            if not self._groups:  # handed back meanwhile
                line.close()
                return
            cell = Cell(pid, Talk(line), self._orders, self._groups.popleft())
        thread = threading.Thread(target=self._hold, args=(cell,), name=f"cell-{pid}", daemon=True)
        self._cells[cell] = thread
        thread.start()

    def _end_server(self) -> None:
        with self._serving:
            if self._server is not None:
                self._server.stop()
                self._server = None

    # --- one cell, on a thread of its own ------------------------------------------------------------

    def _hold(self, cell: Cell) -> None:
        try:
            cell.hold(self._settle)
            death = cell.end(self._reap)
            if cell.stuck is not None:
                self._convict(cell.stuck)
                self._try_again(cell)
            elif death is not None:
                self._after(cell, death)
        except Exception as error:  # noqa: BLE001 - the seam of this thread: its suspects go back as they came
            events.loop_failed(self.name, error)
            cell.kill()
            self._return(cell.left.values())
        finally:
            del self._cells[cell]
            self._cue.set()

    def _reap(self, pid: int) -> Ending:
        with self._serving:
            return self._server.reap(pid) if self._server is not None else Ending()

    def _settle(self, suspect: Suspect, answer: Answer) -> None:
        """Settle a delivery as the cell did."""
        attempt = suspect.attempt
        error = None if answer.evidence is None else Reported(answer.evidence)
        match answer.what:
            case "acked":
                attempt.delivery.ack()
            case "back":
                attempt.delivery.give_back()
            case "retry":
                self._settler.settle(attempt, Retry(answer.delay_s, error or Reported(_UNTOLD)))
            case "snooze":
                self._settler.settle(attempt, Snooze(answer.delay_s, answer.why))
            case "dead":
                self._settler.settle(attempt, Dead(answer.why, error))
        self._board.add(JOBS, attempt.actor.name, _OUTCOMES[answer.what])
        if answer.what not in ("back", "snooze"):
            self._cleared(suspect)

    def _convict(self, suspect: Suspect) -> None:
        """Settle the one that went on when its time was up; its process is dead."""
        job = suspect.attempt.job
        self._convict_as(suspect.attempt, "hard_limit")
        self._board.add(SUSPECTS, suspect.attempt.actor.name, "convicted")
        try:
            self._register.clear([(job.id, job.attempt)])
        except Exception as error:  # noqa: BLE001 - as above
            events.loop_failed(self.name, error)

    def _cleared(self, suspect: Suspect) -> None:
        self._board.add(SUSPECTS, suspect.attempt.actor.name, "cleared")
        try:
            self._register.clear([suspect.key])
        except Exception as error:  # noqa: BLE001 - a strike that stands costs a second copy a fresh process
            events.loop_failed(self.name, error)

    def _after(self, cell: Cell, death: Death) -> None:
        """Say what follows from a cell's death for those in it that had not answered."""
        left = {suspect.key: suspect for suspect in cell.left.values()}
        ran = {(job.job_id, job.attempt): job for job in death.ran if (job.job_id, job.attempt) in left}
        if cell.condemned:
            self._return(cell.left.values())
            return
        if not ran:  # it could not even boot
            self._over.wait(IDLE_S)
            self._try_again(cell)
            return
        blamed = [job for job in death.blamed if (job.job_id, job.attempt) in ran]
        struck = {key: ran[key] for key in ({_of(blamed[0])} if len(blamed) == 1 else ran)}
        strikes = {key: self._strike(cell, job, death, len(ran), len(blamed) == 1) for key, job in struck.items()}
        self._write(cell.life, list(strikes.values()))
        if len(cell.suspects) == 1:
            ((key, strike),) = strikes.items()
            self._crashed(left[key], strike)
            return
        with self._changing:
            self._groups += halves([left[key].struck_again(strike) for key, strike in strikes.items()])
            if others := tuple(suspect for key, suspect in left.items() if key not in struck):
                self._groups.append(others)
        self._hand_back_if_over()

    def _try_again(self, cell: Cell) -> None:
        """Try those again, apart, against whom the cell's end says nothing."""
        with self._changing:
            self._groups += [tuple(cell.left.values())] if cell.left else []
        self._hand_back_if_over()

    def _crashed(self, suspect: Suspect, strike: Strike) -> None:
        job, actor = suspect.attempt.job, suspect.attempt.actor.name
        facts: dict[str, Any] = {"how": strike.how, "peak_mib": strike.peak_mib, "ran_s": strike.ran_s}
        error = Crashed(**facts, processes=len(suspect.strikes) + 1)
        last_words = "\n".join(filter(None, (strike.stack, strike.lines)))
        self._board.add(SUSPECTS, actor, "crashed")
        self._board.add(JOBS, actor, "dead")
        events.emit(
            events.JOB_CRASHED,
            job=job.id,
            actor=actor,
            queue=job.queue,
            attempt=job.attempt,
            request_id=job.request_id,
            **facts,
        )
        evidence = of_crash(error, f"{error.code}@{actor}@{strike.how}", last_words)
        self._settler.settle(suspect.attempt, Dead(error.code, Reported(evidence)))

    def _strike(self, cell: Cell, job: Running, death: Death, beside: int, is_blamed: bool) -> Strike:
        return Strike(
            job_id=job.job_id,
            attempt=job.attempt,
            life=cell.life,
            actor=job.actor,
            why="fault" if is_blamed else "suspected",
            beside=beside,
            how=death.ending.how,
            peak_mib=death.ending.peak_mib,
            ran_s=round(max(0.0, self._clock.now_ms() / 1000 - job.since), 3),
            worker=f"{self._own.worker}-cell",
            host=self._own.host,
            lines=death.lines or None,
            stack=death.stack or None,
        )

    def _write(self, life: str, strikes: Sequence[Strike]) -> None:
        for strike in strikes:
            events.emit(
                events.JOB_STRUCK,
                job=strike.job_id,
                actor=strike.actor,
                attempt=strike.attempt,
                why=strike.why,
                how=strike.how,
                beside=strike.beside,
                peak_mib=strike.peak_mib,
                ran_s=strike.ran_s,
            )
        try:
            self._register.bury(life, strikes)
        except Exception as error:  # noqa: BLE001 - what is known here decides here; only the record is poorer
            events.loop_failed(self.name, error)

    def _hand_back_if_over(self) -> None:
        if self._over.is_set():
            self.hand_back()

    def _return(self, suspects: Iterable[Suspect]) -> None:
        for suspect in suspects:
            suspect.attempt.delivery.give_back()


def halves(group: Sequence[Suspect]) -> list[Group]:
    """Return a group in two halves, or a single one as it is."""
    middle = (len(group) + 1) // 2
    return [half for half in (tuple(group[:middle]), tuple(group[middle:])) if half]


def _of(job: Running) -> AttemptKey:
    return job.job_id, job.attempt
