"""Dramatiq's words on Smena."""

from collections.abc import Sequence
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import ActorNotFound
from dramatiq.middleware import Middleware, MiddlewareError

from smena.book import Book, Registry, bound
from smena.broker import SmenaBroker
from smena.errors import InvalidArguments, Misconfigured, SmenaError, Unsendable
from smena.job import Job

book = Book("trade")


@book.actor(queue="payments")
def charge(n: int) -> int:
    return 2 * n


@book.actor(queue="mail", aliases=("post.confirm",))
async def confirm(n: int) -> None: ...


class Recording:
    """A sender that keeps what it was given."""

    def __init__(self) -> None:
        self.sent: list[tuple[Job, float]] = []

    def send(self, job: Job, *, delay_s: float = 0.0) -> None:
        self.sent.append((job, delay_s))

    async def asend(self, job: Job, *, delay_s: float = 0.0) -> None:
        raise NotImplementedError

    def send_many(self, jobs: Sequence[Job]) -> list[SmenaError | None]:
        raise NotImplementedError


@pytest.fixture
def recording() -> Recording:
    return Recording()


@pytest.fixture
def broker(recording: Recording) -> SmenaBroker:
    broker = SmenaBroker(sender=recording)
    broker.bind(Registry([book]))
    return broker


def test_binding_makes_every_actor_a_dramatiq_actor_however_often(broker: SmenaBroker) -> None:
    broker.bind(Registry([book]))

    assert broker.get_declared_actors() == {"trade.charge", "trade.confirm"}
    assert broker.get_declared_queues() == {"payments", "mail"}
    assert broker.get_actor("trade.charge")(4) == 8
    with pytest.raises(ActorNotFound):
        broker.get_actor("trade.nothing")


def test_a_dramatiq_message_is_sent_as_a_job_under_its_own_id(broker: SmenaBroker, recording: Recording) -> None:
    message = broker.get_actor("trade.charge").send_with_options(args=("4",), delay=1500, max_retries=3)

    job, delay_s = recording.sent[0]
    assert (job.id, job.timestamp_ms) == (message.message_id, message.message_timestamp)
    assert (job.actor, job.queue, job.args, job.options) == ("trade.charge", "payments", (4,), {"max_retries": 3})
    assert delay_s == 1.5


def test_a_plain_dramatiq_actor_can_be_declared_and_sent_to(broker: SmenaBroker, recording: Recording) -> None:
    @dramatiq.actor(broker=broker, queue_name="old", actor_name="old:style", max_retries=2)
    def work(x: Any) -> None: ...

    work.send({"a": 1})

    job, _ = recording.sent[0]
    assert (job.actor, job.queue, job.args) == ("old:style", "old", ({"a": 1},))
    with pytest.raises(Unsendable):
        work.send(float("nan"))


def test_arguments_of_a_known_actor_are_checked_before_anything_is_sent(
    broker: SmenaBroker, recording: Recording
) -> None:
    for name in ("trade.confirm", "post.confirm"):
        message: dramatiq.Message[Any] = dramatiq.Message("mail", name, ("x",), {}, {})
        with pytest.raises(InvalidArguments):
            broker.enqueue(message)
    assert recording.sent == []


def test_without_a_sender_of_its_own_it_sends_by_the_process_one(recording: Recording) -> None:
    broker = SmenaBroker()
    message: dramatiq.Message[Any] = dramatiq.Message("mail", "any.actor", (), {}, {})
    with bound(recording):
        assert broker.enqueue(message) is message
    with pytest.raises(Misconfigured):
        broker.enqueue(message)
    assert len(recording.sent) == 1


def test_hooks_of_middleware_run_round_declaring_and_enqueueing(recording: Recording) -> None:
    story: list[str] = []

    class Telling(Middleware):
        def after_declare_queue(self, *told: Any, **_: Any) -> None:
            story.append(f"queue {told[1]}")

        def after_declare_actor(self, *told: Any, **_: Any) -> None:
            story.append(f"actor {told[1].actor_name}")

        def before_enqueue(self, *_: Any, **__: Any) -> None:
            story.append(f"before {len(recording.sent)}")

        def after_enqueue(self, *_: Any, **__: Any) -> None:
            story.append(f"after {len(recording.sent)}")

    broker = SmenaBroker(sender=recording, middleware=[Telling()])
    broker.bind(Registry([book]))
    broker.get_actor("trade.charge").send(1)

    assert story[:2] == ["queue payments", "actor trade.charge"]
    assert story[-2:] == ["before 0", "after 1"]


def test_what_only_a_smena_worker_may_do_is_refused(broker: SmenaBroker) -> None:
    for refused in (
        lambda: broker.consume("payments"),
        lambda: broker.join("payments"),
        lambda: broker.flush("payments"),
        broker.flush_all,
        lambda: broker.declare_queue("a*"),
    ):
        with pytest.raises(Misconfigured):
            refused()
    with pytest.raises(MiddlewareError, match="smena worker"):
        dramatiq.Worker(broker).start()
