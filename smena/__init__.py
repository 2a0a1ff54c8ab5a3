"""The library for services and job authors: words, publishing, outbox, store, guarantees, telemetry.

`import smena` is all that a service or an author of jobs needs; every public name is here and is loaded
when it is first used, so that importing `smena` costs nothing and does nothing.

    import smena

    book = smena.Book("payments")

    @book.actor(queue="payments", once=lambda invoice: invoice)
    def charge(ctx: smena.Context, /, invoice: str) -> None: ...

    with smena.connect():
        charge.send("489434")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from smena.version import __version__

if TYPE_CHECKING:
    from smena import errors, outbox, schedules
    from smena.book import (
        Actor,
        Book,
        RemoteActor,
        Retry,
        Schedule,
        Sender,
        TimeLimit,
        asend,
        bound,
        by_name,
        send,
        send_many,
    )
    from smena.broker import SmenaBroker
    from smena.connected import Connected, connect
    from smena.context import Context, following
    from smena.errors import (
        BrokerBlocked,
        BrokerLost,
        DatabaseBusy,
        DatabaseLost,
        DelayTooLong,
        InvalidArguments,
        Lost,
        Misconfigured,
        Misdeclared,
        Misused,
        NotPicklable,
        OrderBroken,
        OutOfMemory,
        Overdue,
        Permanent,
        PoolBroken,
        PoolBusy,
        PublishRefused,
        PublishTimeout,
        Refused,
        Shutdown,
        SmenaError,
        StepDied,
        StepFailed,
        StepTooLarge,
        TimedOut,
        TimeLimitExceeded,
        TimeUp,
        TooLarge,
        TopologyMismatch,
        Transient,
        Unroutable,
        Unsendable,
    )
    from smena.job import Job
    from smena.settings import Settings, app_settings
    from smena.timetable import cron, every

__all__ = [
    "Actor",
    "Book",
    "BrokerBlocked",
    "BrokerLost",
    "Connected",
    "Context",
    "DatabaseBusy",
    "DatabaseLost",
    "DelayTooLong",
    "InvalidArguments",
    "Job",
    "Lost",
    "Misconfigured",
    "Misdeclared",
    "Misused",
    "NotPicklable",
    "OrderBroken",
    "OutOfMemory",
    "Overdue",
    "Permanent",
    "PoolBroken",
    "PoolBusy",
    "PublishRefused",
    "PublishTimeout",
    "Refused",
    "RemoteActor",
    "Retry",
    "Schedule",
    "Sender",
    "Settings",
    "Shutdown",
    "SmenaBroker",
    "SmenaError",
    "StepDied",
    "StepFailed",
    "StepTooLarge",
    "TimeLimit",
    "TimeLimitExceeded",
    "TimeUp",
    "TimedOut",
    "TooLarge",
    "TopologyMismatch",
    "Transient",
    "Unroutable",
    "Unsendable",
    "__version__",
    "app_settings",
    "asend",
    "bound",
    "by_name",
    "connect",
    "cron",
    "errors",
    "every",
    "following",
    "outbox",
    "schedules",
    "send",
    "send_many",
]

_ROOMS: Final = {
    "book": (
        "Actor",
        "Book",
        "RemoteActor",
        "Retry",
        "Schedule",
        "Sender",
        "TimeLimit",
        "asend",
        "bound",
        "by_name",
        "send",
        "send_many",
    ),
    "broker": ("SmenaBroker",),
    "connected": ("Connected", "connect"),
    "context": ("Context", "following"),
    "errors": (
        "BrokerBlocked",
        "BrokerLost",
        "DatabaseBusy",
        "DatabaseLost",
        "DelayTooLong",
        "InvalidArguments",
        "Lost",
        "Misconfigured",
        "Misdeclared",
        "Misused",
        "NotPicklable",
        "OrderBroken",
        "OutOfMemory",
        "Overdue",
        "Permanent",
        "PoolBroken",
        "PoolBusy",
        "PublishRefused",
        "PublishTimeout",
        "Refused",
        "Shutdown",
        "SmenaError",
        "StepDied",
        "StepFailed",
        "StepTooLarge",
        "TimeLimitExceeded",
        "TimeUp",
        "TimedOut",
        "TooLarge",
        "TopologyMismatch",
        "Transient",
        "Unroutable",
        "Unsendable",
    ),
    "job": ("Job",),
    "settings": ("Settings", "app_settings"),
    "timetable": ("cron", "every"),
}
_ROOM_OF: Final = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES: Final = ("errors", "outbox", "schedules")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"smena.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'smena' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"smena.{_ROOM_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
