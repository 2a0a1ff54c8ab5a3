"""Say which names books, actors and queues may carry, when they are declared.

A queue's name becomes part of queue names and routing keys on the broker, where `*` and `#` are
wildcards, `….dead` are dead letters, `….p07` a partition, and `lost`, `canary` and `delay…` are Smena's own; AMQP
holds such a key in 255 bytes, of which a delay spends up to a quarter. (`smena/amqp/names.py`, a floor above,
makes those names; a test holds its rule and this one equal.)
"""

from __future__ import annotations

import re
from typing import Final

from smena.errors import Misdeclared

MAX_QUEUE_NAME: Final = 127
MAX_ACTOR_NAME: Final = 200
"""An actor's name travels in the property `type`, which holds 255 bytes."""

_QUEUE: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_RESERVED: Final = re.compile(r"lost|canary|delay(\..*)?|(.*\.)?dead|.*\.p\d{2,4}")
_ACTOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


def check_queue_name(queue: object) -> str:
    """Return the name of a work queue, or raise `Misdeclared` with the rule that it breaks."""
    if not isinstance(queue, str) or len(queue) > MAX_QUEUE_NAME or not _QUEUE.fullmatch(queue):
        rule = f"a queue's name is 1 to {MAX_QUEUE_NAME} letters, digits, `_` or `-`, in words parted by dots"
        raise Misdeclared(rule, queue=repr(queue)[:200])
    if _RESERVED.fullmatch(queue):
        raise Misdeclared("this queue name is one of Smena's own", queue=repr(queue))
    return queue


def check_actor_name(name: object) -> str:
    """Return the name of a book or an actor, or raise `Misdeclared` with the rule that it breaks."""
    if not isinstance(name, str) or len(name) > MAX_ACTOR_NAME or not _ACTOR.fullmatch(name):
        rule = f"a name is 1 to {MAX_ACTOR_NAME} letters, digits, `_` or `-`, in words parted by dots"
        raise Misdeclared(f"{rule}, and begins with a letter or `_`", name=repr(name)[:200])
    return name
