"""Be the server of one worker's pool: fork processes that run CPU steps; see `server.py`."""

from __future__ import annotations

import socket
import sys
from typing import Final

from smena.settings import Settings
from workers.execution.pool_process import Server
from workers.execution.pool_server import Bounds, run_steps, serve
from workers.process.orders import Orders
from workers.wiring import server

_MIB: Final = 1024 * 1024


def launch(orders: Orders) -> Server:
    """Start the server of the worker that has these orders."""
    return server.launch(__name__, orders)


def fork_steps(orders: Orders, settings: Settings, line: socket.socket) -> None:
    """Serve until the worker is gone."""
    pool = settings.pool
    bounds = Bounds(pool.max_memory_mib * _MIB, pool.max_result_bytes, pool.nice, orders.cgroup)
    serve(line, lambda talk, mark: run_steps(talk, mark, bounds), orders.cgroup)


if __name__ == "__main__":
    sys.exit(server.main("pool", fork_steps))
