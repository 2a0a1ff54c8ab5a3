"""Load the books and fork pool processes for one worker.

``python -P -m workers.wiring.pool ORDERS DESCRIPTOR``, started by the worker at its first CPU step; see
`workers/execution/pool_server.py`.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
from pathlib import Path
from typing import Final

import msgspec

from smena.book import load_books
from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.telemetry import logs
from smena.telemetry.plain_text import error_text
from workers.execution.pool_process import Server
from workers.execution.pool_server import Bounds, run_steps, serve
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.wiring.user_path import open_user_path

_MIB: Final = 1024 * 1024


def launch(orders: Orders) -> Server:
    """Start the server of the worker that has these orders."""
    return Server([sys.executable, "-P", "-m", __name__, msgspec.json.encode(orders).decode()])


def main(orders: Orders, line: socket.socket) -> int:
    """Load what steps need, say so, and serve until the worker is gone."""
    try:
        settings = _preload(orders)
    except Exception as failure:
        line.send(str(failure if isinstance(failure, Misconfigured) else error_text(failure)).encode())
        raise
    gc.collect()
    gc.freeze()
    pool = settings.pool
    bounds = Bounds(pool.max_memory_mib * _MIB, pool.max_result_bytes, pool.nice, orders.cgroup)
    serve(line, lambda talk, mark: run_steps(talk, mark, bounds), orders.cgroup)
    return Exit.DRAINED


def _preload(orders: Orders) -> Settings:
    open_user_path(Path.cwd())
    settings = load(orders.overrides)
    logs.configure(settings.telemetry, f"{orders.name()}-pool", profile=settings.profile)
    load_books(settings.books)
    return settings


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(msgspec.json.decode(sys.argv[1], type=Orders), socket.socket(fileno=int(sys.argv[2]))))
