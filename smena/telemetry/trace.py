"""Make the ids that travel with a job: W3C trace context and the request id.

The module's name is the standard's word; nothing here wants the standard library's line tracer.
Ids are random, not secret. Format: https://www.w3.org/TR/trace-context/ (version 00).
"""

from __future__ import annotations

import re
from random import getrandbits

_TRACEPARENT = re.compile(r"^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})\Z")


def new_traceparent(parent: str | None = None) -> str:
    """Return the context of a new span: a child of the parent's trace, or of a new, sampled one.

    A parent that is not well formed counts as none, as the standard asks.
    """
    found = _TRACEPARENT.match(parent) if parent else None
    if found is None:
        return f"00-{getrandbits(128) or 1:032x}-{getrandbits(64) or 1:016x}-01"
    return f"00-{found[1]}-{getrandbits(64) or 1:016x}-{found[2]}"


def trace_id(traceparent: str | None) -> str | None:
    """Return the 32 hexadecimal digits that name the trace, or None if there is no well-formed one."""
    found = _TRACEPARENT.match(traceparent) if traceparent else None
    return found[1] if found else None


def new_request_id() -> str:
    """Return 24 random hexadecimal digits."""
    return f"{getrandbits(96):024x}"
