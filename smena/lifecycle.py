"""Give every running thing one shape: start, started, stop.

A `Service` may be started once; stopping it twice, or before it was started, does nothing. Stopping
takes a `Deadline`, shared by all services of a group, and must return by then even if something hangs.
`Loop` is the usual service: one named thread that runs rounds until it is asked to stop.
`Group` starts services in order and stops them in reverse, under one deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from smena.backoff import Backoff, Pause
from smena.clock import Deadline


class Service(Protocol):
    """Something that runs between `start` and `stop`."""

    name: str

    def start(self) -> None:
        """Begin; return once the service can be used."""

    def stop(self, deadline: Deadline) -> bool:
        """End by the deadline; return whether everything has ended."""


class Loop:
    """A service that calls ``step(stopping)`` again and again on a thread of its own.

    ``step`` does one round and waits for its next cue itself, through the event it is handed.
    An exception out of ``step`` goes to ``on_error`` and the next round comes after a backoff: the
    loop never dies of a bad round. `tick` counts finished rounds; a liveness probe watches it move.
    Made to be inherited, so its own attributes are mangled: a subclass can hide none of them.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[threading.Event], None],
        on_error: Callable[[str, BaseException], None],
        backoff: Backoff | None = None,
    ) -> None:
        self.name = name
        self.tick = 0
        self.__step = step
        self.__on_error = on_error
        self.__pause = Pause(backoff or Backoff(base_s=0.1, cap_s=3.0, floor_s=0.05))
        self.__stopping = threading.Event()
        self.__starting = threading.Lock()
        self.__thread = threading.Thread(target=self.__run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; a second call does nothing, also when it comes at the same moment."""
        with self.__starting:
            if self.__thread.ident is None and not self.__stopping.is_set():
                self.__thread.start()

    def ask_to_stop(self) -> None:
        """Let the loop end after its current round, without waiting for it."""
        self.__stopping.set()

    def stop(self, deadline: Deadline) -> bool:
        """End the loop and join its thread."""
        self.__stopping.set()
        if self.__thread.ident is None or self.__thread is threading.current_thread():
            return True
        self.__thread.join(deadline.left_s())
        return not self.__thread.is_alive()

    def __run(self) -> None:
        while not self.__stopping.is_set():
            try:
                self.__step(self.__stopping)
                self.__pause.reset()
            except Exception as error:  # noqa: BLE001 - the seam: a round may fail, the loop may not
                self.__on_error(self.name, error)
                self.__stopping.wait(self.__pause.next_s())
            self.tick += 1


class Group:
    """Services that start in order and stop in reverse.

    If one does not start, those before it are stopped again and the error rises.
    """

    def __init__(self, name: str, services: Sequence[Service], give_up: Callable[[], Deadline]) -> None:
        self.name = name
        self._services = tuple(services)
        self._running: list[Service] = []
        self._give_up = give_up

    def start(self) -> None:
        """Start all, in order; a second call does nothing."""
        if self._running:
            return
        for service in self._services:
            try:
                service.start()
            except BaseException:
                self.stop(self._give_up())
                raise
            self._running.append(service)

    def stop(self, deadline: Deadline) -> bool:
        """Stop all that run, the last first; return whether all have ended.

        One whose stop raises does not keep those before it running; its error rises at the end.
        """
        ended, failure = True, None
        while self._running:
            try:
                ended = self._running.pop().stop(deadline) and ended
            except Exception as error:  # noqa: BLE001 - the seam between services; raised below
                failure = failure or error
        if failure is not None:
            raise failure
        return ended
