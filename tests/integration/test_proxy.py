"""The proxy does to a connection what its verbs say."""

import asyncio
import contextlib
import gc
import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.fixtures.eventually import eventually
from workers.drills.tcp_proxy import TcpProxy, Way

Proxied = Callable[[str], tuple[TcpProxy, str]]


@pytest.fixture
def line(proxied: Proxied, redis_url: str) -> tuple[TcpProxy, socket.socket]:
    """Give a proxy before Valkey and a logged-in connection through it."""
    proxy, _ = proxied(redis_url)
    password = redis_url.split(":", 2)[2].split("@")[0] if "@" in redis_url else ""
    connection = socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    if password:
        connection.sendall(f"AUTH {password}\r\n".encode())
        assert connection.recv(100) == b"+OK\r\n"
    return proxy, connection


def ping(connection: socket.socket) -> bytes:
    connection.sendall(b"PING\r\n")
    return connection.recv(100)


def test_bytes_go_through_both_ways(line: tuple[TcpProxy, socket.socket]) -> None:
    proxy, connection = line
    with connection:
        assert ping(connection) == b"+PONG\r\n"
        assert proxy.connections == 1


def test_a_cut_connection_is_reset_and_a_new_one_works(line: tuple[TcpProxy, socket.socket]) -> None:
    proxy, connection = line
    with connection:
        assert proxy.cut() == 1
        with pytest.raises(ConnectionError):
            eventually(lambda: ping(connection) == b"never")
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as again:
        assert ping(again).startswith((b"+PONG", b"-NOAUTH"))


def test_a_deaf_connection_stays_open_and_is_served_when_healed(line: tuple[TcpProxy, socket.socket]) -> None:
    proxy, connection = line
    with connection:
        proxy.deafen(Way.TO_CLIENT)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            ping(connection)
        assert proxy.connections == 1
        connection.settimeout(10)
        proxy.heal()
        assert connection.recv(100) == b"+PONG\r\n"


def test_a_delay_holds_each_answer_back(line: tuple[TcpProxy, socket.socket]) -> None:
    proxy, connection = line
    with connection:
        proxy.delay(0.2)
        before = time.monotonic()
        assert ping(connection) == b"+PONG\r\n"
        assert time.monotonic() - before >= 0.4


def test_a_refusing_proxy_resets_new_connections(line: tuple[TcpProxy, socket.socket]) -> None:
    proxy, connection = line
    with connection:
        proxy.refuse()
        with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as other:
            eventually(lambda: ping(other) == b"never")


def test_a_proxy_that_stops_leaves_no_socket_open_of_those_that_come() -> None:
    """A socket left open is a warning when it is collected, and so a failure."""
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as comers:
        proxy = TcpProxy(*server.getsockname())
        proxy.start()
        held = threading.Event()
        proxy._loop.call_soon_threadsafe(held.wait)
        for _ in range(50):  # all are taken in the step of the loop before that in which the proxy begins to stop
            comers.enter_context(socket.create_connection(("127.0.0.1", proxy.port), timeout=10))
        closing = asyncio.run_coroutine_threadsafe(proxy._close(), proxy._loop)
        held.set()
        closing.result(timeout=60)
        proxy.stop()
    gc.collect()
