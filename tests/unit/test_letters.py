"""Any message becomes a dead letter's row."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from smena.amqp import codec
from smena.amqp.properties import Properties
from smena.clock import MovedClock
from smena.errors import Undecodable
from smena.job import Job
from smena.records.dead_letters import DeadLetter
from workers.roles.letters import letter_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Message:
    body: bytes
    properties: Properties
    queue: str = "sales"


class Broken(Message):
    @property
    def properties(self) -> Properties:
        raise Undecodable("properties")

    @properties.setter
    def properties(self, value: Properties) -> None:
        """Forget it."""


def read(body: bytes, properties: Properties, kind: type[Message] = Message) -> DeadLetter:
    return letter_of(kind(body, properties), source="smena.sales.dead", clock=MovedClock(NOW))


def test_a_job_is_known_by_its_id_and_attempt() -> None:
    job = Job(actor="sales.record", queue="sales", attempt=3, timestamp_ms=1_700_000_000_000, request_id="r")
    wire = codec.encode(job)
    headers = {**(wire.properties.headers or {}), "smena-reason": "unexpected", "smena-died-at": 1_700_000_001_500}
    letter = read(wire.body, Properties(headers=headers))
    assert (letter.job_id, letter.attempt, letter.actor, letter.reason) == (job.id, 3, "sales.record", "unexpected")
    assert letter.died_at == datetime.fromtimestamp(1_700_000_001.5, UTC)
    assert letter.request_id == "r"
    assert letter.body == wire.body


def test_a_job_whose_id_was_another_jobs_has_a_row_of_its_own() -> None:
    properties = Properties(headers={"smena-reason": "id_reused"})
    bodies = [codec.encode(Job(actor="sales.record", queue="sales", args=(n,), id="used")).body for n in (1, 1, 2)]
    one, again, other = (read(body, properties) for body in bodies)
    assert one.job_id.startswith("used~")
    assert one.job_id == again.job_id
    assert one.job_id != other.job_id


def test_what_is_no_job_is_known_by_its_bytes() -> None:
    properties = Properties(headers={"smena-reason": "undecodable", "smena-attempt": 1}, type="sales.record")
    one, again, other = read(b"\xff", properties), read(b"\xff", properties), read(b"\xfe", properties)
    assert one.job_id == again.job_id
    assert one.job_id != other.job_id
    assert one.actor == "sales.record"


@pytest.mark.parametrize(
    "headers",
    [
        {"smena-died-at": "yesterday", "smena-attempt": -1, "smena-reason": 7},
        {"smena-died-at": 2**63, "smena-attempt": True, "smena-reason": ""},
        {"x-death": "no list", "smena-error-text": b"\xff"},
        {"deep": [[[{"a": b"\0"}]]]},
    ],
)
def test_headers_of_any_type_are_survived(headers: dict[str, object]) -> None:
    letter = read(b"", Properties(headers=headers))
    assert letter.died_at == NOW
    assert letter.attempt == 1
    assert letter.reason == "unexplained"


def test_a_reason_that_anybody_wrote_becomes_a_short_word_and_the_header_stays_as_it_came() -> None:
    foreign = "\x1b[31mbad\nreason" * 50
    letter = read(b"", Properties(headers={"smena-reason": foreign}))
    assert letter.reason == ("_31mbad_reason" * 50)[:100]
    assert letter.properties["headers"]["smena-reason"] == foreign
    assert read(b"", Properties(headers={"smena-reason": "нет_денег.v2"})).reason == "нет_денег.v2"
    assert read(b"", Properties(headers={"x-death": [{"reason": "a\rb"}]})).reason == "broker_a_b"


def test_the_brokers_own_reason_is_named() -> None:
    letter = read(b"", Properties(headers={"x-death": [{"reason": "rejected", "queue": "smena.sales"}]}))
    assert letter.reason == "broker_rejected"


def test_a_message_whose_properties_do_not_add_up_keeps_its_body() -> None:
    letter = read(b"body", Properties(), Broken)
    assert (letter.body, letter.reason, letter.properties) == (b"body", "unexplained", {})
