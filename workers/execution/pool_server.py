"""Fork pool processes from a process that has the books loaded and nothing running, and be one of them.

A worker has threads, so it cannot fork; this server is a program of its own, started at the first CPU step. It is
single-threaded and does two things on request: fork, and tell how a process ended. Its end ends no pool process; the
end of the worker ends it and them.

A pool process runs one step after the other, each handed to it by the worker over a socket of its own, so no lock and
no pipe is shared with another: whatever kills it, it leaves nothing held. Before it begins a step it writes the
step's number to its mark, memory shared with the worker: so the worker knows whether a step that has no answer ran.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from workers.execution import pool_frames
from workers.process import cgroup, priority, tree
from workers.process.child import TAKEN
from workers.process.exits import Exit

FORK: Final = b"F"
REAP: Final = b"R"
READY: Final = b"ready"
HELLO: Final = b"!"
NUMBER: Final = struct.Struct("=Q")
ENDED: Final = struct.Struct("=iQ?")
"""How a process ended: its wait status, or -1 while it lives, the most memory it held, in KiB, and whether the kernel
killed it for the bound of its control group."""

_PACKET: Final = 64
_REAP_S: Final = 2.0
_LOOK_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a pool process may use."""

    memory_bytes: int
    result_bytes: int
    nice: int
    cgroup: str = ""
    """The control group below which each process has one of its own; empty where there is none."""


Be = Callable[[socket.socket, mmap.mmap], object]
"""What a forked process is: it says `HELLO` over the socket, works, and returns when the worker has closed its end."""


def serve(line: socket.socket, be: Be, group: str = "") -> None:
    """Fork and reap on request until the worker's end of the line closes.

    ``group`` is the control group below which each process has made one of its own.
    """
    tree.hear_nothing(TAKEN)
    line.send(READY)
    while True:
        packet, descriptors, _, _ = socket.recv_fds(line, _PACKET, 2)
        if packet[:1] == FORK:
            line.send(NUMBER.pack(_fork(line, be, *descriptors)))
        elif packet[:1] == REAP:
            line.send(ENDED.pack(*_reap(NUMBER.unpack(packet[1:])[0], group)))
        else:
            return


def _fork(line: socket.socket, be: Be, talk: int, mark: int) -> int:
    """Return the new process's id; 0 where the system refuses a process."""
    try:
        pid = os.fork()
    except OSError:
        pid = 0
    else:
        if pid == 0:
            line.close()
            _live(socket.socket(fileno=talk), mmap.mmap(mark, NUMBER.size), be)
    os.close(talk)
    os.close(mark)
    return pid


def _reap(pid: int, group: str) -> tuple[int, int, bool]:
    """Take a process's end; one that was killed is waited for a moment."""
    ends_at = time.monotonic() + _REAP_S
    while time.monotonic() < ends_at:
        try:
            found, status, usage = os.wait4(pid, os.WNOHANG)
        except ChildProcessError:
            break
        if found:
            return status, usage.ru_maxrss, bool(group) and cgroup.leave(group, pid)
        time.sleep(_LOOK_S)
    return -1, 0, False


def _live(talk: socket.socket, mark: mmap.mmap, be: Be) -> NoReturn:
    """Be a forked process; never return into the server's code."""
    code = Exit.CRASHED
    try:
        tree.lead()
        tree.be_first_to_go()
        os.register_at_fork(after_in_child=talk.close)  # else a step's own fork would hide this process's end
        threading.Thread(target=_end_with_worker, args=(talk,), name="pool-worker-watch", daemon=True).start()
        be(talk, mark)
        code = Exit.PARENT_LOST
    finally:
        os._exit(code)


def run_steps(talk: socket.socket, mark: mmap.mmap, bounds: Bounds) -> None:
    """Be a pool process."""
    if bounds.cgroup:
        with contextlib.suppress(OSError):  # it could be done when the fleet started; the other bounds stand
            cgroup.enter(bounds.cgroup, bounds.memory_bytes)
    priority.stand_back(bounds.nice)
    tree.limit_memory(bounds.memory_bytes)
    talk.sendall(HELLO)
    _run_steps(talk, mark, bounds.result_bytes)


def _run_steps(talk: socket.socket, mark: mmap.mmap, result_bytes: int) -> None:
    number = 0
    while (call := _received(talk)) is not None:
        number += 1
        NUMBER.pack_into(mark, 0, number)
        talk.sendall(pool_frames.answer(call, result_bytes))


def _received(talk: socket.socket) -> bytearray | None:
    """Return the body of the next call, None when the worker has closed its end."""
    head = talk.recv(pool_frames.HEAD.size, socket.MSG_WAITALL)
    if len(head) < pool_frames.HEAD.size:
        return None
    _, size = pool_frames.HEAD.unpack(head)
    body, filled = bytearray(size), 0
    with memoryview(body) as room:
        while filled < size:
            count = talk.recv_into(room[filled:])
            if not count:
                return None
            filled += count
    return body


def _end_with_worker(talk: socket.socket) -> None:
    """Wait until the worker's end is closed, then end with all that was started here."""
    hung_up = select.poll()
    hung_up.register(talk, 0)  # nothing but the other end's closing
    hung_up.poll()
    tree.end_followers(os.getpid())
    os._exit(Exit.PARENT_LOST)
