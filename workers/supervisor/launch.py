"""Start processes by command line, each in a session of its own and with one descriptor from us."""

from __future__ import annotations

import socket
import subprocess
import sys

import msgspec

from workers.process.orders import Orders


def start_program(module: str, orders: Orders, end: socket.socket) -> int:
    """Start ``python -P -m module ORDERS DESCRIPTOR`` and return its pid; the arbiter reaps it.

    ``-P`` keeps the current folder out of the search path, so that a user's package called ``workers`` does not stand
    before the machine's. The new session takes it off the terminal: only the supervisor hears Ctrl-C.
    """
    told = msgspec.json.encode(orders).decode()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module, told, str(end.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[end.fileno()],
        start_new_session=True,
    )
    process.returncode = 0  # nobody waits for it through this object
    return process.pid
