"""Start, and be, a program that has the books loaded and forks processes for one worker: for its pool, or its cells.

``python -P -m MODULE ORDERS DESCRIPTOR``, started by the worker when it needs the first process; how it forks is in
`workers/execution/pool_server.py`. When the books cannot be loaded the worker is told why.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from smena.book import load_books
from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.telemetry import logs
from smena.telemetry.plain_text import error_text
from workers.execution.pool_process import Server
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.wiring.user_path import open_user_path

Serve = Callable[[Orders, Settings, socket.socket], object]
"""Fork on request over the line until the worker is gone."""


def launch(module: str, orders: Orders) -> Server:
    """Start such a program for the worker that has these orders."""
    return Server([sys.executable, "-P", "-m", module, msgspec.json.encode(orders).decode()])


def main(kind: str, serve: Serve) -> int:
    """Be it, under the worker's name and this one."""
    told, descriptor = sys.argv[1:]
    orders, line = msgspec.json.decode(told, type=Orders), socket.socket(fileno=int(descriptor))
    with contextlib.suppress(KeyboardInterrupt):
        try:
            settings = _preload(orders, kind)
        except Exception as failure:
            line.send(str(failure if isinstance(failure, Misconfigured) else error_text(failure)).encode())
            raise
        gc.collect()
        gc.freeze()
        serve(orders, settings, line)
    return Exit.DRAINED


def _preload(orders: Orders, kind: str) -> Settings:
    open_user_path(Path.cwd())
    settings = load(orders.overrides)
    logs.configure(settings.telemetry, f"{orders.name()}-{kind}", profile=settings.profile)
    load_books(settings.books)
    return settings
