"""Wait for sockets, timers and calls from other threads, on one thread.

An I/O loop in the shape that pika takes as `custom_ioloop`. It differs from pika's own where that was
measured to matter beside worker threads that want the interpreter: other threads wake it at most once
however much they post, nothing is logged on the way, and what was written during a pass leaves in one
piece at its end. No exception of a callback ends it: it goes to ``on_error`` and the loop goes on.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pika.adapters.utils.selector_ioloop_adapter import AbstractSelectorIOLoop

from smena.clock import Clock

_LONGEST_POLL_S: Final = 0.5
"""The loop turns at least that often, so that its tick tells a watcher that it lives."""


class Timer:
    """A call that is due; ``callback`` is None once it was made or cancelled."""

    __slots__ = ("callback", "due_s", "number")

    def __init__(self, due_s: float, number: int, callback: Callable[[], object]) -> None:
        self.due_s = due_s
        self.number = number
        self.callback: Callable[[], object] | None = callback

    def __lt__(self, other: Timer) -> bool:
        return (self.due_s, self.number) < (other.due_s, other.number)


class Loop(AbstractSelectorIOLoop):  # type: ignore[misc]  # pika is untyped
    """See the module; all but `add_callback` and `stop` belong to the thread that runs it."""

    READ: Final = select.POLLIN
    WRITE: Final = select.POLLOUT
    ERROR: Final = select.POLLERR | select.POLLHUP

    def __init__(self, clock: Clock, on_error: Callable[[BaseException], None]) -> None:
        self.tick = 0
        self._clock = clock
        self._on_error = on_error
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[int, int], None]] = {}
        self._timers: list[Timer] = []
        self._numbers = itertools.count()
        self._posted: deque[Callable[[], object]] = deque()
        self._ending: list[Callable[[], object]] = []
        self._awake = False
        self._stopping = False
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._closing = threading.Lock()
        self._poll.register(self._wake_in, select.POLLIN)

    # --- from any thread --------------------------------------------------------------------

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` called on the loop's thread soon; wake it only if nobody has yet."""
        self._posted.append(callback)
        if not self._awake:
            self._awake = True
            self._wake()

    def stop(self) -> None:
        """Let the loop end after this pass."""
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        with self._closing:
            if self._wake_out >= 0:
                try:
                    os.write(self._wake_out, b"w")
                except BlockingIOError:
                    return  # a full pipe wakes as well

    # --- on the loop's thread ---------------------------------------------------------------

    def start(self) -> None:
        """Run until `stop`."""
        while not self._stopping:
            # Order matters: whoever posts after this line wakes us; whoever posted before is seen below.
            self._awake = False
            ready = self._poll.poll(self._wait_ms())
            self._awake = True
            self.tick += 1
            self._pass(ready)

    def _pass(self, ready: list[tuple[int, int]]) -> None:
        for fd, mask in ready:
            if fd == self._wake_in:
                os.read(fd, 4096)
            elif (handler := self._handlers.get(fd)) is not None:
                self._call(partial(handler, fd, mask))
        self._call_due()
        for _ in range(len(self._posted)):  # what these post waits for the next pass, so that sockets get their turn
            self._call(self._posted.popleft())
        while self._ending:
            ending, self._ending = self._ending, []
            for callback in ending:
                self._call(callback)

    def at_end_of_pass(self, callback: Callable[[], object]) -> None:
        """Call once after all that is ready now was served."""
        self._ending.append(callback)

    def call_later(self, delay: float, callback: Callable[[], object]) -> Timer:
        """Call after ``delay`` seconds unless cancelled."""
        timer = Timer(self._clock.monotonic() + delay, next(self._numbers), callback)
        heapq.heappush(self._timers, timer)
        return timer

    def remove_timeout(self, timeout_handle: Timer) -> None:
        """Cancel; may be called late or twice."""
        timeout_handle.callback = None

    def add_handler(self, fd: int, handler: Callable[[int, int], None], events: int) -> None:
        """Watch a file descriptor."""
        self._handlers[fd] = handler
        self._poll.register(fd, events)

    def update_handler(self, fd: int, events: int) -> None:
        """Watch it for other events."""
        self._poll.modify(fd, events)

    def remove_handler(self, fd: int) -> None:
        """Watch it no more."""
        del self._handlers[fd]
        self._poll.unregister(fd)

    def close(self) -> None:
        """Let go of the pipe; after the thread has ended."""
        with self._closing:
            os.close(self._wake_in)
            os.close(self._wake_out)
            self._wake_in = self._wake_out = -1

    def _wait_ms(self) -> float:
        if self._posted or self._stopping:
            return 0
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return _LONGEST_POLL_S * 1000
        wait_s = self._timers[0].due_s - self._clock.monotonic()
        # poll rounds down to whole milliseconds; a little late beats a spin until it is due
        return max(0.0, min(wait_s, _LONGEST_POLL_S)) * 1000 + 0.999

    def _call_due(self) -> None:
        now = self._clock.monotonic() if self._timers else 0.0
        while self._timers and self._timers[0].due_s <= now:
            callback = heapq.heappop(self._timers).callback
            if callback is not None:
                self._call(callback)

    def _call(self, callback: Callable[[], Any]) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001  (the seam: one bad callback must not end the link)
            self._on_error(error)
