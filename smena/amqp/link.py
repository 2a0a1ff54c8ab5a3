"""Keep a process's connections to RabbitMQ, on one thread.

`LinkThread` is that thread: an I/O loop that both connections of a process share. Python work cannot
starve its heartbeats, C code that holds the interpreter can. `Connection` is one of them: it comes up by
itself, tries the addresses in turn, and comes back after a jittered pause. Each time it is up counts as an
`epoch`; nothing of an older epoch (a channel, a delivery tag) means anything in a newer one.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import pika
from pika.channel import Channel

from smena.amqp.faults import why_lost
from smena.amqp.frames import Tap
from smena.amqp.loop import Loop
from smena.amqp.stream import Stream, Streams
from smena.backoff import Backoff, Pause
from smena.clock import SYSTEM, Clock, Deadline
from smena.errors import Misconfigured
from smena.settings.groups import Amqp
from smena.telemetry import events
from smena.telemetry.plain_text import error_text

_PIKA_LOG = logging.getLogger("pika")
_CLOSE_POLITELY_S = 1.0
"""So long a healthy connection may take to say good-bye; a blocked one gets no time at all."""

_PATIENCE = 4
"""An attempt may take so many connect timeouts (a name may have several addresses); then it is given up."""


class LinkThread:
    """One thread with an I/O loop. A service."""

    def __init__(self, name: str = "link", clock: Clock = SYSTEM) -> None:
        self.name = name
        self.clock = clock
        self.loop = Loop(clock, self._failed)
        self._thread = threading.Thread(target=self.loop.start, name=name, daemon=True)

    @property
    def tick(self) -> int:
        """Return a number that grows at least twice a second while the thread lives."""
        return self.loop.tick

    def post(self, call: Callable[[], object]) -> None:
        """Have ``call`` made on the link thread soon; from any thread, cheap, in the order of posting."""
        self.loop.add_callback(call)

    def is_current(self) -> bool:
        """Say whether the caller runs on the link thread, where nothing may wait."""
        return threading.get_ident() == self._thread.ident

    def start(self) -> None:
        """Start the thread; a second call does nothing.

        Silences pika's own log unless somebody has set its level: it tells of each lost connection in seven
        lines of error, the event `link.lost` in one.
        """
        if _PIKA_LOG.level == logging.NOTSET:
            _PIKA_LOG.setLevel(logging.CRITICAL)
        if self._thread.ident is None:
            self._thread.start()

    def stop(self, deadline: Deadline) -> bool:
        """End the loop and join the thread; its connections are stopped before."""
        self.loop.stop()
        if self._thread.ident is not None:
            self._thread.join(deadline.left_s())
            if self._thread.is_alive():
                return False
        self.loop.close()
        return True

    def _failed(self, error: BaseException) -> None:
        events.loop_failed(self.name, error)


class Listener(Protocol):
    """Who works on a connection: told on the link thread, in the order of `listen`."""

    def connection_up(self) -> None:
        """Open channels: a new epoch has begun."""

    def connection_down(self, reason: str) -> None:
        """Forget channels and tags: the epoch is over."""

    def connection_unblocked(self) -> None:
        """Go on publishing: the broker's alarm has ended."""


class Connection:
    """One connection of the process, kept up. A service; all other methods belong to the link thread.

    ``start`` does not wait for the broker: a process boots, says so, and works once it is reached.
    """

    def __init__(self, thread: LinkThread, settings: Amqp, name: str) -> None:
        self.name = name
        self.thread = thread
        self.settings = settings
        self.epoch = 0
        self.is_up = False
        self.blocked = False
        self.last_error: BaseException | None = None
        self._parameters = _parameters(settings, name)
        self._next = random.randrange(len(self._parameters))  # noqa: S311  (spreads clients over the nodes)
        self._pause = Pause(Backoff(base_s=0.1, cap_s=settings.reconnect_cap_s, floor_s=0.02))
        self._listeners: list[Listener] = []
        self.is_stopping = False
        self._ended = threading.Event()
        self._came_up = threading.Event()
        self._pika: Any = None
        self._tap = Tap()
        self._stream: Stream | None = None
        self._blocked_at_s = 0.0
        self._attempt = 0

    # --- from any thread ----------------------------------------------------------------------

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` of ups and downs, and of an up that has been; from any thread."""
        self.thread.post(lambda: self._add(listener))

    def start(self) -> None:
        """Begin to connect."""
        self.thread.post(self._connect)

    def wait_up(self, timeout_s: float) -> bool:
        """Wait until the connection has been up once; say whether it has."""
        return self._came_up.wait(timeout_s)

    def why_down(self) -> str:
        """Say where it tried to connect last and why that failed, for an error that a person reads."""
        reason = "no answer yet" if self.last_error is None else why_lost(self.last_error)
        return f"{'' if self.epoch else 'never connected; '}{self._place()['node']}: {reason}"

    def stop(self, deadline: Deadline) -> bool:
        """Close; a connection that is blocked or does not answer is dropped."""
        self.thread.post(self._begin_stop)
        if not self._ended.wait(min(_CLOSE_POLITELY_S, deadline.left_s())):
            self.thread.post(self.drop)
            self._ended.wait(deadline.left_s())
        return self._ended.is_set()

    def send(self, frames: bytes) -> None:
        """Send whole frames now; the caller knows that the epoch for which they were made still stands."""
        if frames and self._stream is not None:
            self._stream.send(frames)

    # --- on the link thread -------------------------------------------------------------------

    def open_channel(self, on_open: Callable[[Channel], None]) -> None:
        """Open a channel on this epoch's connection; ``on_open`` is called only if it still stands.

        pika ends the channels of a lost connection before it tells of the loss, so who opens one anew then asks a
        connection that is closed; `connection_down` comes next. An error here would keep pika from telling it.
        """
        if self._pika.is_open:
            self._pika.channel(on_open_callback=on_open)

    @property
    def tap(self) -> Tap:
        """Return this epoch's tap, where a channel's owner puts its sink."""
        return self._tap

    @property
    def body_max(self) -> int:
        """Return how many bytes of a body one frame may carry."""
        return int(self._pika.params.frame_max) - 8

    @property
    def server_version(self) -> str:
        """Return the version that the broker gave of itself; once the connection is up."""
        version = self._pika.server_properties.get("version", "of unknown version")
        return version.decode() if isinstance(version, bytes) else str(version)

    def write(self, frames: bytes) -> None:
        """Send whole frames at the end of this pass of the loop."""
        if self._stream is not None:
            self._stream.write(frames)

    def drop(self, why: str = "dropped by us") -> None:
        """Close the socket hard; all that is unacked is back with the broker at once."""
        if self._stream is not None and not self._stream.closed:
            self._stream.drop(ConnectionAbortedError(why))
        elif self.is_stopping:
            self._ended.set()

    def _add(self, listener: Listener) -> None:
        self._listeners.append(listener)
        if self.is_up:
            listener.connection_up()

    def _connect(self) -> None:
        if self.is_stopping:
            self._ended.set()
            return
        self._attempt += 1
        attempt = self._attempt
        parameters = self._parameters[self._next % len(self._parameters)]
        self._next += 1
        self._stream = None
        self._tap = Tap()
        patience_s = _PATIENCE * self.settings.connect_timeout_s
        self.thread.loop.call_later(patience_s, partial(self._lose_patience, attempt))
        self._pika = pika.SelectConnection(
            parameters,
            on_open_callback=partial(self._opened, attempt),
            on_open_error_callback=partial(self._closed, attempt),
            on_close_callback=partial(self._closed, attempt),
            custom_ioloop=Streams(self.thread.loop, partial(self._meet, attempt), self._tap.receive),
        )

    def _meet(self, attempt: int, stream: Stream, protocol: Any) -> None:
        if attempt != self._attempt:
            raise ConnectionAbortedError("this attempt was given up")
        self._tap.forward = protocol.data_received
        self._tap.owner = self._pika
        self._stream = stream

    def _lose_patience(self, attempt: int) -> None:
        """Give up an attempt of which pika never told the end, whatever has become of it."""
        if attempt == self._attempt and not self.is_up:
            if self._stream is not None:
                self._stream.drop(ConnectionAbortedError("no handshake in time"))
            self._closed(attempt, self._pika, TimeoutError("no end of the attempt to connect"))

    def _opened(self, attempt: int, connection: Any) -> None:
        if self.is_stopping or attempt != self._attempt:
            connection.close()
            return
        self._pause.reset()
        self.epoch += 1
        self.is_up = True
        self.blocked = False
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        events.emit(events.LINK_CONNECTED, **self._place(), epoch=self.epoch)
        for listener in self._listeners:
            listener.connection_up()
        self._came_up.set()

    def _closed(self, attempt: int, _connection: Any, error: BaseException) -> None:
        if attempt != self._attempt:
            return
        self._attempt += 1
        was_up, self.is_up = self.is_up, False
        self.blocked = False
        self.last_error = error
        reason = why_lost(error)
        if was_up:
            for listener in self._listeners:
                listener.connection_down(reason)
        if self.is_stopping:
            self._ended.set()
            return
        retry_s = self._pause.next_s()
        events.emit(events.LINK_LOST, **self._place(), retry_s=retry_s, error=reason)
        self.thread.loop.call_later(retry_s, self._connect)

    def _on_blocked(self, _connection: Any, frame: Any) -> None:
        self.blocked = True
        self._blocked_at_s = self.thread.clock.monotonic()
        events.emit(events.LINK_BLOCKED, **self._place(), why=str(frame.method.reason))

    def _on_unblocked(self, _connection: Any, _frame: Any) -> None:
        self.blocked = False
        after_s = self.thread.clock.monotonic() - self._blocked_at_s
        events.emit(events.LINK_UNBLOCKED, **self._place(), after_s=after_s)
        for listener in self._listeners:
            listener.connection_unblocked()

    def _place(self) -> dict[str, Any]:
        parameters = self._parameters[(self._next - 1) % len(self._parameters)]
        return {"connection": self.name, "node": f"{parameters.host}:{parameters.port}"}

    def _begin_stop(self) -> None:
        self.is_stopping = True
        # pika 1.x fails an assertion of its own when it is asked to close in the middle of the handshake.
        shakes_hands = not self.is_up and self._stream is not None
        if self._pika is None or self._pika.is_closed or self.blocked or shakes_hands:
            self.drop()
        elif not self._pika.is_closing:
            self._pika.close()


def _parameters(settings: Amqp, name: str) -> Sequence[pika.URLParameters]:
    made = []
    for url in settings.required_urls():
        try:
            parameters = pika.URLParameters(url)
        except ValueError as error:  # of a value after the question mark, which it names; the password stands before
            raise Misconfigured(f"amqp.urls: {error_text(error)}") from None
        parameters.heartbeat = settings.heartbeat_s
        parameters.blocked_connection_timeout = None  # blocking is waited out, each publish has its deadline
        parameters.socket_timeout = settings.connect_timeout_s
        parameters.stack_timeout = settings.connect_timeout_s
        parameters.connection_attempts = 1
        parameters.client_properties = {"connection_name": name}
        made.append(parameters)
    return made
