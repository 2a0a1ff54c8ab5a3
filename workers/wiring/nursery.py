"""Load the user's code once, then fork a role's children on request.

``python -P -m workers.wiring.nursery ORDERS DESCRIPTOR``. The role's module is asked to ``preload(settings)``: import
the books, open nothing, start nothing. What it loaded is then frozen out of the garbage collector's sight, so that
collections in the children do not copy its pages.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import socket
import sys
import threading
from pathlib import Path

import msgspec

from smena.clock import SYSTEM
from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.telemetry.plain_text import error_text
from workers.execution.nursery import Nursery
from workers.process import lineage
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.process.pipe import Failed, Ready, send_packet
from workers.process.priority import StandingBack
from workers.wiring.child import Run, become
from workers.wiring.user_path import open_user_path


def main(orders: Orders, line: socket.socket) -> int:
    """Preload, say so, and serve until the supervisor is gone."""
    lineage.hear_signals()
    if not lineage.join_supervisor(orders.supervisor_pid, SYSTEM):
        return Exit.PARENT_LOST
    standing = StandingBack()
    if orders.stands_back:
        standing.begin()
    try:
        settings, run = _preload(orders)
    except Misconfigured as refusal:
        send_packet(line, Failed(str(refusal)))
        return Exit.MISCONFIGURED
    except Exception as failure:
        send_packet(line, Failed(error_text(failure)))
        raise
    gc.collect()
    gc.freeze()
    standing.end()
    send_packet(line, Ready(_warning()))
    lineage.die_with_parent(0)  # from here on the end of the line is the sign, so that it can clear up before it ends
    Nursery(line, lambda child_orders, end: become(child_orders, end, lambda _: (settings, run))).serve()
    return Exit.PARENT_LOST


def _preload(orders: Orders) -> tuple[Settings, Run]:
    open_user_path(Path.cwd())
    settings = load(orders.overrides)
    role = importlib.import_module(orders.module)
    role.preload(settings)
    run: Run = role.run
    return settings, run


def _warning() -> str:
    threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    return f"a book started threads at import, which no worker will have: {', '.join(threads)}" if threads else ""


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main(msgspec.json.decode(sys.argv[1], type=Orders), socket.socket(fileno=int(sys.argv[2]))))
