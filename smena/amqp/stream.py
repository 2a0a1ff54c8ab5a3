"""Carry bytes between a socket and pika, in few and large pieces.

pika lets its user give the transport (`create_streaming_connection` of its I/O services). This one reads
up to 128 KiB at once where pika's reads 4 KiB, and sends what was written during a pass of the loop in one
call at the pass's end where pika's makes one call for each frame. Beside eight busy worker threads each
system call of the link thread may wait for the interpreter, so their number counts as much as their price
(figures in docs/adr/0020). What another thread wants to say leaves on that thread, without waking the link's
(figures in docs/adr/0026).
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from pika.adapters.utils.nbio_interface import AbstractIOReference, AbstractStreamTransport
from pika.adapters.utils.selector_ioloop_adapter import SelectorIOServicesAdapter

from smena.amqp.loop import Loop

_READ_BYTES: Final = 128 * 1024
_AGAIN: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

OnDone = Callable[[Any], None]


class Stream(AbstractStreamTransport):  # type: ignore[misc]  # pika is untyped
    """A connected socket; ``receive`` takes what it reads, ``protocol`` learns of its end."""

    def __init__(self, loop: Loop, sock: socket.socket, protocol: Any, receive: Callable[[bytes], None]) -> None:
        self._loop = loop
        self._sock = sock
        self._protocol = protocol
        self._receive = receive
        self._out: deque[bytes] = deque()
        self._rest: memoryview | bytes = b""
        self._sending = threading.Lock()  # held by whoever uses `_rest` or sends on the socket
        self._flush_is_due = False
        self._full = False
        self.closed = False
        loop.add_handler(sock.fileno(), self._on_ready, loop.READ)

    def write(self, data: bytes) -> None:
        """Send at the end of this pass; in order."""
        self._out.append(data)
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.at_end_of_pass(self._end_pass)

    def send(self, data: bytes) -> None:
        """Send now, from any thread and without waiting; what the socket does not take follows by the loop."""
        self._out.append(data)
        if isinstance(self._sock, ssl.SSLSocket):  # OpenSSL bears one thread at a time, and the loop's may be reading
            self._loop.add_callback(self._flush)
        else:
            self._flush()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes have not left yet."""
        return len(self._rest) + sum(map(len, tuple(self._out)))

    def get_protocol(self) -> Any:
        """Return pika's end of the stream."""
        return self._protocol

    def abort(self) -> None:
        """Close at once; pika knows why."""
        self.drop(None)

    def drop(self, error: BaseException | None) -> None:
        """Close at once, sending nothing more; the protocol hears of it in the next pass."""
        with self._sending:
            if self.closed:
                return
            self.closed = True
            self._loop.remove_handler(self._sock.fileno())
            self._sock.close()
            self._out.clear()
        self._loop.add_callback(lambda: self._protocol.connection_lost(error))

    def _on_ready(self, _fd: int, mask: int) -> None:
        if mask & self._loop.WRITE:
            self._full = False
            self._loop.update_handler(self._sock.fileno(), self._loop.READ)
            self._flush()
        if mask & ~self._loop.WRITE and not self.closed:
            self._read()

    def _read(self) -> None:
        try:
            self._receive(self._take())
        except _AGAIN:
            return
        except Exception as error:  # noqa: BLE001  (the seam: a broken stream or frame ends this connection only)
            self.drop(error)

    def _take(self) -> bytes:
        data = self._sock.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("the broker closed the connection")
        if isinstance(self._sock, ssl.SSLSocket):
            while pending := self._sock.pending():  # decrypted already, so poll would not tell of it
                data += self._sock.recv(pending)
        return data

    def _end_pass(self) -> None:
        self._flush_is_due = False
        self._flush()

    def _flush(self) -> None:
        with self._sending:
            if self.closed or self._full:
                return
            try:
                self._send_all()
            except _AGAIN:
                self._full = True
                self._loop.add_callback(self._await_room)
            except OSError as error:
                self._loop.add_callback(partial(self.drop, error))

    def _send_all(self) -> None:
        while self._rest or self._out:
            if not self._rest:
                self._rest = memoryview(b"".join([self._out.popleft() for _ in range(len(self._out))]))
            self._rest = self._rest[self._sock.send(self._rest) :]

    def _await_room(self) -> None:
        if self._full and not self.closed:
            self._loop.update_handler(self._sock.fileno(), self._loop.READ | self._loop.WRITE)


class Streams(SelectorIOServicesAdapter):  # type: ignore[misc]  # pika is untyped
    """pika's I/O services for one connection attempt, which make a `Stream` where pika's make their own.

    ``tap`` is asked for the receiver of the bytes once pika's end is known.
    """

    def __init__(self, loop: Loop, tap: Callable[[Stream, Any], None], receive: Callable[[bytes], None]) -> None:
        super().__init__(loop)
        self.loop = loop
        self.tap = tap
        self.receive = receive

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: OnDone,
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> AbstractIOReference:
        """Take over a connected socket; ``on_done`` gets (transport, protocol) or the error, in a later pass."""
        if ssl_context is not None:
            sock = ssl_context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=server_hostname)
        return Opening(self, protocol_factory, sock, on_done)


class Opening(AbstractIOReference):  # type: ignore[misc]  # pika is untyped
    """A stream being made: the TLS handshake if there is one, then the meeting of stream and protocol."""

    def __init__(self, streams: Streams, factory: Callable[[], Any], sock: socket.socket, on_done: OnDone) -> None:
        self._streams = streams
        self._factory = factory
        self._sock = sock
        self._on_done = on_done
        self._watching = False
        self._over = False
        streams.loop.add_callback(self._advance)

    def cancel(self) -> bool:
        """Give up; say whether there was something to give up."""
        if self._over:
            return False
        self._end_watch()
        self._over = True
        self._sock.close()
        return True

    def _advance(self) -> None:
        if self._over:
            return
        try:
            if not self._shakes_hands():
                self._finish(self._meet())
        except Exception as error:  # noqa: BLE001  (the seam: pika takes the error as the attempt's result)
            self._sock.close()
            self._finish(error)

    def _shakes_hands(self) -> bool:
        """Go on with the handshake; say whether it waits for the socket."""
        self._end_watch()
        if not isinstance(self._sock, ssl.SSLSocket):
            return False
        loop = self._streams.loop
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(loop.READ)
        except ssl.SSLWantWriteError:
            self._watch(loop.WRITE)
        return self._watching

    def _watch(self, events: int) -> None:
        self._watching = True
        self._streams.loop.add_handler(self._sock.fileno(), lambda _fd, _mask: self._advance(), events)

    def _end_watch(self) -> None:
        if self._watching:
            self._watching = False
            self._streams.loop.remove_handler(self._sock.fileno())

    def _meet(self) -> tuple[Stream, Any]:
        protocol = self._factory()
        stream = Stream(self._streams.loop, self._sock, protocol, self._streams.receive)
        self._streams.tap(stream, protocol)
        protocol.connection_made(stream)
        return stream, protocol

    def _finish(self, result: object) -> None:
        self._over = True
        self._on_done(result)
