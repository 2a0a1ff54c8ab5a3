"""The message that follows an outcome: what it is, what its settlement keeps, and that making it cannot fail."""

from typing import Any

import msgspec
import pytest

from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM
from smena.errors import Permanent, TooLarge
from smena.job import Job
from smena.settings.groups import Amqp
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.nextmessage import NextMessages
from workers.execution.pending import Pending, stored_outgoing
from workers.middleware.outcome import Dead, Retry, Snooze


class Inbox:
    """Keeps what the settler is handed."""

    def __init__(self) -> None:
        self.pending: list[Pending] = []

    def put(self, pending: Pending) -> None:
        self.pending.append(pending)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def messages(inbox: Inbox) -> NextMessages:
    amqp = Amqp(urls="amqp://guest:guest@127.0.0.1:1/")
    publisher = Publisher(Connection(LinkThread(), amqp, "test"), amqp, SYSTEM)
    settler: Any = inbox
    return NextMessages(publisher, settler, "worker-0", SYSTEM)


def job(**changes: Any) -> Job:
    return Job(actor="shop.pay", queue="q", args=(1,), timestamp_ms=1).replace(**changes)


def test_a_retry_is_followed_by_the_next_attempt_under_the_same_id(messages: NextMessages, inbox: Inbox) -> None:
    first = job(attempt=2, snoozes=3)
    messages.settle_job(NotedDelivery(), first, Retry(1.0, ValueError()))
    (pending,) = inbox.pending
    headers = pending.outgoing.properties.headers or {}
    assert pending.outgoing.exchange == "smena.delay.v1.04"
    assert pending.outgoing.properties.message_id == first.id
    assert headers["smena-attempt"] == 3
    assert "smena-snoozes" not in headers
    assert pending.key == (first.id, 2)


def test_a_snooze_spends_no_attempt_and_ends_none(messages: NextMessages, inbox: Inbox) -> None:
    messages.settle_job(NotedDelivery(), job(), Snooze(1.0, "busy"))
    (pending,) = inbox.pending
    headers = pending.outgoing.properties.headers or {}
    assert (headers["smena-attempt"], headers["smena-snoozes"]) == (1, 1)
    assert pending.key is None


def test_a_dead_letter_carries_the_bytes_as_they_came_and_says_why(messages: NextMessages, inbox: Inbox) -> None:
    class RuleBroken(Permanent):
        """A rule."""

        code = "rule_broken"

    try:
        raise RuleBroken(order=7)
    except RuleBroken as error:
        messages.settle_job(NotedDelivery(b"as it came"), job(attempt=4), Dead("rule_broken", error))
    (pending,) = inbox.pending
    headers = pending.outgoing.properties.headers or {}
    assert pending.outgoing.body == b"as it came"
    assert pending.outgoing.routing_key == "smena.q.dead"
    assert headers["smena-reason"] == "rule_broken"
    assert headers["smena-attempt"] == 4
    assert headers["smena-worker"] == "worker-0"
    assert "raise RuleBroken(order=7)" in headers["smena-traceback"]


@pytest.mark.parametrize("outcome", [Retry(1.0, ValueError()), Snooze(1.0, "x"), Retry(10**9, ValueError())])
@pytest.mark.parametrize(
    "changes",
    [
        {"args": ("\0",)},
        {"args": (float("nan"),)},
        {"queue": "a*b"},
        {"id": "\u00e4" * 200},
        {"headers": {"large": "x" * 70_000}},
    ],
)
def test_p12_what_cannot_be_sent_again_becomes_a_dead_letter(
    messages: NextMessages, inbox: Inbox, outcome: Retry | Snooze, changes: dict[str, Any]
) -> None:
    messages.settle_job(NotedDelivery(b"as it came"), job(**changes), outcome)
    (pending,) = inbox.pending
    assert pending.kind == "dead"


def test_what_could_not_be_decoded_is_kept_byte_for_byte_under_an_id_of_its_own(
    messages: NextMessages, inbox: Inbox
) -> None:
    for _ in range(2):
        messages.settle_raw(NotedDelivery(b"\xff\x00"), Dead("undecodable", ValueError("bad")))
    first, second = (pending.outgoing.properties.message_id for pending in inbox.pending)
    assert first
    assert first != second
    assert {pending.outgoing.body for pending in inbox.pending} == {b"\xff\x00"}


def test_a_settlement_keeps_the_message_whole(messages: NextMessages, inbox: Inbox) -> None:
    messages.settle_job(NotedDelivery(), job(headers={"tenant": "a"}), Retry(1.0, ValueError()))
    pending = inbox.pending[0]
    stored = pending.stored()
    assert msgspec.structs.replace(stored_outgoing(stored), any_size=False) == pending.outgoing


def test_a_message_that_the_publisher_can_never_send_has_a_dead_letter_instead(
    messages: NextMessages, inbox: Inbox
) -> None:
    messages.settle_job(NotedDelivery(b"as it came"), job(), Retry(1.0, ValueError()))
    (pending,) = inbox.pending
    assert pending.instead is not None
    letter = pending.instead(TooLarge(bytes=9))
    assert letter.body == b"as it came"
    assert (letter.properties.headers or {})["smena-reason"] == "too_large"
