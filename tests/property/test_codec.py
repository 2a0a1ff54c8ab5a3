"""Any bytes become a job or `Undecodable`, and a job comes back as it was sent (P16, P23, P25)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smena.amqp import codec, fieldtable
from smena.amqp.properties import Properties, decode_properties, encode_properties
from smena.errors import Undecodable, Unsendable
from smena.job import Job

GOOD_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
NAMES = st.text("abcXYZ_019.é", min_size=1, max_size=40)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | GOOD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(GOOD_TEXT, inner, max_size=4),
    max_leaves=10,
)
TIMES = st.integers(0, codec.MAX_TIME_MS)
JOBS = st.builds(
    Job,
    actor=NAMES,
    queue=NAMES,
    args=st.lists(VALUES, max_size=4).map(tuple),
    kwargs=st.dictionaries(GOOD_TEXT, VALUES, max_size=3),
    options=st.dictionaries(GOOD_TEXT.filter(lambda name: name != "retries"), VALUES, max_size=3),
    timestamp_ms=TIMES,
    attempt=st.integers(1, 1000),
    snoozes=st.integers(0, 1000),
    first_enqueued_at_ms=st.integers(1, codec.MAX_TIME_MS),
    deadline_ms=st.none() | TIMES,
    request_id=st.none() | GOOD_TEXT,
    traceparent=st.none() | GOOD_TEXT,
    partition_key=st.none() | GOOD_TEXT.filter(bool),
    headers=st.dictionaries(NAMES.map("own-{}".format), GOOD_TEXT | st.integers(-(2**63), 2**63 - 1), max_size=3),
)

BODY = {
    "queue_name": "q",
    "actor_name": "a",
    "args": [],
    "kwargs": {},
    "options": {},
    "message_id": "1",
    "message_timestamp": 1,
}


@given(JOBS)
def test_a_job_comes_back_as_it_was_sent(job: Job) -> None:
    wire = codec.encode(job)
    properties = decode_properties(encode_properties(wire.properties).with_entry(b""))
    back = codec.decode(wire.body, properties)
    expected = job if job.attempt == 1 else job.replace(options={**job.options, "retries": job.attempt - 1})
    assert back == expected


@given(JOBS)
def test_the_body_is_dramatiqs_own_message(job: Job) -> None:
    fields = json.loads(codec.encode(job).body)
    assert list(fields) == list(BODY)
    assert fields["options"].get("retries", 0) == job.attempt - 1


@given(JOBS)
def test_properties_survive_being_stored_as_json(job: Job) -> None:
    properties = codec.encode(job).properties
    assert codec.properties_from_json(codec.properties_to_json(properties)) == properties


@given(st.binary(max_size=300))
@example(b"")
@example(b"\xef\xbb\xbf" + json.dumps(BODY).encode())
@example(b"[" * 100_000)
@example(b'{"args":' + b"[" * 100_000)
@example(json.dumps({**BODY, "args": "abc"}).encode())
@example(json.dumps({**BODY, "options": None}).encode())
@example(json.dumps({**BODY, "actor_name": []}).encode())
@example(json.dumps({**BODY, "message_timestamp": 10**30}).encode())
@example(json.dumps({**BODY, "message_timestamp": 1.5}).encode())
@example(json.dumps({**BODY, "message_id": ""}).encode())
@example(json.dumps({**BODY, "args": [math.nan]}).encode())
@example(json.dumps(BODY).replace("[]", "[1e999]").encode())
@example(json.dumps({**BODY, "args": ["\0"]}).encode())
@example(json.dumps({**BODY, "kwargs": {"\0": 1}}).encode())
@example(json.dumps({**BODY, "args": ["\ud800"]}).encode())
@example(json.dumps(BODY).encode("utf-16"))
@example(json.dumps(BODY).encode() + b"x")
def test_p23_bytes_that_are_no_message_are_undecodable(body: bytes) -> None:
    with pytest.raises(Undecodable):
        codec.decode(body, Properties())


@pytest.mark.parametrize("field", ["message_id", "actor_name", "queue_name"])
@pytest.mark.parametrize("as_ascii", [True, False])
def test_a_name_that_no_message_could_carry_on_is_undecodable(field: str, as_ascii: bool) -> None:
    fits, too_long = "я" * 127 + "a", "я" * 128
    body = json.dumps({**BODY, field: fits}, ensure_ascii=as_ascii).encode()
    codec.encode(codec.decode(body, Properties()).next_attempt())
    with pytest.raises(Undecodable, match=field):
        codec.decode(json.dumps({**BODY, field: too_long}, ensure_ascii=as_ascii).encode(), Properties())


@pytest.mark.parametrize(("part", "field"), [("id", "message_id"), ("actor", "actor_name"), ("queue", "queue_name")])
@pytest.mark.parametrize("name", ["", "a" * 256, "я" * 128, 17])
def test_a_name_that_the_worker_would_refuse_is_refused_before_it_is_sent(part: str, field: str, name: Any) -> None:
    job = Job(actor="a", queue="q").replace(**{part: name})
    with pytest.raises(Unsendable, match="255 bytes") as caught:
        codec.encode(job)
    assert caught.value.facts["field"] == field


@given(st.dictionaries(st.sampled_from(list(BODY)), st.none() | VALUES | st.lists(VALUES), min_size=7))
def test_p23_well_formed_json_with_any_values_is_a_job_or_undecodable(fields: dict[str, Any]) -> None:
    try:
        job = codec.decode(json.dumps(fields).encode(), Properties())
    except Undecodable:
        return
    assert isinstance(job, Job)


@given(st.binary(max_size=200))
def test_p23_properties_of_any_bytes_are_read_or_undecodable(header: bytes) -> None:
    try:
        properties = decode_properties(header)
        codec.decode(json.dumps(BODY).encode(), properties)
    except Undecodable:
        return


HEADER_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | GOOD_TEXT | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)
SMENAS = st.sampled_from(["attempt", "snoozes", "first-enqueued-at", "request-id", "traceparent", "seq"])


@given(st.dictionaries(SMENAS.map("smena-{}".format) | NAMES, HEADER_VALUES, max_size=5))
def test_a_good_body_is_a_job_whatever_a_client_puts_into_the_headers(headers: dict[str, Any]) -> None:
    properties = decode_properties(encode_properties(Properties(headers=headers)).with_entry(b""))
    job = codec.decode(json.dumps(BODY).encode(), properties)
    assert job.attempt >= 1
    again = codec.encode(job.next_attempt())
    assert "smena-seq" not in (again.properties.headers or {})
    codec.properties_to_json(again.properties)


@pytest.mark.parametrize("name", ["smena-deadline", "smena-partition-key"])
@given(value=st.booleans() | st.floats() | st.lists(st.none()) | st.binary(max_size=3))
def test_what_a_job_means_is_not_guessed(name: str, value: Any) -> None:
    with pytest.raises(Undecodable):
        codec.decode(json.dumps(BODY).encode(), Properties(headers={name: value}))


def test_a_timestamp_beyond_all_time_is_left_behind_and_keeps_no_job_from_its_next_attempt() -> None:
    table = b"\x06own-atT" + b"\xff" * 8  # what a client sends that writes a time before 1970 as it is
    job = codec.decode(json.dumps(BODY).encode(), Properties(headers=fieldtable.read_table(table, 0, len(table))))
    sent = codec.encode(job.next_attempt())
    encode_properties(sent.properties)
    assert "own-at" not in (sent.properties.headers or {})


def test_an_amqp_timestamp_is_no_deadline_and_travels_on_as_a_number() -> None:
    table = b"\x06own-atT" + (5).to_bytes(8, "big")
    headers = fieldtable.read_table(table, 0, len(table))
    job = codec.decode(json.dumps(BODY).encode(), Properties(headers=headers))
    sent = codec.encode(job.next_attempt())
    assert (sent.properties.headers or {})["own-at"] == 5
    assert '"own-at":5' in codec.properties_to_json(Properties(headers=headers))
    assert fieldtable.encode_table(headers) == table
    with pytest.raises(Undecodable):
        codec.decode(json.dumps(BODY).encode(), Properties(headers={"smena-deadline": headers["own-at"]}))


@given(
    st.sampled_from([math.nan, math.inf, "a\0b", "\ud800", object(), {"k\0": 1}]),
    st.sampled_from(["args", "kwargs", "options"]),
    st.integers(0, 3),
)
@example(math.nan, "args", 0)
@example("a\0b", "kwargs", 0)
def test_p25_what_json_or_postgresql_cannot_hold_is_refused_with_its_place(bad: Any, part: str, depth: int) -> None:
    for _ in range(depth):
        bad = [None, bad]
    fields: dict[str, Any] = {part: (bad,) if part == "args" else {"key": bad}}
    job = Job(actor="a", queue="q", **fields)
    with pytest.raises(Unsendable) as caught:
        codec.encode(job)
    assert str(caught.value.facts["field"]).startswith(f"{part}[0]" if part == "args" else f"{part}.key")


def test_p25_a_value_nested_beyond_reason_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Unsendable):
        codec.encode(Job(actor="a", queue="q", args=(deep,)))


def test_a_null_and_an_escaped_backslash_are_no_reason_to_refuse() -> None:
    job = Job(actor="a", queue="q", args=(None, "\\u0000"))
    assert codec.decode(codec.encode(job).body, Properties()).args == job.args


def test_p16_the_brokers_headers_are_not_sent_again_and_the_senders_are() -> None:
    headers = {
        "x-death": [{"count": 1}],
        "x-first-death-queue": "q",
        "x-delivery-count": 3,
        "CC": ["elsewhere"],
        "own": "kept",
    }
    job = codec.decode(json.dumps(BODY).encode(), Properties(headers=headers))
    sent = codec.encode(job.next_attempt()).properties.headers or {}
    assert {name for name in sent if not name.startswith("smena-")} == {"own"}


def test_the_body_counts_the_attempts_and_the_header_is_its_copy() -> None:
    body = json.dumps({**BODY, "options": {"retries": 4}}).encode()
    assert codec.decode(body, Properties(headers={"smena-attempt": 2})).attempt == 5
    assert codec.decode(json.dumps(BODY).encode(), Properties(headers={"smena-attempt": 2})).attempt == 2
    assert codec.decode(json.dumps(BODY).encode(), Properties()).attempt == 1


def test_the_queue_it_lies_in_goes_before_the_bodys_word() -> None:
    assert codec.decode(json.dumps(BODY).encode(), Properties(), queue="other").queue == "other"
