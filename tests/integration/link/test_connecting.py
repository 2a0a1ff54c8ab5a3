"""A connection comes up, stays up, and comes back: through TLS, past dead peers and refused doors (P03, P04)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from smena.amqp import codec, names
from smena.amqp.link import Connection, LinkThread
from smena.clock import SYSTEM, Deadline
from smena.job import Job
from smena.telemetry import events
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_proxy import Proxied
from tests.integration.link.conftest import Broker, Link, Settle, await_answer
from workers.broker.asking import Asking
from workers.broker.consumer import Consumer
from workers.broker.delivery import Delivery
from workers.broker.prefetch import Prefetch
from workers.broker.source import work
from workers.drills.tcp_proxy import Way


def test_p03_a_half_dead_connection_is_dropped_and_the_jobs_arrive_by_the_next(
    link: Link, settings: Settle, amqp_url: str, broker: Broker, queue: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    deaf = settings(urls=(SecretStr(url),), heartbeat_s=2, publish_timeout_s=60)
    connection = link.connection(deaf, "deaf")
    publisher = link.publisher(deaf, connection)
    publisher.send(Job(actor="a.b", queue=queue))
    proxy.deafen(Way.TO_CLIENT)
    sending = threading.Thread(target=publisher.send, args=[Job(actor="a.b", queue=queue)], name="sender")
    sending.start()
    eventually(lambda: connection.last_error is not None)
    proxy.heal()
    sending.join(60)
    assert not sending.is_alive()
    assert connection.epoch == 2
    assert broker.depth(names.work_queue("test", queue)) >= 2  # the first copy may have arrived as well


def test_a_wrong_password_is_told_and_does_not_hang(
    link: Link, settings: Settle, amqp_url: str, listen: Listen
) -> None:
    told = listen(events.LINK_LOST)
    wrong = settings(urls=(SecretStr(amqp_url.replace("guest:guest", "guest:wrong")),))
    connection = link.connection(wrong, "stranger")
    eventually(lambda: told)
    assert "Auth" in str(told[0].fields["error"])
    assert "wrong" not in str(told[0].fields)
    assert not connection.is_up


def test_an_address_that_takes_connections_and_says_nothing_is_given_up(link: Link, settings: Settle) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}"
        connection = link.connection(settings(urls=(SecretStr(url),), connect_timeout_s=0.3), "silent")
        eventually(lambda: connection.last_error is not None)
        link.stop()


def test_stopping_while_it_connects_is_no_failure(settings: Settle, listen: Listen) -> None:
    told = listen(events.LOOP_FAILED, events.LINK_LOST)
    thread = LinkThread("hasty", SYSTEM)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"amqp://guest:guest@127.0.0.1:{silent.getsockname()[1]}"
        connection = Connection(thread, settings(urls=(SecretStr(url),), connect_timeout_s=60), "hasty")
        thread.start()
        connection.start()
        peer, _ = silent.accept()
        peer.settimeout(60)
        assert peer.recv(8) == b"AMQP\0\0\x09\x01"  # the handshake has begun
        assert connection.stop(Deadline.within(30, SYSTEM))
        peer.close()
    assert thread.stop(Deadline.within(30, SYSTEM))
    assert told == []


def test_an_address_that_speaks_something_else_is_given_up(link: Link, settings: Settle, redis_url: str) -> None:
    other = settings(urls=(SecretStr(redis_url.replace("redis://", "amqp://guest:guest@")),), connect_timeout_s=0.5)
    connection = link.connection(other, "other")
    eventually(lambda: connection.last_error is not None)


@pytest.fixture
def tls_url(tmp_path: Path, amqp_url: str, proxied: Callable[[str], Proxied]) -> Iterator[str]:
    """Give an amqps address: a door that takes off TLS before the broker."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl comes with ca-certificates"
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    files = ["-keyout", str(key), "-out", str(certificate)]
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files]
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([openssl, *made, *subject], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    host, _, port = amqp_url.partition("@")[2].partition("/")[0].partition(":")
    door = Door(context, (host, int(port)))
    options = quote(repr({"ca_certs": str(certificate)}))
    yield f"amqps://guest:guest@127.0.0.1:{door.port}/%2F?ssl_options={options}"
    door.close()


def test_jobs_travel_through_tls(link: Link, settings: Settle, tls_url: str, broker: Broker, queue: str) -> None:
    secure = settings(urls=(SecretStr(tls_url),))
    sent = [Job(actor="a.b", queue=queue, args=("x" * size,)) for size in (0, 10, 400_000, 3)] * 20
    assert not any(link.publisher(secure).send_many(sent))
    held: list[Delivery] = []
    connection = link.connection(secure, "consume")
    consumer = Consumer(connection, work("test", [queue]), held.extend, "test", Prefetch(50, 100))
    consumer.start()
    eventually(lambda: len(held) == 80)
    assert [codec.decode(each.body, each.properties).args for each in held] == [job.args for job in sent]
    for delivery in held:
        delivery.ack()
    await_answer(consumer)
    link.stop()
    eventually(lambda: broker.depth(names.work_queue("test", queue)) == 0)


class Door:
    """Take off TLS and pass the bytes on; an event loop on a thread of its own."""

    def __init__(self, context: ssl.SSLContext, server: tuple[str, int]) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tls-door")
        self._thread.start()
        opening = asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self._listening = asyncio.run_coroutine_threadsafe(opening, self._loop).result(PATIENCE_S)
        self.port = self._listening.sockets[0].getsockname()[1]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _end(self) -> None:
        self._listening.close()
        here = asyncio.current_task()
        passing = [task for task in asyncio.all_tasks() if task is not here]
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        for writer in self._writers:  # a peer that is not heard any more would never end its TLS
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in self._writers), return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        inside_reader, inside_writer = await asyncio.open_connection(*self._server)
        self._writers.append(inside_writer)
        try:
            await asyncio.gather(self._pass_on(reader, inside_writer), self._pass_on(inside_reader, writer))
        finally:
            writer.close()
            inside_writer.close()

    @staticmethod
    async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()


def test_p06_a_connection_lost_while_questions_wait_answers_them_and_comes_back(
    link: Link, settings: Settle, amqp_url: str, proxied: Callable[[str], Proxied]
) -> None:
    proxy, url = proxied(amqp_url)
    connection = link.connection(settings(urls=(SecretStr(url),), reconnect_cap_s=0.2), "asking")
    answers: list[BaseException | None] = []

    def question(channel: Any, answered: Callable[[Any], None]) -> None:
        channel.exchange_declare("amq.direct", passive=True, callback=answered)

    assert connection.wait_up(30)
    asking = Asking(connection)
    connection.thread.post(lambda: asking.ask(question, answers.append))
    eventually(lambda: answers == [None])
    proxy.deafen(Way.TO_CLIENT)
    for _ in range(2):
        connection.thread.post(lambda: asking.ask(question, answers.append))
    eventually(lambda: len(asking._waiting) == 2)
    proxy.cut()
    proxy.heal()
    eventually(lambda: connection.epoch == 2)
    eventually(lambda: len(answers) == 3)
    assert None not in answers[1:]
