"""Name what a delivery can come to: a closed set.

Every delivery ends as exactly one of these values. `SETTLING` says for each what is made durable
before the message is acked, whether it is acked at all, and whether an attempt is spent;
`docs/reference/outcomes.md` prints it and `settle.py` carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

MOST_REASON_CHARS: Final = 100
"""What is kept of a reason: letters are listed and counted by it."""


@dataclass(frozen=True, slots=True)
class Done:
    """The actor returned, or the job's ``once`` key was found."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed and another one comes after ``delay_s``."""

    delay_s: float
    error: BaseException


@dataclass(frozen=True, slots=True)
class Snooze:
    """The job could not start for a reason outside itself; it comes back after ``delay_s``."""

    delay_s: float
    why: str


YIELDED = "its turn was over"
"""Why a shard job of a batch comes back at once, behind those that wait; it is told of in no log."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The job goes back as it came: the process ends, or a ring could not decide."""

    why: str


@dataclass(frozen=True, slots=True)
class Dead:
    """The job is over and failed; ``reason`` is a stable word for operators."""

    reason: str
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """An operator or the sender took the job back before it started."""

    by: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The job is another's: the term of its partition is over."""

    why: str


Outcome = Done | Retry | Snooze | Returned | Dead | Cancelled | Lost

DONE = Done()
"""The common outcome, made once: most actors return nothing."""


@dataclass(frozen=True, slots=True)
class Settling:
    """What settling an outcome means."""

    durable_first: str
    acked: bool
    spends_attempt: bool


SETTLING: dict[type[Outcome], Settling] = {
    Done: Settling("the effect's own commit, with the `once` key where there is one", acked=True, spends_attempt=True),
    Retry: Settling("the settlement row, then the next attempt in a delay level", acked=True, spends_attempt=True),
    Snooze: Settling("the same attempt in a delay level", acked=True, spends_attempt=False),
    Returned: Settling("nothing: the message stays with the broker", acked=False, spends_attempt=False),
    Dead: Settling("the settlement row, then the dead letter", acked=True, spends_attempt=True),
    Cancelled: Settling("the tombstone that cancelled it", acked=True, spends_attempt=False),
    Lost: Settling("nothing: whoever holds the work has made it durable", acked=True, spends_attempt=False),
}
