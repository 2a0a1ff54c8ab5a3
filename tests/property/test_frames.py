"""However the bytes are cut into reads, the same frames come out; pika reads what is written here."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import frame, spec

from smena.amqp import frames
from smena.amqp.properties import Properties, decode_properties, encode_properties


class Recorder:
    """A sink and an owner that note what comes."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.bytes_received = 0

    def delivered(
        self, consumer_tag: bytes, tag: int, redelivered: bool, address: bytes, header: bytes, body: bytes
    ) -> None:
        self.seen.append((consumer_tag, tag, redelivered, address, header, body))

    def confirmed(self, tag: int, multiple: bool, positive: bool) -> None:
        self.seen.append((tag, multiple, positive))

    def read_ends(self) -> None:
        pass


def deliver(channel: int, tag: int, body: bytes, body_max: int) -> bytes:
    method = spec.Basic.Deliver("ctag", tag, tag % 2 == 0, "ex", "key")
    header = frame.Header(channel, len(body), spec.BasicProperties(message_id=str(tag)))
    parts = [frame.Body(channel, body[at : at + body_max]) for at in range(0, len(body), body_max)]
    return b"".join(each.marshal() for each in (frame.Method(channel, method), header, *parts))


TRAFFIC = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.sampled_from([1, 2]), st.binary(max_size=60), st.sampled_from([7, 1000])),
        st.tuples(st.just("ack"), st.booleans()),
        st.tuples(st.just("nack")),
        st.tuples(st.just("heartbeat")),
        st.tuples(st.just("return"), st.binary(max_size=20)),
    ),
    max_size=12,
)


@given(TRAFFIC, st.lists(st.integers(1, 40), min_size=1))
def test_any_cut_into_reads_gives_the_same_frames_in_order(traffic: list[Any], cuts: list[int]) -> None:
    stream, theirs = b"", b""
    ours: list[Any] = []
    for number, (kind, *details) in enumerate(traffic, 1):
        if kind == "deliver":
            channel, body, body_max = details
            piece = deliver(channel, number, body, body_max)
            if channel == 1:
                ours.append((b"ctag", number, body))
            else:
                theirs += piece
        elif kind == "ack":
            piece = frame.Method(1, spec.Basic.Ack(number, details[0])).marshal()
            ours.append((number, details[0], True))
        elif kind == "nack":
            piece = frame.Method(1, spec.Basic.Nack(number, requeue=False)).marshal()
            ours.append((number, False, False))
        elif kind == "heartbeat":
            piece = frame.Heartbeat().marshal()
            theirs += piece
        else:
            method = frame.Method(1, spec.Basic.Return(312, "NO_ROUTE", "", "q")).marshal()
            content = frames.publish_content(1, b"\x00\x00", details[0], 1000)
            piece = method + content
            theirs += piece
        stream += piece
    tap, recorder, forwarded = frames.Tap(), Recorder(), bytearray()
    tap.owner = recorder
    tap.sinks[1] = recorder
    tap.forward = forwarded.extend
    at = index = 0
    while at < len(stream):
        step = cuts[index % len(cuts)]
        tap.receive(stream[at : at + step])
        at, index = at + step, index + 1
    seen = [(one[0], one[1], one[5]) if len(one) == 6 else one for one in recorder.seen]
    assert seen == ours
    assert bytes(forwarded) == theirs
    assert recorder.bytes_received > 0 or not ours  # or pika's heartbeat check would take a busy broker for dead


@pytest.mark.parametrize("data", [b"AMQP\x00\x00\x09\x01", b"HTTP/1.1 400 Bad", b"\xff" * 20])
def test_what_is_not_amqp_ends_the_connection(data: bytes) -> None:
    with pytest.raises(frames.BrokenFrame):
        frames.Tap().receive(data)


def test_a_delivery_without_its_header_ends_the_connection() -> None:
    tap, recorder = frames.Tap(), Recorder()
    tap.owner, tap.sinks[1] = recorder, recorder
    method = frame.Method(1, spec.Basic.Deliver("ctag", 1, exchange="", routing_key="q")).marshal()
    with pytest.raises(frames.BrokenFrame):
        tap.receive(method + frame.Body(1, b"x" * 50).marshal())


@given(st.text(max_size=60), st.text(max_size=60), st.binary(max_size=100), st.integers(1, 60), st.integers(1, 65535))
def test_pika_reads_the_publishes_that_are_written_here(
    exchange: str, routing_key: str, body: bytes, body_max: int, channel: int
) -> None:
    header = encode_properties(Properties(message_id="m", headers={"n": 1, "t": "ü"})).with_entry(b"")
    data = frames.publish_head(channel, exchange, routing_key)
    data += frames.publish_content(channel, header, body, body_max)
    read: list[Any] = []
    while data:
        used, one = frame.decode_frame(data)
        read.append(one)
        data = data[used:]
    method, content, *parts = read
    assert (method.method.exchange, method.method.routing_key) == (exchange, routing_key)
    assert method.method.mandatory
    assert {one.channel_number for one in read} == {channel}
    assert (content.body_size, content.properties.headers) == (len(body), {"n": 1, "t": "ü"})
    assert b"".join(part.fragment for part in parts) == body


def test_pika_reads_the_settles_that_are_written_here() -> None:
    _, one = frame.decode_frame(frames.ack(3, 2**40, multiple=True))
    assert (one.channel_number, one.method.delivery_tag, one.method.multiple) == (3, 2**40, True)
    _, one = frame.decode_frame(frames.give_back(3, 7))
    assert (one.method.NAME, one.method.delivery_tag, one.method.multiple, one.method.requeue) == (
        "Basic.Nack",
        7,
        False,
        True,
    )


WORDS = st.text(max_size=30)
PROPERTIES = st.builds(
    spec.BasicProperties,
    content_type=st.none() | WORDS,
    content_encoding=st.none() | WORDS,
    headers=st.none() | st.dictionaries(WORDS, st.integers(-(2**63), 2**63 - 1) | WORDS | st.booleans() | st.none()),
    delivery_mode=st.none() | st.integers(1, 2),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | WORDS,
    reply_to=st.none() | WORDS,
    expiration=st.none() | WORDS,
    message_id=st.none() | WORDS,
    timestamp=st.none() | st.integers(0, 2**63),
    type=st.none() | WORDS,
    user_id=st.none() | WORDS,
    app_id=st.none() | WORDS,
    cluster_id=st.none() | WORDS,
)


@given(PROPERTIES)
def test_properties_are_read_as_pika_wrote_them_and_written_as_pika_reads_them(theirs: spec.BasicProperties) -> None:
    ours = decode_properties(b"".join(theirs.encode()))
    for name in Properties.__struct_fields__:
        assert getattr(ours, name) == getattr(theirs, name), name
    back = spec.BasicProperties()
    back.decode(encode_properties(ours).with_entry(b""))
    for name in Properties.__struct_fields__:
        expected = getattr(theirs, name)
        assert getattr(back, name) == ({} if name == "headers" and expected is None else expected), name


def test_rare_field_types_are_read() -> None:
    table = b"".join(
        bytes((len(name),)) + name + value
        for name, value in (
            (b"b", b"b\xff"),
            (b"B", b"B\xff"),
            (b"s", b"s\xff\xfe"),
            (b"u", b"u\x00\x05"),
            (b"I", b"I\xff\xff\xff\xff"),
            (b"i", b"i\x00\x00\x00\x07"),
            (b"T", b"T" + struct.pack(">Q", 1_700_000_000)),
            (b"D", b"D\x02" + struct.pack(">i", 314)),
            (b"f", b"f" + struct.pack(">f", 0.5)),
            (b"x", b"x\x00\x00\x00\x01\xff"),
            (b"V", b"V"),
        )
    )
    header = struct.pack(">HI", 1 << 13, len(table)) + table
    headers = decode_properties(header).headers
    assert headers is not None
    assert {name: str(value) for name, value in headers.items()} == {
        "b": "-1",
        "B": "255",
        "s": "-2",
        "u": "5",
        "I": "-1",
        "i": "7",
        "T": "1700000000",
        "D": "3.14",
        "f": "0.5",
        "x": "b'\\xff'",
        "V": "None",
    }
