"""Do something beside a thread that must not wait long for it, whatever hangs: a connection, an answer, a commit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait


class Aside:
    """One call at a time, each on a thread of its own; for one thread."""

    def __init__(self) -> None:
        self._running: Future[None] | None = None

    def do(self, call: Callable[[], None], within_s: float) -> None:
        """Call, and wait so long at most; what is not done then goes on, and its error comes out of a later `do`.

        Calls nothing while an earlier call goes on.
        """
        self._take_up(0.0)
        if self._running is None:
            self._running = Future()
            threading.Thread(target=_settle, args=(self._running, call), name="aside", daemon=True).start()
            self._take_up(within_s)

    def _take_up(self, within_s: float) -> None:
        running = self._running
        if running is not None and wait([running], within_s).done:
            self._running = None
            running.result()


def _settle(running: Future[None], call: Callable[[], None]) -> None:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - it comes out where it is waited for
        running.set_exception(error)
    else:
        running.set_result(None)
