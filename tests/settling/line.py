"""A process's connection to the broker in memory: what `Publisher` and `Consumer` need of a link, turned by hand.

Bytes that were written lie on the wire until the broker reads them; what it answers lies there until the process turns
its link. So a connection may be lost with either of them under way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from smena.amqp.frames import Tap
from smena.clock import Clock
from smena.settings.groups import Amqp
from smena.telemetry import events
from tests.settling.broker import Broker, Session, Settle, Written, parsed

_ANSWER: Final = SimpleNamespace(method=SimpleNamespace(message_count=0, consumer_count=2))


class Channel:
    """What pika's channel is to the code: declarations succeed at once."""

    def __init__(self, line: Line, session: Session) -> None:
        self.channel_number = session.number
        self._line = line
        self._session = session

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Take any declaration, binding or wish to be told, and answer where an answer is waited for."""

        def answered(*_given: object, callback: Callable[[object], None] | None = None, **_more: object) -> None:
            if callback is not None:
                self._line.post(lambda: callback(_ANSWER))

        return answered

    def basic_qos(self, prefetch_count: int) -> None:
        """Bound what is lent."""
        self._session.prefetch = prefetch_count

    def basic_consume(
        self,
        queue: str,
        on_message_callback: object,  # noqa: ARG002 - pika's signature
        consumer_tag: str,
        callback: Callable[[object], None],
    ) -> None:
        """Subscribe; deliveries are taken out of the stream, not given to the callback."""
        self._session.consumers[consumer_tag] = queue
        self._line.post(lambda: callback(None))

    def basic_cancel(self, consumer_tag: str, callback: Callable[[object], None]) -> None:
        """End a subscription."""
        self._session.consumers.pop(consumer_tag, None)
        self._line.post(lambda: callback(None))


class Line:
    """One connection; it is its own link thread and loop."""

    def __init__(self, broker: Broker, clock: Clock, on_effect: Callable[[str], None]) -> None:
        self.settings = Amqp()
        self.thread = self.loop = self
        self.clock = clock
        self.tap = Tap()
        self.is_up = self.blocked = self.is_stopping = self.is_severed = False
        self.last_error: BaseException | None = None
        self.body_max = 1 << 17
        self._broker = broker
        self._on_effect = on_effect
        self._listeners: list[Any] = []
        self._posted: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, Callable[[], object]]] = []
        self._sessions: dict[int, Session] = {}
        self._written: deque[tuple[Session, Written]] = deque()
        self._coming: deque[bytes] = deque()

    # --- what the code needs of a connection, its thread and its loop ---------------------------------

    def post(self, call: Callable[[], object]) -> None:
        """Have a call made when the link turns."""
        self._posted.append(call)

    def call_later(self, delay_s: float, call: Callable[[], object]) -> None:
        """Have a call made when that time has passed."""
        self._timers.append((self.clock.monotonic() + delay_s, call))

    def is_current(self) -> bool:
        """Say no: nothing here waits."""
        return False

    def listen(self, listener: Any) -> None:
        """Tell of ups and downs."""
        self._listeners.append(listener)

    def open_channel(self, on_open: Callable[[Any], None]) -> None:
        """Open a channel."""
        session = self._broker.open(len(self._sessions) + 1)
        self._sessions[session.number] = session
        channel = Channel(self, session)
        self.post(lambda: on_open(channel))

    def why_down(self) -> str:
        """Say it."""
        return "cut by the test"

    def write(self, data: bytes) -> None:
        """Put frames on the wire; an ack is judged at this moment, not when it is read."""
        if self.is_severed:
            return
        self._on_effect("frames to the broker")
        for number, frame in parsed(data):
            session = self._sessions[number]
            self._written.append((session, frame))
            if isinstance(frame, Settle):
                self._judge(session, frame)

    def _judge(self, session: Session, settle: Settle) -> None:
        """Have the messages judged that are acked by this; one for many passes over those that go back already."""
        if settle.give_back:
            session.given_back.add(settle.tag)
            return
        for tag, message in session.lent.items():
            is_meant = tag == settle.tag or (settle.multiple and tag < settle.tag)
            if is_meant and tag not in session.given_back:
                self._broker.on_settled(message)

    send = write
    """What leaves at once lies on the same wire."""

    def drop(self, why: str = "") -> None:  # noqa: ARG002 - pika is not told
        """Lose the connection, as the code wants it."""
        self.cut(was_read=True)

    # --- what the test does ---------------------------------------------------------------------------

    def up(self) -> None:
        """Connect."""
        self.tap = Tap()
        self.tap.owner = SimpleNamespace(bytes_received=0)
        self.is_up = True
        for listener in self._listeners:
            listener.connection_up()

    def turn(self) -> None:
        """Make one pass of the link: what has come, what is due, what was posted."""
        while self._coming:
            self._call(partial(self.tap.receive, self._coming.popleft()))
        now = self.clock.monotonic()
        due = [call for due_s, call in self._timers if due_s <= now]
        self._timers = [timer for timer in self._timers if timer[0] > now]
        for call in due:
            self._call(call)
        while self._posted:
            self._call(self._posted.popleft())

    def be_read(self) -> None:
        """Let the broker read all that was written, and answer."""
        while self._written:
            session, frame = self._written.popleft()
            self._coming.append(self._broker.read(session, frame))

    def take(self, most: int) -> None:
        """Let the broker deliver."""
        for session in self._sessions.values():
            self._coming.append(self._broker.deliver(session, most))

    def cut(self, *, was_read: bool, for_ever: bool = False) -> None:
        """Lose the connection, before or after the broker has read what was written; it comes up by itself."""
        if not self.is_up:
            return
        if was_read:
            self.be_read()
        self._written.clear()
        self._coming.clear()
        self.is_up = self.blocked = False
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            self._broker.end(session)
        if for_ever:
            self.is_severed = True
            return
        self.last_error = ConnectionResetError("cut by the test")
        for listener in self._listeners:
            listener.connection_down("cut by the test")
        self.post(self.up)

    def close(self) -> None:
        """Do nothing: it holds nothing."""

    def block(self, *, blocked: bool) -> None:
        """Raise or end an alarm."""
        was_blocked, self.blocked = self.blocked, blocked and self.is_up
        if was_blocked and not self.blocked:
            for listener in self._listeners:
                listener.connection_unblocked()

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - as the real loop does: one bad callback must not end the link
            events.loop_failed("link", error)
