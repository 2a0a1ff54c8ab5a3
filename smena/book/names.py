"""Say which names books, actors and queues may carry.

A queue's name becomes part of queue names and routing keys on the broker, where `*` and `#` are
wildcards, `.dead` marks the dead letters and `smena.lost` and `smena.delay…` are Smena's own;
Dramatiq's own queues end in `.DQ` and `.XQ`. AMQP holds such a key in 255 bytes, and a delay level's
key spends 56 of them before the queue's name.
"""

from __future__ import annotations

import re
from typing import Final

from smena.errors import Misconfigured

MAX_QUEUE_NAME: Final = 127
MAX_ACTOR_NAME: Final = 200

_QUEUE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ACTOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_RESERVED_ENDS: Final = (".dead", ".DQ", ".XQ", ".")
_RESERVED_STARTS: Final = ("delay", "lost", "canary")


def check_queue_name(queue: str) -> str:
    """Return the name of a work queue, or raise `Misconfigured` with the rule that it breaks."""
    if not _QUEUE.fullmatch(str(queue)):
        raise Misconfigured("a queue's name is letters, digits, `_`, `-` and `.`, not first `.` or `-`", queue=queue)
    if len(queue) > MAX_QUEUE_NAME:
        raise Misconfigured(f"a queue's name has at most {MAX_QUEUE_NAME} characters", queue=queue)
    if queue.endswith(_RESERVED_ENDS) or queue.split(".")[0] in _RESERVED_STARTS or ".." in queue:
        raise Misconfigured("this name is kept for the broker's own queues beside a work queue", queue=queue)
    return queue


def check_actor_name(name: str) -> str:
    """Return the name of a book or an actor, or raise `Misconfigured` with the rule that it breaks."""
    if not _ACTOR.fullmatch(str(name)) or name.endswith("."):
        raise Misconfigured("a name is letters, digits, `_`, `-` and `.`, and begins with a letter or `_`", name=name)
    if len(name) > MAX_ACTOR_NAME:
        raise Misconfigured(f"a name has at most {MAX_ACTOR_NAME} characters", name=name)
    return name
