"""Say which name a queue may carry: one rule for where it is declared, set and used.

It becomes part of queue names and routing keys on the broker, where `*` and `#` are wildcards, `….dead` are dead
letters, `….p07` a partition, and `lost`, `canary` and `delay…` are Smena's own; AMQP holds such a key in 255 bytes,
of which a delay spends up to a quarter.
"""

from __future__ import annotations

import re
from typing import Final

_LONGEST: Final = 127
_WORDS: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_RESERVED: Final = re.compile(r"lost|canary|delay(\..*)?|(.*\.)?dead|.*\.p\d{2,4}")


def fault_of(name: object) -> str | None:
    """Return the rule that the name breaks, or None."""
    if not isinstance(name, str) or len(name) > _LONGEST or not _WORDS.fullmatch(name):
        return f"a queue's name is 1 to {_LONGEST} letters, digits, `_` or `-`, in words parted by dots"
    return "this queue name is one of Smena's own" if _RESERVED.fullmatch(name) else None
