"""Judge a failed attempt: from an error to an outcome, by the table of the failure policy.

The branch of the error says who acts next (`smena/errors.py`); the actor's `Retry` policy says how
often and how late. Errors of drivers and HTTP clients are translated first. `judge` is pure but for
the jitter and never raises: what it cannot make sense of is an unknown error.
"""

from __future__ import annotations

import random
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from smena.book import RetryPolicy
from smena.clock import Clock
from smena.errors import Lost as LostError
from smena.errors import (
    Misconfigured,
    Overdue,
    Permanent,
    PoolBroken,
    PoolBusy,
    Refused,
    Shutdown,
    SmenaError,
    Transient,
)
from smena.job import Job
from smena.store.terms import Term
from workers.middleware.outcome import MOST_REASON_CHARS, Dead, Lost, Outcome, Retry, Returned, Snooze

Translate = Callable[[BaseException], SmenaError | None]

PASSING_STATUS = frozenset({408, 425, 429})
"""HTTP answers that ask to come back later, besides all of 5xx (RFC 9110, RFC 6585, RFC 8470)."""

NETWORK_ERRORS = (ConnectionError, TimeoutError)

NETWORK_ERROR_NAMES = frozenset(
    {
        "httpx.TransportError",
        "aiohttp.client_exceptions.ClientConnectionError",
        "aiohttp.client_exceptions.ServerTimeoutError",
        "aiohttp.client_exceptions.ClientPayloadError",
        "urllib3.exceptions.HTTPError",
        "socket.gaierror",
    }
)
"""Network errors that are no `ConnectionError`, known by name so that no client is imported."""

SHUTDOWN_CANCEL = "smena: the process is ending"
"""The message of a cancellation that means `Shutdown`; any other is the job's own doing."""

BUSY_POOL_PAUSE_S = 5.0
"""Mean pause before a job comes back that no pool process was free for; jittered by half of it."""

LONGEST_RETRY_AFTER_S = 3600.0
"""A server that asks for more is asked again after an hour."""

_CAUSES_FOLLOWED = 8


@dataclass(frozen=True, slots=True)
class Judge:
    """Turn errors into outcomes."""

    clock: Clock
    translations: Sequence[Translate] = ()
    ending: Callable[[], bool] = lambda: True
    """Whether the process ends: only then is a `Shutdown` more than an odd thing for a job to raise."""

    def judge(self, error: BaseException, job: Job, policy: RetryPolicy, term: Term | None = None) -> Outcome:
        """Return what the attempt comes to; the error may be anything a job can raise.

        ``term`` is the one under which the job runs, if it does: only the end of that one makes the job another's.
        """
        try:
            return self._judged(error, job, policy, term)
        except BaseException:  # noqa: BLE001 - an error's own properties are the job's code: then it is unknown
            return self._unexpected(error, job, policy)

    def _judged(self, error: BaseException, job: Job, policy: RetryPolicy, term: Term | None) -> Outcome:
        known = self.classify(error)
        match known:
            case Shutdown() if self.ending():
                return Returned("shutdown")
            case LostError() if _ends(known, term):
                return Lost(_code(known))
            case LostError():  # of something that the job itself held: the job is still ours, and not done
                return self._later(error, None, job, policy, policy.attempts, "exhausted")
            case Permanent() | Refused() | Misconfigured() | Overdue():
                return Dead(_code(known), error)
            case PoolBusy():
                pause_s = BUSY_POOL_PAUSE_S * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
                return Snooze(pause_s, _code(known))
            case PoolBroken():
                return Returned(_code(known))
            case Transient():
                wait_s = _seconds(getattr(known, "retry_after_s", None))
                return self._later(error, wait_s, job, policy, policy.attempts, "exhausted")
            case _:
                return self._unexpected(error, job, policy)

    def _unexpected(self, error: BaseException, job: Job, policy: RetryPolicy) -> Outcome:
        limit = min(policy.unexpected_attempts, policy.attempts)
        return self._later(error, None, job, policy, limit, "unexpected")

    def classify(self, error: BaseException) -> BaseException:
        """Return the error of the taxonomy that stands for ``error``, or ``error`` itself; never raises."""
        try:
            return self._classified(error)
        except BaseException:  # noqa: BLE001 - as above: one that cannot be read stands for itself
            return error

    def _classified(self, error: BaseException) -> BaseException:
        if isinstance(error, SmenaError | Shutdown):
            return error
        if is_shutdown(error):
            return Shutdown()
        for translate in self.translations:
            translated = translate(error)
            if translated is not None:
                return translated
        return _from_http(error, self.clock) or _from_network(error) or error

    def _later(
        self,
        error: BaseException,
        retry_after_s: float | None,
        job: Job,
        policy: RetryPolicy,
        limit: int,
        reason: str,
    ) -> Outcome:
        if job.attempt >= limit:
            return Dead(reason, error)
        delay_s = max(policy.backoff.wait_s(job.attempt), retry_after_s or 0.0)
        if self._age_s(job) + delay_s > policy.total_age_s:
            return Dead("too_old", error)
        if job.deadline_ms is not None:  # there the job ends, so there is nothing to wait for beyond
            delay_s = min(delay_s, max(0.0, (job.deadline_ms - self.clock.now_ms()) / 1000))
        return Retry(delay_s, error)

    def _age_s(self, job: Job) -> float:
        born_ms = job.first_enqueued_at_ms or job.timestamp_ms
        return max(0.0, (self.clock.now_ms() - born_ms) / 1000) if born_ms else 0.0


def is_shutdown(error: BaseException) -> bool:
    """Say whether it is the cancellation by which the fleet ends a coroutine."""
    return isinstance(error, CancelledError) and any(type(arg) is str and arg == SHUTDOWN_CANCEL for arg in error.args)


def _ends(error: LostError, term: Term | None) -> bool:
    return term is not None and error.facts == {"lease": term.lease, "term": term.number}


def _code(error: SmenaError) -> str:
    """Return the error's code, cut; where the author's is no text, the nearest one up its bases."""
    codes = (vars(kind).get("code") for kind in type(error).__mro__)
    return next(code for code in codes if isinstance(code, str) and code)[:MOST_REASON_CHARS]


def _seconds(value: object) -> float | None:
    """Return a wait that makes sense, or None."""
    if isinstance(value, int | float) and 0 <= value < float("inf"):
        return min(float(value), LONGEST_RETRY_AFTER_S)
    return None


def _from_http(error: BaseException, clock: Clock) -> Transient | None:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if not isinstance(status, int) or not (status in PASSING_STATUS or 500 <= status <= 599):
        return None
    get = getattr(getattr(response, "headers", None), "get", None)
    value = get("Retry-After") if callable(get) else None
    return Transient(retry_after_s=_retry_after_s(value, clock), status=status)


def _retry_after_s(value: object, clock: Clock) -> float | None:
    """Read an HTTP ``Retry-After``: seconds or a date (RFC 9110, 10.2.3)."""
    if not isinstance(value, str):
        return None
    try:
        seconds = float(value) if value.strip().isdigit() else _until_s(value, clock)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)


def _until_s(date: str, clock: Clock) -> float:
    return parsedate_to_datetime(date).timestamp() - clock.now_ms() / 1000


def _from_network(error: BaseException) -> Transient | None:
    for cause in _chain(error):
        if isinstance(cause, NETWORK_ERRORS) or not NETWORK_ERROR_NAMES.isdisjoint(_names(cause)):
            return Transient(type(cause).__name__)
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and what it was raised from; a chain may be long or circular."""
    current: BaseException | None = error
    for _ in range(_CAUSES_FOLLOWED):
        if current is None:
            return
        yield current
        current = current.__cause__


def _names(error: BaseException) -> Iterator[str]:
    for kind in type(error).__mro__:
        yield f"{kind.__module__}.{kind.__qualname__}"
        yield f"{kind.__module__.split('.')[0]}.{kind.__qualname__}"
