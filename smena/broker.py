"""Let Dramatiq's own words work on Smena: a Dramatiq `Broker` that sends by the process's sender.

Two uses. When a worker binds its books, every actor becomes a Dramatiq actor on such a broker, so that
tools which know Dramatiq see it. And code that holds a Dramatiq `Message` can enqueue it. Messages are
consumed only by Smena's own worker; the methods that would consume say so.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

import dramatiq
from dramatiq.broker import Broker, Consumer
from dramatiq.middleware import Middleware, MiddlewareError

from smena.book import Actor, Registry, check_queue_name
from smena.book import send as send_bound
from smena.book.address import new_job
from smena.book.remote import plain_arguments
from smena.book.sender import Sender
from smena.errors import Misconfigured
from smena.job import Job

_WORKER: Final = "jobs are done by `smena worker`"


class SmenaBroker(Broker):
    """Enqueue Dramatiq messages through Smena.

    ``sender`` is the process's bound one unless given. ``middleware`` is Dramatiq's: its options are
    accepted and its hooks round declaring and enqueueing run; retries, limits and acknowledgement are
    the work of Smena's rings.
    """

    def __init__(self, *, sender: Sender | None = None, middleware: list[Middleware] | None = None) -> None:
        super().__init__(middleware)
        self.queues: dict[str, None] = {}
        self._sender = sender
        self._registry = Registry(())
        self.add_middleware(_RefuseDramatiqWorker())

    def bind(self, registry: Registry) -> None:
        """Make every actor of the loaded books a Dramatiq actor here; binding again changes nothing."""
        self._registry = registry
        for actor in registry.actors():
            if actor.name not in self.actors:
                BoundActor(actor, self)

    def declare_queue(self, queue_name: str) -> None:
        """Note the queue; it is declared on RabbitMQ when something is first sent to it or consumed from it."""
        if queue_name in self.queues:
            return
        check_queue_name(queue_name)
        self.emit_before("declare_queue", queue_name)
        self.queues[queue_name] = None
        self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: dramatiq.Message[Any], *, delay: int | None = None) -> dramatiq.Message[Any]:
        """Send a message, ``delay`` milliseconds from now; return it once it is durable.

        Raises what the process's sender raises; `InvalidArguments` or `Unsendable` come before anything is sent.
        """
        self.declare_queue(message.queue_name)
        self.emit_before("enqueue", message, delay)
        job = self._job_of(message)
        delay_s = (delay or 0) / 1000
        if self._sender is None:
            send_bound(job, delay_s=delay_s)
        else:
            self._sender.send(job, delay_s=delay_s)
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30000) -> Consumer:  # noqa: ARG002
        """Refuse: Dramatiq's worker would ack without settling."""
        _refuse(f"SmenaBroker has no consumer for Dramatiq's worker: {_WORKER}", queue=queue_name)

    def flush(self, queue_name: str) -> None:
        """Refuse: accepted jobs are not dropped."""
        _refuse("SmenaBroker drops no accepted job; purge the queue on RabbitMQ if it must be", queue=queue_name)

    def flush_all(self) -> None:
        """Refuse: accepted jobs are not dropped."""
        _refuse("SmenaBroker drops no accepted job; purge the queues on RabbitMQ if it must be")

    def join(self, queue_name: str, *, timeout: int | None = None) -> None:  # noqa: ARG002
        """Refuse: a queue shared by a fleet is never known to be done."""
        _refuse(f"SmenaBroker cannot wait for a queue of a running fleet: {_WORKER}", queue=queue_name)

    def _job_of(self, message: dramatiq.Message[Any]) -> Job:
        """Return the job that a message is, its arguments checked as far as its actor is known."""
        known = self._registry.actor(message.actor_name)
        travelling = known.arguments.travelling if known is not None else plain_arguments
        args, kwargs = travelling(message.args, message.kwargs)
        _, options = plain_arguments((), message.options)
        job = new_job(message.actor_name, message.queue_name, args, kwargs)
        job = job.replace(id=message.message_id, options=options, timestamp_ms=message.message_timestamp)
        if known is None or known.partitions is None:
            return job
        return known.partitions.placed(job, *known.accepts(args, kwargs))


class BoundActor(dramatiq.Actor[..., Any]):
    """A book's actor as Dramatiq sees it; calling it is a plain call of the function."""

    def __init__(self, actor: Actor[..., Any], broker: SmenaBroker) -> None:
        super().__init__(actor.fn, broker=broker, actor_name=actor.name, queue_name=actor.queue, priority=0, options={})


class _RefuseDramatiqWorker(Middleware):
    """Stop Dramatiq's worker at its start, where an error still ends it."""

    def before_worker_boot(self, broker: Broker, worker: object) -> NoReturn:  # noqa: ARG002
        raise MiddlewareError(f"Dramatiq's worker cannot run on SmenaBroker: {_WORKER}")


def _refuse(why: str, **facts: Any) -> NoReturn:
    raise Misconfigured(why, **facts)
