"""Check the names that books, actors and queues carry, when they are declared."""

from __future__ import annotations

import re
from typing import Final

from smena.errors import Misdeclared
from smena.queue_name import fault_of

MAX_ACTOR_NAME: Final = 200
"""An actor's name travels in the property `type`, which holds 255 bytes."""

_ACTOR: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")


def check_queue_name(queue: object) -> str:
    """Return the name of a work queue, or raise `Misdeclared` with the rule that it breaks."""
    if fault := fault_of(queue):
        raise Misdeclared(fault, queue=repr(queue)[:200])
    return str(queue)


def check_actor_name(name: object) -> str:
    """Return the name of a book or an actor, or raise `Misdeclared` with the rule that it breaks."""
    if not isinstance(name, str) or len(name) > MAX_ACTOR_NAME or not _ACTOR.fullmatch(name):
        rule = f"a name is 1 to {MAX_ACTOR_NAME} letters, digits, `_` or `-`, in words parted by dots"
        raise Misdeclared(f"{rule}, and begins with a letter or `_`", name=repr(name)[:200])
    return name
