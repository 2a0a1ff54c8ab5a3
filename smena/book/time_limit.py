"""Say how long an attempt of an actor's job may run.

At ``soft_s`` it is interrupted: `TimeUp` in its thread, a cancellation in the event loop. It has ``grace_s`` from
there to clean up and end; what is then still running can only be ended with its process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from smena.errors import Misdeclared


class LimitDefaults(Protocol):
    """The limit of actors that declare none, as the settings group ``worker`` holds it."""

    @property
    def time_limit_s(self) -> float: ...
    @property
    def time_limit_grace_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long an attempt may run; ``grace_s`` None means the value from the settings."""

    soft_s: float
    grace_s: float | None = None

    def __post_init__(self) -> None:
        if not _is_time(self.soft_s) or not (self.grace_s is None or _is_time(self.grace_s)):
            raise Misdeclared("a time limit is a number of seconds above zero", time_limit=repr(self))


@dataclass(frozen=True, slots=True)
class TimePolicy:
    """How long an attempt may run here, with nothing left open; ``soft_s`` None means without end."""

    soft_s: float | None
    grace_s: float

    @property
    def hard_s(self) -> float:
        """Return the seconds after which nothing of the attempt runs any more."""
        return math.inf if self.soft_s is None else self.soft_s + self.grace_s


def read_limit(given: TimeLimit | float | None, place: str) -> TimeLimit | None:
    """Return what an author gave as a limit, plain seconds included; raise `Misdeclared` for what is none."""
    if given is None or isinstance(given, TimeLimit):
        return given
    try:
        return TimeLimit(given)
    except Misdeclared as refusal:
        told = "`time_limit` is seconds above zero, or a TimeLimit"
        raise Misdeclared(told, place=place, got=repr(given)) from refusal


def time_policy(limit: TimeLimit | None, defaults: LimitDefaults) -> TimePolicy:
    """Fill what is left open from ``defaults``, where 0 means no limit."""
    if limit is None:
        return TimePolicy(defaults.time_limit_s or None, defaults.time_limit_grace_s)
    return TimePolicy(limit.soft_s, defaults.time_limit_grace_s if limit.grace_s is None else limit.grace_s)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
