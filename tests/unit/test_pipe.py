"""The line between child and supervisor."""

import socket
from collections.abc import Iterator

import msgspec
import pytest

from smena.clock import SYSTEM, Deadline
from workers.process.pipe import Draining, Failed, Hello, Message, Pipe, Ready, Report, receive_packet, send_packet


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, Pipe]]:
    """Give a child's end and the supervisor's."""
    child, supervisor = map(Pipe, socket.socketpair())
    yield child, supervisor
    child.close()
    supervisor.close()


def test_messages_come_in_order_and_whole(ends: tuple[Pipe, Pipe]) -> None:
    child, supervisor = ends
    report = Report({"counters": {"a": {"b": 1}}}, {"link": 3}, ("broker",))
    sent: list[Message] = [Hello(7), Ready(), report, Draining(), Failed("no\nqueue")]

    for message in sent:
        assert child.send(message)

    assert supervisor.receive() == sent
    assert supervisor.receive() == []


def test_a_full_line_drops_reports_but_nothing_else_and_never_waits(ends: tuple[Pipe, Pipe]) -> None:
    child, supervisor = ends
    large = Report({"counters": {"x" * 100_000: {"y": 1}}})

    while child.send(large):
        pass
    child.send(Failed("the last words"))
    heard = supervisor.receive()
    while not child.flush(Deadline.within(0.01, SYSTEM)):
        heard += supervisor.receive()
    heard += supervisor.receive()

    assert heard[-1] == Failed("the last words")
    assert set(map(type, heard[:-1])) == {Report}


def test_the_end_of_the_line_is_seen_after_the_last_words(ends: tuple[Pipe, Pipe]) -> None:
    child, supervisor = ends
    child.send(Failed("gone"))
    child.close()

    assert supervisor.receive() == [Failed("gone")]
    assert supervisor.closed


def test_sending_to_nobody_does_no_harm(ends: tuple[Pipe, Pipe]) -> None:
    child, supervisor = ends
    supervisor.close()

    assert not child.send(Ready())
    assert child.receive() == []
    assert child.closed
    assert not child.flush(Deadline.within(10, SYSTEM))


def test_what_is_no_message_is_an_error() -> None:
    raw, end = socket.socketpair()
    with raw:
        pipe = Pipe(end)
        raw.sendall(b'{"type":"strange"}\n')
        with pytest.raises(msgspec.MsgspecError):
            pipe.receive()
        pipe.close()


def test_a_packet_carries_a_descriptor() -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one, other = socket.socketpair()
    with left, right, one, other:
        assert send_packet(left, Ready("careful"), [one.fileno()])
        message, [descriptor] = receive_packet(right)
        with socket.socket(fileno=descriptor) as carried:
            carried.sendall(b"hello")
        assert message == Ready("careful")
        assert other.recv(5) == b"hello"
        left.close()
        assert receive_packet(right) == (None, [])
