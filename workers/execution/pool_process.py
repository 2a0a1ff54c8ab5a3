"""Hold the worker's end of one pool process, and of the server that forks them."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from smena.clock import SYSTEM, Deadline
from smena.errors import PoolBroken, SmenaError
from workers.execution.pool_frames import HEAD
from workers.execution.pool_server import ENDED, FORK, HELLO, NUMBER, READY, REAP
from workers.process import readiness, tree

BOOT_S: Final = 60.0
"""How long the server may take to load the books."""

_ANSWER_S: Final = 5.0
"""How long it may take to fork, and a pool process to come up."""
_CHUNK: Final = 65_536
_PACKET: Final = 4096


class Ended(Exception):
    """A pool process ended before it answered."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a pool process ended, as far as that is known, and the most memory it held.

    ``out_of_memory`` says that the kernel ended it, with all it had started, at the bound of its control group.
    """

    how: str = "unknown"
    peak_mib: int | None = None
    out_of_memory: bool = False


class PoolProcess:
    """One pool process: it has one caller at a time, who talks to it directly."""

    def __init__(self, pid: int, talk: socket.socket, mark: mmap.mmap) -> None:
        self.pid = pid
        self.calls = 0
        self.free_by_s = 0.0
        """When, on the monotonic clock, its caller must have given it back."""
        self.is_worn = False
        """Whether it is replaced once its step is over."""
        self.condemned: SmenaError | None = None
        """Why it is being killed, set before the kill."""
        self._talk = talk
        self._mark = mark
        self._life = os.pidfd_open(pid)
        self._number_at_end: int | None = None

    def call(self, frame: bytes, timeout_s: float) -> tuple[bytes, bytes | bytearray]:
        """Run a step and return its answer; raise `TimeoutError`, or `Ended`."""
        deadline = Deadline.within(timeout_s, SYSTEM)
        self.calls += 1
        talk = self._talk
        try:
            talk.settimeout(timeout_s)
            talk.sendall(frame)
            answer = _Answer(talk.recv(_CHUNK))
            while answer.missing:
                talk.settimeout(max(deadline.left_s(), 0.001))
                answer.take(talk.recv(min(answer.missing, 1 << 20)))
        except ConnectionError as error:
            raise Ended from error
        return answer.kind, answer.body

    async def acall(self, frame: bytes, timeout_s: float) -> tuple[bytes, bytes | bytearray]:
        """Run a step without holding the event loop; the twin of `call`."""
        self.calls += 1
        talk, loop = self._talk, asyncio.get_running_loop()
        talk.settimeout(0)
        try:
            async with asyncio.timeout(timeout_s):
                await loop.sock_sendall(talk, frame)
                answer = _Answer(await loop.sock_recv(talk, _CHUNK))
                while answer.missing:
                    answer.take(await loop.sock_recv(talk, min(answer.missing, 1 << 20)))
        except ConnectionError as error:
            raise Ended from error
        return answer.kind, answer.body

    def began(self) -> bool:
        """Say whether it began the step that it was last given."""
        return self._last_number() >= self.calls

    def kill(self) -> None:
        """Kill it with all that its step has started.

        A process that has ended may have been reaped by another than the server, if that ended first: then its id
        may be somebody else's, and only what has its mark is killed.
        """
        if readiness.has_come(self._life, 0.0):
            tree.end_followers(self.pid)
        else:
            tree.end(self.pid)

    def close(self) -> None:
        """Let go of this end; `began` still answers."""
        self._number_at_end = self._last_number()
        self._talk.close()
        self._mark.close()
        os.close(self._life)

    def _last_number(self) -> int:
        number: int = NUMBER.unpack_from(self._mark)[0] if self._number_at_end is None else self._number_at_end
        return number


class _Answer:
    """An answer that comes in pieces."""

    __slots__ = ("body", "kind", "missing")

    def __init__(self, first: bytes) -> None:
        if len(first) < HEAD.size:  # a head is one write: it comes whole, or the process has ended
            raise Ended
        self.kind, size = HEAD.unpack_from(first)
        self.body: bytes | bytearray = first[HEAD.size :]
        self.missing = size - len(self.body)
        if self.missing:
            self.body = bytearray(self.body)

    def take(self, piece: bytes) -> None:
        """Add a piece; nothing means that the process has ended."""
        if not piece:
            raise Ended
        self.body += piece
        self.missing -= len(piece)


class Server:
    """The program that forks pool processes. For one thread; raises `PoolBroken` when it cannot do its work."""

    def __init__(self, command: Sequence[str]) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._boot = Deadline.within(BOOT_S, SYSTEM)
        self._is_up = False
        with theirs:
            # Its environment is the one of this process's C library, where the mark of our descendants stands.
            self._program = subprocess.Popen(
                [*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )

    def is_up(self, within_s: float) -> bool:
        """Wait a little for the books to be loaded; return whether they are."""
        if self._is_up:
            return True
        self._line.settimeout(within_s)
        try:
            said = self._line.recv(_PACKET)
        except TimeoutError:
            if self._boot.passed():
                raise PoolBroken(f"the books were not loaded within {BOOT_S:g} s") from None
            return False
        if said != READY:
            raise PoolBroken(said.decode(errors="replace") or "the pool's server ended while it started")
        self._line.settimeout(_ANSWER_S)
        self._is_up = True
        return True

    def fork(self) -> PoolProcess:
        """Return a new pool process that is ready for a step."""
        return PoolProcess(*self.bear())

    def bear(self) -> tuple[int, socket.socket, mmap.mmap]:
        """Fork a process that says that it is up; return its id, the line to it, and its mark."""
        ours, theirs = socket.socketpair()
        memory = os.memfd_create("smena-pool-mark", os.MFD_CLOEXEC)
        try:
            os.ftruncate(memory, NUMBER.size)
            mark = mmap.mmap(memory, NUMBER.size)
            with contextlib.suppress(OSError):  # then the answer is missing too
                socket.send_fds(self._line, [FORK], [theirs.fileno(), memory])
        finally:
            theirs.close()
            os.close(memory)
        answer = self._answer()
        pid = NUMBER.unpack(answer)[0] if len(answer) == NUMBER.size else 0
        ours.settimeout(_ANSWER_S)
        if not pid or not _says_hello(ours):
            ours.close()
            mark.close()
            how = self.reap(pid).how if pid else "no process could be forked"
            raise PoolBroken("a pool process did not come up", how=how)
        return pid, ours, mark

    def reap(self, pid: int) -> Ending:
        """Take the end of a process that was killed or has ended."""
        with contextlib.suppress(OSError):
            self._line.send(REAP + NUMBER.pack(pid))
        answer = self._answer()
        if len(answer) != ENDED.size:
            return Ending()
        status, peak_kib, out_of_memory = ENDED.unpack(answer)
        return Ending() if status == -1 else Ending(tree.ending_of(status), peak_kib // 1024, out_of_memory)

    def lives(self) -> bool:
        """Say whether the program runs."""
        return self._program.poll() is None

    def stop(self) -> None:
        """End the program; its pool processes must have ended before, or be ended by who knows them."""
        self._line.close()
        try:
            self._program.wait(1.0)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()

    def _answer(self) -> bytes:
        try:
            return self._line.recv(_PACKET)
        except OSError:
            return b""


def _says_hello(talk: socket.socket) -> bool:
    try:
        return talk.recv(1) == HELLO
    except OSError:
        return False
