"""Find the value in a message that JSON or PostgreSQL cannot hold. Slow, so called only on suspicion."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, Protocol

_MAX_DEPTH: Final = 200


class Message(Protocol):
    """The parts of a message in which a sender's values lie."""

    queue_name: str
    actor_name: str
    args: Any
    kwargs: dict[str, Any]
    options: dict[str, Any]
    message_id: str


def find_unsendable(message: Message) -> str | None:
    """Return the path of the first bad value, as in ``kwargs.order.lines[3]``, or None."""
    for name in ("queue_name", "actor_name", "message_id", "args", "kwargs", "options"):
        for path in _bad(getattr(message, name), name, 0):
            return path
    return None


def holds_nul(message: Message) -> bool:
    """Say whether any text of the message, keys included, holds a NUL character."""
    parts = (message.queue_name, message.actor_name, message.message_id, message.args, message.kwargs, message.options)
    waiting: list[Any] = list(parts)
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            if "\0" in value:
                return True
        elif isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list | tuple):
            waiting += value
    return False


def _bad(value: Any, path: str, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        yield f"{path} (nested too deeply)"
    elif isinstance(value, dict):
        for name, one in value.items():
            if not isinstance(name, str) or not _is_text(name):
                yield f"{path} (key {name!r})"
            yield from _bad(one, f"{path}.{name}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from _bad(one, f"{path}[{index}]", depth + 1)
    elif not _is_sendable(value):
        yield path


def _is_sendable(value: Any) -> bool:
    if isinstance(value, str):
        return _is_text(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, int)


def _is_text(value: str) -> bool:
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
