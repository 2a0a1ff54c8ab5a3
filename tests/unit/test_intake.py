"""The intake: what it cannot hand on is settled, in bounded time, whatever a message says of itself."""

from typing import Any

from smena.amqp.properties import Properties
from smena.job import Job
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.intake import Intake, snoozes_within
from workers.middleware.outcome import Dead, Snooze


class Settled:
    """Keeps what is settled without an attempt."""

    def __init__(self) -> None:
        self.outcomes: list[Snooze | Dead] = []

    def settle_job(self, delivery: NotedDelivery, job: Job, outcome: Snooze | Dead) -> None:  # noqa: ARG002
        self.outcomes.append(outcome)

    def settle_raw(self, delivery: NotedDelivery, outcome: Dead) -> None:  # noqa: ARG002
        self.outcomes.append(outcome)


def deliver(snoozes: int, bound_s: float = 600) -> Snooze | Dead:
    settled: Any = Settled()
    delivery: Any = NotedDelivery(
        b'{"queue_name":"q","actor_name":"nobody","args":[],"kwargs":{},"options":{},"message_id":"1",'
        b'"message_timestamp":1}'
    )
    delivery._properties = Properties(headers={"smena-snoozes": snoozes})
    Intake({}, settled, lambda _attempt: None, bound_s).deliver([delivery])
    outcome: Snooze | Dead = settled.outcomes[0]
    return outcome


def test_p20_an_unknown_actors_waits_add_up_to_the_bound() -> None:
    waits = 0.0
    for snoozes in range(snoozes_within(600)):
        outcome = deliver(snoozes)
        assert isinstance(outcome, Snooze)
        waits += outcome.delay_s
    assert 600 <= waits <= 660
    assert isinstance(deliver(snoozes_within(600)), Dead)


def test_a_count_of_snoozes_that_somebody_made_up_holds_up_nothing() -> None:
    assert isinstance(deliver(2**31 - 1), Dead)
    assert isinstance(deliver(0, bound_s=0), Dead)
