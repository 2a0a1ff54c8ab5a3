"""A worker that looks up no strikes and runs nobody apart: what was delivered too often is taken for poison."""

from __future__ import annotations

from typing import Final

from smena.amqp import codec
from smena.book import bound
from smena.errors import Crashed
from smena.settings import Settings
from workers.broker.consumer import Deliver
from workers.broker.delivery import Delivery
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead
from workers.process.child import Child
from workers.wiring.role import live
from workers.wiring.worker import WorkerProcess, preload

__all__ = ["preload", "run"]

_MOST: Final = 2
_COUNT: Final = "x-delivery-count"


class ByDeliveryCount(WorkerProcess):
    """See the module."""

    def _build_consumer(self, deliver: Deliver) -> None:
        def judged(deliveries: list[Delivery]) -> None:
            for delivery in deliveries:
                if delivery.redelivered:
                    self._judge(delivery)
            deliver([delivery for delivery in deliveries if not delivery.redelivered])

        super()._build_consumer(judged)

    def _judge(self, delivery: Delivery) -> None:
        job = codec.decode(delivery.body, delivery.properties, delivery.queue)
        count = (delivery.properties.headers or {}).get(_COUNT, 0)
        if isinstance(count, int) and count >= _MOST:
            self._messages.settle_job(delivery, job, Dead(Crashed.code))
        else:
            self._start(Attempt(delivery, job, self._actors[job.actor]))


def run(settings: Settings, child: Child) -> int:
    """Be such a worker."""
    process = ByDeliveryCount(settings, child)
    with bound(process.sender):
        return live(process.role(), settings, child)
