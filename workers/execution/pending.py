"""Hold a delivery whose outcome waits to become durable, with the message that follows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from smena.amqp import codec
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties
from smena.errors import SmenaError
from smena.job import Job
from smena.records.asked import Attempt as AttemptKey
from smena.records.settlements import Kind, StoredMessage
from workers.broker.delivery import Delivery


@dataclass(slots=True)
class Pending:
    """One delivery on its way out.

    ``job`` is None where the message could not be decoded. ``key`` names the attempt where the outcome
    ends it, which needs a settlement row; ``written`` says that the row is there, ``doubtful`` that it may
    be: the answer to its writing was lost. ``instead`` makes the dead letter for a message that can never
    be sent, or that is not the job's own.
    """

    delivery: Delivery
    outgoing: Outgoing
    kind: Kind
    job: Job | None
    key: AttemptKey | None = None
    written: bool = False
    doubtful: bool = False
    instead: Callable[[SmenaError], Outgoing] | None = None

    def bury(self, error: SmenaError) -> None:
        """Let the dead letter for that error follow, where one can be made."""
        if self.instead is not None:
            self.outgoing, self.kind, self.instead = self.instead(error), "dead", None

    def resume(self, message: StoredMessage) -> None:
        """Let the message follow that the attempt's row keeps."""
        self.outgoing, self.kind, self.written = stored_outgoing(message), message.kind, True

    def may_be_settled(self) -> bool:
        """Say whether a row of this attempt may be of this very message, and of no other copy."""
        return self.doubtful or self.delivery.redelivered

    def is_another_job(self, body: bytes) -> bool:
        """Say whether a body that was kept under this job's id is of another job."""
        return self.job is not None and codec.holds_another_job(body, self.job)

    def attempt(self) -> AttemptKey:
        """Return the key of an outcome that ends an attempt."""
        assert self.key is not None, "a snooze or an undecodable message ends no attempt"  # noqa: S101
        return self.key

    def stored(self) -> StoredMessage:
        """Return the next message as a settlement keeps it."""
        out = self.outgoing
        properties = msgspec.to_builtins(out.properties)
        return StoredMessage(out.exchange, out.routing_key, out.body, properties, self.kind, out.declare or "")

    def facts(self) -> dict[str, Any]:
        """Return what an event says of it."""
        if self.job is None:
            return {"job": self.outgoing.properties.message_id, "queue": self.outgoing.declare}
        return self.job.facts()


def stored_outgoing(message: StoredMessage) -> Outgoing:
    """Return the message that a settlement keeps, as it was to be sent."""
    properties = msgspec.convert(message.properties, Properties)
    return Outgoing(message.exchange, message.routing_key, message.body, properties, message.queue, any_size=True)
