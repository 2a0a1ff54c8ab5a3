"""Speak between a worker and a cell: a length, then MessagePack.

The worker names the cell and gives it suspects; the cell answers for each how its delivery was settled there. The end
of the line means that the other has gone.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Final, Literal

import msgspec

from smena.records.turns import Turn
from workers.middleware.evidence import Evidence
from workers.process import readiness

What = Literal["acked", "back", "retry", "snooze", "dead", "stuck"]

CLOSE_S: Final = 5.0
"""How long a cell that has answered for all gets to close what it had open."""

_LENGTH: Final = struct.Struct("=I")


class Named(msgspec.Struct, frozen=True, tag="named"):
    """What strikes will call the cell; the first frame."""

    life: str


class Given(msgspec.Struct, frozen=True, tag="given"):
    """A delivery that the cell is to run: its number there, and the message as it came."""

    number: int
    queue: str
    body: bytes
    header: bytes
    turn: Turn | None = None


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """How the cell settled a delivery; or that it is stuck with it, for its time is up and it goes on.

    ``why`` is a snooze's cause, or a death's reason.
    """

    number: int
    what: What
    delay_s: float = 0.0
    why: str = ""
    evidence: Evidence | None = None


Frame = Named | Given | Answer

_decode: Final = msgspec.msgpack.Decoder(Frame)
_encode: Final = msgspec.msgpack.Encoder()


class Talk:
    """One end of the line; `send` may be called from any thread, `receive` from one."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def send(self, frame: Frame) -> None:
        """Send one frame; raises `OSError` when the other is gone."""
        body = _encode.encode(frame)
        with self._lock:
            self._end.sendall(_LENGTH.pack(len(body)) + body)

    def has_come(self, within_s: float) -> bool:
        """Wait a little; return whether a frame has come, or the end of the line."""
        return readiness.has_come(self._end, within_s)

    def receive(self) -> Frame | None:
        """Return the next frame, None at the end of the line."""
        head = self._exactly(_LENGTH.size)
        body = None if head is None else self._exactly(_LENGTH.unpack(head)[0])
        return None if body is None else _decode.decode(body)

    def say_no_more(self) -> None:
        """Let the other see the end; it can still answer, for a while."""
        self._end.settimeout(CLOSE_S)
        try:
            self._end.shutdown(socket.SHUT_WR)
        except OSError:  # it is gone already
            return

    def close(self) -> None:
        """Close this end."""
        self._end.close()

    def _exactly(self, size: int) -> bytes | None:
        pieces = bytearray()
        while len(pieces) < size:
            try:
                piece = self._end.recv(min(size - len(pieces), 1 << 20))
            except OSError:
                return None
            if not piece:
                return None
            pieces += piece
        return bytes(pieces)
