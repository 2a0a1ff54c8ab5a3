"""Sending: by the bound sender, with request and trace carried on."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from smena import context, outbox
from smena.book import Book, asend, bind_sender, bound, by_name, send, send_many, unbind_sender
from smena.clock import MovedClock
from smena.errors import BrokerLost, Misconfigured, SmenaError, Unsendable
from smena.job import Job
from smena.publishing import Publishing
from smena.telemetry.trace import trace_id

book = Book("trade")


@book.actor(queue="payments")
def charge(invoice: str, part: int = 1) -> None: ...


class Recording:
    """A sender that keeps what it was given."""

    def __init__(self) -> None:
        self.sent: list[tuple[Job, float]] = []

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        self.sent.append((job, delay_s))

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        self.sent.append((job, delay_s))

    def send_many(self, jobs: Sequence[Job]) -> list[SmenaError | None]:
        return [None if job.actor == "trade.charge" else BrokerLost() for job in jobs]


def test_every_verb_hands_the_checked_job_to_the_bound_sender() -> None:
    with bound(Recording()) as recording:
        first = charge.send("a", part=2)
        second = charge.send_later(90, "b")
        third = send(charge.message("c").replace(partition_key="c"), delay_s=5)
        fourth = by_name("mail.confirm", queue="mail").send(7, to=["x"])

    assert recording.sent == [(first, 0.0), (second, 90), (third, 5), (fourth, 0.0)]
    assert (first.actor, first.queue, first.args, first.kwargs) == ("trade.charge", "payments", ("a",), {"part": 2})
    assert (fourth.actor, fourth.queue, fourth.args, fourth.kwargs) == ("mail.confirm", "mail", (7,), {"to": ["x"]})


async def test_every_verb_has_a_twin_for_the_event_loop() -> None:
    with bound(Recording()) as recording:
        first = await charge.asend("a")
        second = await charge.asend_later(90, "b")
        third = await asend(charge.message("c"))

    assert recording.sent == [(first, 0.0), (second, 90), (third, 0.0)]


async def test_a_delay_may_be_a_timedelta() -> None:
    with bound(Recording()) as recording:
        charge.send_later(timedelta(minutes=2), "a")
        await charge.asend_later(timedelta(milliseconds=500), "b")

    assert [delay_s for _, delay_s in recording.sent] == [120, 0.5]


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf"), timedelta(seconds=-1), "60", None])
async def test_a_delay_that_is_no_time_from_now_on_is_refused_before_anything_is_sent(delay: Any) -> None:
    job = charge.message("a")
    with bound(Recording()) as recording:
        with pytest.raises(Unsendable, match="a delay is a timedelta or a number of seconds, zero or more"):
            charge.send_later(delay, "a")
        with pytest.raises(Unsendable, match="a delay is"):
            send(job, delay_s=delay)
        with pytest.raises(Unsendable, match="a delay is"):
            await charge.asend_later(delay, "a")
        with pytest.raises(Unsendable, match="a delay is"):
            Publishing(recording, None, 60).send(job, delay_s=delay)

    assert recording.sent == []


def test_many_are_sent_with_an_outcome_each() -> None:
    with bound(Recording()):
        outcomes = send_many([charge.message("a"), by_name("other.actor").message()])

    assert outcomes[0] is None
    assert isinstance(outcomes[1], BrokerLost)


def test_sending_unbound_says_what_to_do() -> None:
    with pytest.raises(Misconfigured, match=r"smena\.connect\(\)"):
        charge.send("a")


def test_a_process_is_bound_once() -> None:
    first, second = Recording(), Recording()
    bind_sender(first)
    try:
        with pytest.raises(Misconfigured, match="connected already"):
            bind_sender(second)
        unbind_sender(second)
        charge.send("a")
    finally:
        unbind_sender(first)

    assert len(first.sent) == 1
    bind_sender(second)
    unbind_sender(second)


def test_a_new_job_starts_a_trace_and_is_dated() -> None:
    one, other = charge.message("a"), charge.message("a")

    assert one.request_id
    assert trace_id(one.traceparent)
    assert one.request_id != other.request_id
    assert one.id != other.id
    assert one.timestamp_ms == one.first_enqueued_at_ms > 1_700_000_000_000
    assert one.attempt == 1


def test_a_follow_up_carries_request_and_trace_and_the_time_of_its_own() -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    running = context.Context(charge.message("a"), clock=clock)
    with context.running(running):
        clock.advance(5)
        follow_up = charge.message("b")

    assert follow_up.request_id == running.request_id
    assert trace_id(follow_up.traceparent) == trace_id(running.traceparent)
    assert follow_up.traceparent != running.traceparent
    assert follow_up.first_enqueued_at_ms == clock.now_ms()
    assert charge.message("c").request_id != running.request_id


def test_a_service_hands_its_own_request_on() -> None:
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"
    with context.following(request_id="r-1", traceparent=traceparent):
        job = charge.message("a")
        assert context.current() is None

    assert job.request_id == "r-1"
    assert trace_id(job.traceparent) == "a" * 32


def test_arguments_are_checked_before_anything_is_sent() -> None:
    wrong: Any = charge
    with bound(Recording()) as recording:
        with pytest.raises(SmenaError):
            wrong.send("a", part="many")
        with pytest.raises(SmenaError):
            by_name("other.actor").send(float("nan"))

    assert recording.sent == []


@pytest.mark.parametrize(
    "stranger", [1, None, charge, charge.message("a").args], ids=["number", "none", "actor", "arguments"]
)
async def test_what_is_no_job_is_refused_at_every_door_before_anything_is_sent(stranger: Any) -> None:
    job, sentence = charge.message("a"), "what is sent is a job"
    recording = Recording()
    with bound(Publishing(recording, None, 60)):
        with pytest.raises(TypeError, match=sentence):
            send(stranger)
        with pytest.raises(TypeError, match=sentence):
            await asend(stranger)
        with pytest.raises(TypeError, match=sentence):
            send_many([job, stranger])
    nowhere: Any = None
    with pytest.raises(TypeError, match=sentence):
        outbox.add(nowhere, job, stranger)
    with pytest.raises(TypeError, match=sentence):
        await outbox.aadd(nowhere, job, stranger)
    assert recording.sent == []


@pytest.mark.parametrize("jobs", [1, charge.message("a"), {charge.message("a").id}])
def test_many_that_are_no_list_are_refused(jobs: Any) -> None:
    with bound(Publishing(Recording(), None, 60)), pytest.raises(TypeError, match="many jobs are a list of them, not "):
        send_many(jobs)
