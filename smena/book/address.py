"""Send to an actor: the verbs that are the same whether its code is here or elsewhere."""

from __future__ import annotations

from typing import Any, Generic, ParamSpec

from smena import context
from smena.book import sender
from smena.clock import SYSTEM
from smena.delay import Delay
from smena.job import Job
from smena.telemetry import trace

P = ParamSpec("P")


class Address(Generic[P]):
    """An actor's name and queue, and what can be sent there.

    Every verb checks the arguments before anything leaves: `InvalidArguments` when they do not fit,
    `Unsendable` when they cannot travel. Sending then raises what the process's `Sender` raises.
    """

    name: str
    queue: str

    def message(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Make the job without sending it: for `send_many`, for the outbox, or to change a field first."""
        args_, kwargs_ = self._travelling(args, kwargs)
        return new_job(self.name, self.queue, args_, kwargs_)

    def send(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Send a job; return it once it is durable."""
        return sender.send(self.message(*args, **kwargs))

    async def asend(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Send a job from an event loop; return it once it is durable."""
        return await sender.asend(self.message(*args, **kwargs))

    def send_later(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Send a job that starts no sooner than ``delay`` (seconds, or a `timedelta`) from now."""
        return sender.send(self.message(*args, **kwargs), delay_s=delay)

    async def asend_later(self, delay: Delay, /, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Send a delayed job from an event loop; the twin of `send_later`."""
        return await sender.asend(self.message(*args, **kwargs), delay_s=delay)

    def _travelling(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as JSON values."""
        raise NotImplementedError


def new_job(actor: str, queue: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
    """Make a job of JSON arguments, dated now, that follows from the running job or the followed request."""
    here = context.origin()
    clock = here.clock if isinstance(here, context.Context) else SYSTEM
    now_ms = clock.now_ms()
    return Job(
        actor=actor,
        queue=queue,
        args=args,
        kwargs=kwargs,
        timestamp_ms=now_ms,
        first_enqueued_at_ms=now_ms,
        request_id=here.request_id or trace.new_request_id(),
        traceparent=trace.new_traceparent(here.traceparent),
    )
