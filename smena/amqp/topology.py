"""Declare queues, exchanges and bindings on a connection, each once.

Declaring what is there is cheap and changes nothing, so everyone declares what he uses before he first
uses it. It happens on a channel of its own: a mismatch (406) closes that channel, and must not take a
consumer's deliveries or a publisher's confirms with it. All methods belong to the link thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from pika.channel import Channel

from smena.amqp import arguments
from smena.amqp.arguments import Binding, Declaration, Exchange, Queue
from smena.amqp.faults import refused_declaration
from smena.amqp.link import Connection
from smena.amqp.names import work_queue
from smena.errors import BrokerLost, SmenaError
from smena.telemetry import events

Done = Callable[[SmenaError | None], object]


class Task:
    """One plan that is being, or waits to be, declared, and who waits for it."""

    __slots__ = ("key", "plan", "step", "waiting")

    def __init__(self, key: Hashable, plan: Sequence[Declaration]) -> None:
        self.key = key
        self.plan = plan
        self.step = 0
        self.waiting: list[Done] = []


class Declarer:
    """Declare on one connection; what was declared is remembered for the epoch."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._channel: Channel | None = None
        self._opening = False
        self._busy = False
        self._done: set[Hashable] = set()
        self._unattended: set[str] = set()
        self._tasks: deque[Task] = deque()
        connection.listen(self)

    def knows(self, queue: str, *, delayed: bool = False) -> bool:
        """Say whether the queue (and the levels, and its binding to them) was declared in this epoch."""
        return (queue, delayed) in self._done

    def is_unattended(self, queue: str) -> bool:
        """Say whether nobody took from the queue when it was declared."""
        return work_queue(self._prefix, queue) in self._unattended

    def look_again(self, queue: str, done: Done) -> None:
        """Declare the queue once more, for `is_unattended`; ``done`` is called like that of `ensure`."""
        self.ensure((queue, "again"), arguments.work_queue(self._prefix, queue), done)

    def forget(self, queue: str) -> None:
        """Declare the queue again before its next use: it seems to be gone."""
        self._done.difference_update({(queue, False), (queue, True), "delays"})

    def forget_key(self, key: Hashable) -> None:
        """Declare the plan of this key again before its next use."""
        self._done.discard(key)

    def queue(self, queue: str, done: Done, *, delayed: bool = False) -> None:
        """Declare a work queue with its dead letters and, if ``delayed``, the levels and it as their target."""
        plan = arguments.work_queue(self._prefix, queue)
        if not delayed:
            self.ensure((queue, False), plan, done)
            return
        plan += arguments.delay_target(self._prefix, queue)

        def levels_declared(error: SmenaError | None) -> None:
            if error is None:
                self.ensure((queue, True), plan, done)
            else:
                done(error)

        self.ensure("delays", arguments.delays(self._prefix), levels_declared)

    def ensure(self, key: Hashable, plan: Sequence[Declaration], done: Done) -> None:
        """Declare a plan once under a key; ``done`` is called with None or why it cannot be."""
        if key in self._done:
            done(None)
            return
        task = next((task for task in self._tasks if task.key == key), None)
        if task is None:
            task = Task(key, plan)
            self._tasks.append(task)
        task.waiting.append(done)
        self._go_on()

    # --- told by the connection ---------------------------------------------------------------

    def connection_up(self) -> None:
        """Begin with what was asked for before."""
        self._go_on()

    def connection_down(self, reason: str) -> None:
        """Forget all; those who wait are told."""
        self._channel = None
        self._opening = self._busy = False
        self._done.clear()
        tasks, self._tasks = self._tasks, deque()
        for task in tasks:
            _tell(task, BrokerLost(reason))

    def connection_unblocked(self) -> None:
        """Do nothing: the broker answers what it has read by now."""

    # --- one after the other ------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._busy or not self._tasks or not self._connection.is_up:
            return
        if self._channel is not None:
            self._busy = True
            self._step(self._channel)
        elif not self._opening:
            self._opening = True
            self._connection.open_channel(self._opened)

    def _opened(self, channel: Channel) -> None:
        self._opening = False
        self._channel = channel
        channel.add_on_close_callback(self._closed)
        self._go_on()

    def _step(self, channel: Channel) -> None:
        task = self._tasks[0]
        if task.step == len(task.plan):
            self._done.add(task.key)
            self._finish(None)
            return
        _declare(channel, task.plan[task.step], lambda frame: self._stepped(channel, task, frame))

    def _stepped(self, channel: Channel, task: Task, frame: Any) -> None:
        declaration = task.plan[task.step]
        if isinstance(declaration, Queue):
            change = self._unattended.discard if frame.method.consumer_count else self._unattended.add
            change(declaration.name)
        if channel is self._channel and self._tasks and self._tasks[0] is task:
            task.step += 1
            self._step(channel)

    def _closed(self, channel: Channel, reason: BaseException) -> None:
        if channel is not self._channel or not self._connection.is_up:
            return
        self._channel = None
        if self._busy:
            task = self._tasks[0]
            declaration = task.plan[min(task.step, len(task.plan) - 1)]
            self._finish(refused_declaration(reason, _name(declaration)))

    def _finish(self, error: SmenaError | None) -> None:
        task = self._tasks.popleft()
        self._busy = False
        if error is None:
            events.emit(events.TOPOLOGY_DECLARED, queue=_name(task.plan[-1]))
        _tell(task, error)
        self._go_on()


def _declare(channel: Channel, declaration: Declaration, done: Callable[[Any], None]) -> None:
    match declaration:
        case Queue(name, given):
            channel.queue_declare(name, durable=True, arguments=dict(given), callback=done)
        case Exchange(name, kind, given):
            channel.exchange_declare(name, kind, durable=True, arguments=dict(given), callback=done)
        case Binding(source, target, key, to_exchange=True):
            channel.exchange_bind(target, source, key, callback=done)
        case Binding(source, target, key):
            channel.queue_bind(target, source, key, callback=done)


def _name(declaration: Declaration) -> str:
    return declaration.target if isinstance(declaration, Binding) else declaration.name


def _tell(task: Task, error: SmenaError | None) -> None:
    for done in task.waiting:
        done(error)
