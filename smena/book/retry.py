"""Say how often and how long an actor's failed job is tried again.

An author writes only what differs: ``Retry(attempts=10)``. What is left out comes from the settings
group ``retry`` when the process binds its books, so that every actor ends up with a whole policy:
attempts, backoff bounds and a total age.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Protocol

from smena.backoff import Backoff
from smena.errors import Misdeclared


class RetryDefaults(Protocol):
    """A whole set of values, as the settings group ``retry`` holds it."""

    @property
    def attempts(self) -> int: ...
    @property
    def base_s(self) -> float: ...
    @property
    def cap_s(self) -> float: ...
    @property
    def total_age_s(self) -> float: ...
    @property
    def unexpected_attempts(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long, with nothing left open."""

    attempts: int
    base_s: float
    cap_s: float
    total_age_s: float
    unexpected_attempts: int
    backoff: Backoff = field(init=False)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.unexpected_attempts < 1:
            raise Misdeclared("a job has at least one attempt", retry=self)
        if not 0 < self.base_s <= self.cap_s or self.total_age_s <= 0:
            raise Misdeclared("need 0 < base_s <= cap_s and total_age_s > 0", retry=self)
        object.__setattr__(self, "backoff", Backoff(base_s=self.base_s, cap_s=self.cap_s))

    def __str__(self) -> str:
        """Name the values that an author can set."""
        return " ".join(f"{each.name}={getattr(self, each.name)}" for each in fields(self) if each.init)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """An actor's retry policy; None means the value from the settings.

    ``attempts`` counts all starts, the first included; ``Retry(attempts=1)`` never tries again.
    ``base_s`` and ``cap_s`` bound the backoff. No retry starts later than ``total_age_s`` after the job
    was first enqueued. ``unexpected_attempts`` holds for errors that are neither `Transient` nor
    `Permanent`: probably bugs.
    """

    attempts: int | None = None
    base_s: float | None = None
    cap_s: float | None = None
    total_age_s: float | None = None
    unexpected_attempts: int | None = None

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value <= 0:
                raise Misdeclared("a value of Retry is above zero", **{each.name: value})

    def policy(self, defaults: RetryDefaults) -> RetryPolicy:
        """Fill what is left open from ``defaults``; raise `Misdeclared` when the sum does not fit.

        Few attempts in all bound the unexpected ones too, and a base above the default cap lifts it.
        """
        attempts = defaults.attempts if self.attempts is None else self.attempts
        base_s = defaults.base_s if self.base_s is None else self.base_s
        cap_s = max(defaults.cap_s, base_s) if self.cap_s is None else self.cap_s
        unexpected = defaults.unexpected_attempts if self.unexpected_attempts is None else self.unexpected_attempts
        return RetryPolicy(
            attempts=attempts,
            base_s=min(base_s, cap_s) if self.base_s is None else base_s,
            cap_s=cap_s,
            total_age_s=defaults.total_age_s if self.total_age_s is None else self.total_age_s,
            unexpected_attempts=min(unexpected, attempts),
        )
