"""Keep the program that forks cells: started for the first suspect, let go when there has been none for a while.

It has the books loaded and no threads, as the pool's server has (`pool_server.py`). For all threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from smena.clock import SYSTEM
from smena.errors import PoolBroken
from workers.execution.cell import Cell, Suspect
from workers.execution.cell_frames import Talk
from workers.execution.pool_process import Ending, Server
from workers.process.orders import Orders
from workers.process.standstill import Standstill
from workers.process.stoppage import Stoppage

_LOOK_S: Final = 0.1


class Cells:
    """Where cells come from."""

    def __init__(self, launch: Callable[[], Server], orders: Orders, heartbeat_s: float, stopped_s: float) -> None:
        self._launch = launch
        self._orders = orders
        self._heartbeat_s = heartbeat_s
        self._stopped_s = stopped_s
        self._server: Server | None = None
        self._serving = threading.Lock()

    def are_to_be_had(self, stopping: threading.Event) -> bool:
        """Wait for the program to load the books, or until ``stopping``; raises `PoolBroken` when it cannot."""
        with self._serving:
            if self._server is not None and not self._server.lives():
                self._end()
            server = self._server = self._server or self._launch()
            try:
                while not server.is_up(_LOOK_S):
                    if stopping.is_set():
                        return False
            except PoolBroken:
                self._end()
                raise
        return True

    def bear(self, suspects: Sequence[Suspect]) -> Cell:
        """Fork a cell for these; raises `PoolBroken`."""
        with self._serving:
            if self._server is None:
                raise PoolBroken("there is nobody to fork a cell")
            pid, line, mark = self._server.bear()
        mark.close()
        line.settimeout(None)
        standstill = Standstill(pid, self._orders.file(pid, "flight"), self._heartbeat_s, SYSTEM)
        stoppage = Stoppage(pid, self._stopped_s, SYSTEM)
        return Cell(pid, Talk(line), self._orders, suspects, standstill, stoppage)

    def reap(self, pid: int) -> Ending:
        """Take the end of a cell."""
        with self._serving:
            return self._server.reap(pid) if self._server is not None else Ending()

    def end(self) -> None:
        """Let the program go; its cells have ended before."""
        with self._serving:
            self._end()

    def _end(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
