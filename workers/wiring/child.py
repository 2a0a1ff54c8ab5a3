"""Become a child of the supervisor: from its orders to the end of its process.

``python -P -m workers.wiring.child ORDERS DESCRIPTOR`` starts one by command line; a nursery calls `become` after
forking. Either way the process never returns from here, so nothing of a nursery's runs in its workers' exits.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from smena.clock import SYSTEM
from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.telemetry import logs
from workers.process import lineage
from workers.process.child import Child
from workers.process.exits import Exit
from workers.process.folder import FolderRefused
from workers.process.orders import Orders
from workers.process.pipe import Pipe
from workers.wiring.user_path import open_user_path

Run = Callable[[Settings, Child], int]
"""What a role's module has under the name ``run``: do the role's work until a drain is done; return an exit code."""


def become(orders: Orders, end: socket.socket, prepare: Callable[[Orders], tuple[Settings, Run]]) -> NoReturn:
    """Be the child that the orders name, then end the process."""
    code = int(Exit.CRASHED)
    try:
        code = _live(orders, end, prepare)
    except BaseException:  # the seam: whatever it was, it must not unwind into the process this was forked from
        logging.getLogger("smena.child").exception("process.crashed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def load_role(orders: Orders) -> tuple[Settings, Run]:
    """Read the settings and import the role's module."""
    open_user_path(Path.cwd())
    settings = load(orders.overrides)
    run: Run = importlib.import_module(orders.module).run
    return settings, run


def _live(orders: Orders, end: socket.socket, prepare: Callable[[Orders], tuple[Settings, Run]]) -> int:
    lineage.leave_terminal()
    if not lineage.join_supervisor(orders.supervisor_pid, SYSTEM):
        return Exit.PARENT_LOST
    child = Child(orders, Pipe(end))
    try:
        child.start()
        settings, run = prepare(orders)
        logs.configure(settings.telemetry, child.name, profile=settings.profile, last_lines=child.last_lines())
        code = int(run(settings, child))
        return int(Exit.CRASHED) if child.had_mishap and code == Exit.DRAINED else code
    except Misconfigured as refusal:
        child.failed(str(refusal))
        return Exit.MISCONFIGURED
    except FolderRefused as refusal:  # a passing one: the next child may find room
        child.failed(str(refusal))
        return Exit.CRASHED
    except Exception as failure:  # noqa: BLE001  (the seam: it is told with all that is known, and the process ends)
        child.mishaps.tell("the main thread", failure)
        return Exit.CRASHED
    finally:
        child.close()


if __name__ == "__main__":
    become(msgspec.json.decode(sys.argv[1], type=Orders), socket.socket(fileno=int(sys.argv[2])), load_role)
