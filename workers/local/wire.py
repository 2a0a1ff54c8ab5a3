"""Ask a server one question over a bare socket, to learn whether it answers."""

import socket
from typing import Final

from workers.local.ports import LOOPBACK

AMQP_HELLO: Final = b"AMQP\x00\x00\x09\x01"
AMQP_START: Final = b"\x01\x00\x00"
"""The first bytes of a method frame on channel 0: a broker answers with Connection.Start once it takes clients."""

_TIMEOUT_S: Final = 2.0


def ask(port: int | None, question: bytes, answer_starts: bytes) -> bool:
    """Send ``question`` to a loopback port and say whether the answer begins as expected within two seconds."""
    if port is None:
        return False
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(question)
            return _read(connection, len(answer_starts)) == answer_starts
    except OSError:
        return False


def _read(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        chunk = connection.recv(size - len(got))
        if not chunk:
            break
        got += chunk
    return got
