"""Show people where a job failed: its traceback from the actor's own code on."""

from __future__ import annotations

import re
from typing import Final

_BAR: Final = r"(?:  \| )?"  # before each line of an exception group
_CALL: Final = r'.*workers[/\\]middleware[/\\]actor\.py", line \d+, in _called(?:_async)?'
_HOUSE_FRAMES: Final = re.compile(
    rf"^((?:  \+ Exception Group )?Traceback \(most recent call last\):\n)(?:{_BAR}  .*\n)*?"
    rf'{_BAR}  File "{_CALL}\n(?:{_BAR}    .*\n)*(?={_BAR}  File )',
    re.MULTILINE,
)
"""The frames down to the one that calls the actor, where others follow."""


def from_the_actor_on(trace: str) -> str:
    """Leave out the frames by which a worker comes to the actor; what never came there, or not as usual, stays."""
    return _HOUSE_FRAMES.sub(r"\1", trace)
