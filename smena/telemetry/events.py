"""Tell of what happened: `emit` one of the catalogue's events; logs, metrics and traces subscribe.

    events.emit(events.JOB_RETRIED, job=job.id, actor=job.actor, attempt=2, delay_s=1.5, error=text)

Observers fail open: a subscriber that raises is reported as `hook.failed` and otherwise ignored.
`emit` costs about a tenth of a microsecond when nobody listens to the event; where even building the
fields is too dear, ask `wanted` first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any

from smena.telemetry.catalogue import *  # noqa: F403  (the events are this module's vocabulary)
from smena.telemetry.catalogue import HOOK_FAILED, LOOP_FAILED
from smena.telemetry.event import LEVELS, Event, Level, Occurrence
from smena.telemetry.plain_text import error_text

Subscriber = Callable[[Occurrence], None]


class Exchange:
    """Keep who listens to what; emitting reads a ready-made route without a lock."""

    def __init__(self) -> None:
        self._subscriptions: list[tuple[Subscriber, int, frozenset[Event] | None]] = []
        self._routes: dict[Event, tuple[Subscriber, ...]] = {}
        self._changing = threading.Lock()

    def subscribe(
        self, subscriber: Subscriber, level: Level = "debug", only: Collection[Event] | None = None
    ) -> Callable[[], None]:
        """Call the subscriber for events of that level and above (or ``only`` those); return the way out."""
        entry = (subscriber, LEVELS[level], None if only is None else frozenset(only))
        with self._changing:
            self._subscriptions.append(entry)
            self._routes = {}

        def unsubscribe() -> None:
            with self._changing:
                if entry in self._subscriptions:
                    self._subscriptions.remove(entry)
                    self._routes = {}

        return unsubscribe

    def wanted(self, event: Event) -> bool:
        """Say whether anybody listens to the event."""
        route = self._routes.get(event)
        return bool(self._route(event) if route is None else route)

    def emit(self, event: Event, /, **fields: Any) -> None:
        """Tell all who listen; never raises."""
        route = self._routes.get(event)
        if route is None:
            route = self._route(event)
        if route:
            self._tell(route, Occurrence(event, fields))

    def _route(self, event: Event) -> tuple[Subscriber, ...]:
        with self._changing:
            route = tuple(
                subscriber
                for subscriber, least, only in self._subscriptions
                if (event in only if only is not None else event.severity >= least)
            )
            self._routes[event] = route
        return route

    def _tell(self, route: tuple[Subscriber, ...], occurrence: Occurrence) -> None:
        for subscriber in route:
            try:
                subscriber(occurrence)
            except Exception as failure:  # noqa: BLE001  (the seam: observers fail open)
                if occurrence.event is not HOOK_FAILED:
                    name = getattr(subscriber, "__qualname__", type(subscriber).__name__)
                    self.emit(HOOK_FAILED, hook=name, told=occurrence.event.name, error=error_text(failure))


_EXCHANGE = Exchange()
"""The process's own: events are told from everywhere, so handing it around would be a parameter of everything."""

subscribe = _EXCHANGE.subscribe
wanted = _EXCHANGE.wanted
emit = _EXCHANGE.emit


def loop_failed(loop: str, error: BaseException) -> None:
    """Tell that a round of a loop failed; the form of `smena.lifecycle.Loop`'s ``on_error``."""
    emit(LOOP_FAILED, loop=loop, error=error_text(error))
