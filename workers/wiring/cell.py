"""Load the books, fork cells for one worker, and be a cell: a worker process whose messages come from a worker.

The server (`server.py`) is started by the worker when there is the first suspect. A cell has threads, event loop, pool,
database and publisher of its own, and no consumer and no settler: it tells the worker what to settle.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from smena.amqp import codec
from smena.book import bound
from smena.clock import SYSTEM, Deadline
from smena.errors import Undecodable
from smena.lifecycle import Group
from smena.records.strike import Strike
from smena.settings import Settings
from smena.telemetry import events, logs
from workers.broker.delivery import Delivery
from workers.execution.cell_frames import Answer, Given, Named, Talk
from workers.execution.pace import Pace
from workers.execution.pool_server import HELLO, serve
from workers.execution.resources import OpenResources
from workers.execution.seat import Seat
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import of_error
from workers.middleware.outcome import Dead, Retry, Snooze
from workers.process import flightfile
from workers.process.faultfile import FaultFile
from workers.process.flightfile import Running
from workers.process.folder import FolderRefused
from workers.process.lastlines import LastLines
from workers.process.mishaps import Mishaps
from workers.process.orders import Orders
from workers.process.recorder import FlightRecorder
from workers.wiring import server
from workers.wiring.worker import WorkerProcess

_CLOSE_S: Final = 2.0


class Acks:
    """The tags of a cell's deliveries: the worker is told of each ack and each return."""

    alive = True

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def settle(self, tag: int) -> None:
        """Tell of an ack, or of a return if the number is negative."""
        _say(self._talk, Answer(abs(tag), "acked" if tag > 0 else "back"))


class Outcomes:
    """The settler of a cell: the worker is told of what it is to make durable."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Tell of it; an ack is none of this process's business then."""
        number = attempt.delivery.tag
        match outcome:
            case Retry(delay_s, error):
                _say(self._talk, Answer(number, "retry", delay_s, "", of_error(error, "")))
            case Snooze(delay_s, why):
                _say(self._talk, Answer(number, "snooze", delay_s, why))
            case Dead(reason, error):
                _say(self._talk, Answer(number, "dead", 0.0, reason, of_error(error, reason)))


def _say(talk: Talk, answer: Answer) -> None:
    with contextlib.suppress(OSError):  # the worker is gone, and this process with it
        talk.send(answer)


class Inmate:
    """What a cell has in place of a child's line to the supervisor."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.name = f"{orders.name()}-cell"
        self.mishaps = Mishaps(lambda _error: None, self._running)  # it ends with its suspects anyway
        self._recorder: FlightRecorder | None = None
        self._fault_file = FaultFile(orders.file(os.getpid(), "fault"))

    def recorder(self, slots: int) -> FlightRecorder:
        """Make its flight recorder; the worker reads and removes the file."""
        self._recorder = FlightRecorder(self.orders.file(os.getpid(), "flight"), slots)
        return self._recorder

    def is_stuck_with(self, job_id: str, actor: str, attempt: int, slot: int) -> None:
        """Do nothing: the worker is told."""

    def on_struck(self, told: Callable[[Sequence[Strike]], object]) -> None:
        """Be told nothing: whoever comes here is suspected already."""

    def _running(self) -> list[Running]:
        try:
            return [] if self._recorder is None else flightfile.read(self._recorder.path)
        except OSError:  # out of descriptors
            return []


class CellProcess(WorkerProcess):
    """The parts of a worker process that run jobs."""

    def __init__(self, settings: Settings, inmate: Inmate, talk: Talk) -> None:
        self._talk = talk
        self._acks = Acks(talk)
        super().__init__(settings, inmate)

    def live(self) -> None:
        """Run what comes until the worker says no more, then close in order."""
        group = Group(
            "cell",
            [
                self._link,
                self._publishing,
                self._publisher,
                *([] if self._keeper is None else [self._keeper]),
                self._pool,
                self._slots,
                self._coroutines,
                *self._watches,
                self._time_watch,
                OpenResources(self._registry.resources, self._coroutines),
                Pace(self._seats, lambda _finished, _busy_s: None, lambda: self._link.tick, self._recorder),
            ],
            self._closing,
        )
        group.start()
        while (frame := self._talk.receive()) is not None:
            if isinstance(frame, Given):
                self._take(frame)
        group.stop(self._closing())

    def _closing(self) -> Deadline:
        return Deadline.within(_CLOSE_S, SYSTEM)

    def _take(self, given: Given) -> None:
        redelivered, now, nowhere = True, SYSTEM.monotonic(), b"\0\0"
        told, header, number = given.body, given.header, given.number
        delivery = Delivery(given.queue, told, redelivered, now, header, nowhere, self._acks, number)
        try:
            job = codec.decode(delivery.body, delivery.properties, delivery.queue)
        except Undecodable:  # the worker could decode it
            delivery.give_back()
            return
        actor = self._actors.get(job.actor)
        if actor is None:
            delivery.give_back()
        else:
            self._start(Attempt(delivery, job, actor, given.turn))

    def _build_settling(self) -> None:
        self._settles = Outcomes(self._talk)

    def _build_intake(self) -> None:
        """Need none: the worker has sorted what comes."""

    def _is_stuck(self, seat: Seat, attempt: Attempt) -> None:  # noqa: ARG002 - the worker knows it by its number
        """Have this process ended, and the job settled as one that ran out of time."""
        _say(self._talk, Answer(attempt.delivery.tag, "stuck"))

    def _hold(self, reason: str, holding: bool) -> None:
        """Hold nobody back: what there is to run here is here."""


def fork_cells(orders: Orders, settings: Settings, line: socket.socket) -> None:
    """Serve until the worker is gone."""
    serve(line, lambda talk, _mark: _live(orders, settings, talk))


def _live(orders: Orders, settings: Settings, line: socket.socket) -> None:
    line.sendall(HELLO)
    try:
        _run_suspects(orders, settings, line)
    except FolderRefused as refusal:  # its suspects are tried again: without this line nobody would see why
        events.loop_failed("cell", refusal)


def _run_suspects(orders: Orders, settings: Settings, line: socket.socket) -> None:
    last_lines = LastLines(orders.file(os.getpid(), "lines")).writer()
    logs.configure(settings.telemetry, f"{orders.name()}-cell", profile=settings.profile, last_lines=last_lines)
    talk = Talk(line)
    named = talk.receive()
    if not isinstance(named, Named):  # the worker is gone
        return
    inmate = Inmate(msgspec.structs.replace(orders, life=named.life))
    inmate.mishaps.install()
    process = CellProcess(settings, inmate, talk)
    with bound(process.sender):
        process.live()


if __name__ == "__main__":
    sys.exit(server.main("cell", fork_cells))
