"""A worker that acks each job when it comes, before anything of it is durable."""

from __future__ import annotations

from smena.book import bound
from smena.settings import Settings
from workers.broker.consumer import Deliver
from workers.broker.delivery import Delivery
from workers.process.child import Child
from workers.wiring.role import live
from workers.wiring.worker import WorkerProcess, preload

__all__ = ["preload", "run"]


class AckFirst(WorkerProcess):
    """See the module."""

    def _build_consumer(self, deliver: Deliver) -> None:
        def acked(deliveries: list[Delivery]) -> None:
            for delivery in deliveries:
                delivery.ack()
            deliver(deliveries)

        super()._build_consumer(acked)


def run(settings: Settings, child: Child) -> int:
    """Be such a worker."""
    process = AckFirst(settings, child)
    with bound(process.sender):
        return live(process.role(), settings, child)
