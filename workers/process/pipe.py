"""Carry messages between a child and its supervisor: JSON lines over a socket pair.

`Pipe` is for children. The nursery's line is a packet socket instead (`send_packet`, `receive_packet`), because each
request carries a descriptor.

Neither side ever waits for the other. What does not fit into the socket's buffer is kept (a little) and goes with the
next message; a `Report` is dropped instead when something is still waiting, because reports are cumulative and the
next one says it all again. The end of the stream means that the other side is gone.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from smena.clock import Deadline
from smena.records.strike import Strike
from workers.process import readiness

_READ_BYTES = 256 * 1024
_READS = 16
"""Most reads at once, so that one side that talks without end does not keep the other from everything else."""
_MESSAGE_BYTES = 16 * 1024 * 1024
_FLUSH_STEP_S = 0.05


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A child exists and is the supervisor's own."""

    pid: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """A child has all it needs and takes work from here on; a nursery can fork. ``warning`` is for the operator."""

    warning: str = ""


class Draining(msgspec.Struct, frozen=True, tag="draining"):
    """A child was asked to end and is ending; its loops may stop."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A child cannot run and says why, in one sentence for the deployer."""

    error: str


class Report(msgspec.Struct, frozen=True, tag="report"):
    """How a child is doing: its tally so far, the tick of each of its loops, and what it cannot reach now."""

    snapshot: dict[str, Any] = msgspec.field(default_factory=dict)
    loops: dict[str, int] = msgspec.field(default_factory=dict)
    unready: tuple[str, ...] = ()


class Stuck(msgspec.Struct, frozen=True, tag="stuck"):
    """A job in a child did not end when its time was up; the child takes no more work and has to be replaced."""

    job_id: str
    actor: str
    attempt: int
    slot: int


class Take(msgspec.Struct, frozen=True, tag="take"):
    """The supervisor tells a child to take work, or to take none for now and go on with what it has."""

    work: bool


class Struck(msgspec.Struct, frozen=True, tag="struck"):
    """The supervisor tells a child of strikes, where there is no database that all could ask."""

    strikes: tuple[Strike, ...]


class Fork(msgspec.Struct, frozen=True, tag="fork"):
    """The supervisor asks its nursery for one child; that child's end of its own pipe comes along."""

    orders: dict[str, Any]


class Reaped(msgspec.Struct, frozen=True, tag="reaped"):
    """The supervisor tells its nursery that a child is gone with all it had started."""

    pid: int


Message = Hello | Ready | Draining | Failed | Report | Stuck | Take | Struck | Fork | Reaped

_decode = msgspec.json.Decoder(Message)
_encode = msgspec.json.Encoder()


class Pipe:
    """One end of the line. `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0.0)
        self.closed = False
        self._end = end
        self._unsent = b""
        self._partial = b""
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._end.fileno()

    def send(self, message: Message) -> bool:
        """Send without waiting; return False when a report was dropped or the other side is gone."""
        with self._lock:
            if self._unsent and isinstance(message, Report):
                self._push()
                if self._unsent:
                    return False
            self._unsent += _encode.encode(message) + b"\n"
            return self._push()

    def flush(self, deadline: Deadline) -> bool:
        """Wait until all is sent, the deadline passes or the other side is gone; return whether all is sent."""
        while not self.closed:
            with self._lock:
                if self._push() and not self._unsent:
                    return True
            if deadline.passed():
                return False
            readiness.has_room(self._end, min(_FLUSH_STEP_S, deadline.left_s()))
        return False

    def receive(self) -> list[Message]:
        """Return the messages that have come, without waiting; sets `closed` at the end of the stream.

        Raises `msgspec.MsgspecError` or `ValueError` for what is no message.
        """
        for _ in range(_READS):
            if self.closed:
                break
            try:
                piece = self._end.recv(_READ_BYTES)
            except BlockingIOError:
                break
            except OSError:
                piece = b""
            self.closed = not piece
            self._partial += piece
        *lines, self._partial = self._partial.split(b"\n")
        if len(self._partial) > _MESSAGE_BYTES:
            raise ValueError(f"a message of more than {_MESSAGE_BYTES} bytes")
        return [_decode.decode(line) for line in lines]

    def close(self) -> None:
        """Close this end; the other sees the end of the stream."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._end.close()

    def _push(self) -> bool:
        while self._unsent:
            try:
                sent = self._end.send(self._unsent)
            except BlockingIOError:
                return True
            except OSError:
                self._unsent = b""
                return False
            self._unsent = self._unsent[sent:]
        return True


def send_packet(end: socket.socket, message: Message, descriptors: Sequence[int] = ()) -> bool:
    """Send one message, and descriptors with it, over a packet socket; return False when it does not go now."""
    try:
        socket.send_fds(end, [_encode.encode(message)], descriptors)
    except OSError:  # full, or the other side is gone; its end is seen by the reader
        return False
    return True


def receive_packet(end: socket.socket) -> tuple[Message | None, list[int]]:
    """Return the next message of a packet socket with its descriptors; None at the end of the stream."""
    packet, descriptors, _, _ = socket.recv_fds(end, _READ_BYTES, 1)
    return (_decode.decode(packet) if packet else None), list(descriptors)
