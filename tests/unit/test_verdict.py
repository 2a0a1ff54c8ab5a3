"""From an error to an outcome: every branch of the taxonomy, drivers, HTTP clients, networks, bugs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from smena import errors
from smena.book import RetryPolicy
from smena.clock import MovedClock
from smena.job import Job
from smena.store.terms import Term
from workers.middleware.outcome import Dead, Lost, Retry, Returned, Snooze
from workers.middleware.verdict import LONGEST_RETRY_AFTER_S, SHUTDOWN_CANCEL, Judge

START = datetime(2026, 1, 1, tzinfo=UTC)
CLOCK = MovedClock(START)
JUDGE = Judge(CLOCK)
POLICY = RetryPolicy(attempts=5, base_s=1, cap_s=60, total_age_s=3600, unexpected_attempts=3)


def job(attempt: int = 1, born_ms: int | None = None) -> Job:
    born = CLOCK.now_ms() if born_ms is None else born_ms
    return Job(actor="shop.pay", queue="shop", attempt=attempt, timestamp_ms=born, first_enqueued_at_ms=born)


@dataclass
class Response:
    status_code: int
    headers: dict[str, str] = field(default_factory=dict)


class HttpError(Exception):
    def __init__(self, status: int, retry_after: str | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.response = Response(status, {} if retry_after is None else {"Retry-After": retry_after})


def leaves(kind: type[errors.SmenaError] = errors.SmenaError) -> Iterator[type[errors.SmenaError]]:
    for child in kind.__subclasses__():
        if child.__module__ == "smena.errors":
            yield child
            yield from leaves(child)


@pytest.mark.parametrize("kind", sorted(set(leaves()), key=str))
def test_every_error_of_the_taxonomy_has_its_outcome(kind: type[errors.SmenaError]) -> None:
    outcome = JUDGE.judge(kind("told"), job(), POLICY)
    if issubclass(kind, errors.PoolBusy):
        assert isinstance(outcome, Snooze)
    elif issubclass(kind, errors.PoolBroken):
        assert outcome == Returned(kind.code)
    elif issubclass(kind, errors.StepFailed):
        assert isinstance(outcome, Retry)
        assert JUDGE.judge(kind("told"), job(3), POLICY).reason == "unexpected"  # type: ignore[union-attr]
    elif issubclass(kind, errors.Transient) or issubclass(kind, errors.Lost):
        assert isinstance(outcome, Retry)
    else:
        assert isinstance(outcome, Dead)
        assert outcome.reason == kind.code


def test_only_the_end_of_the_jobs_own_term_makes_it_anothers() -> None:
    own = Term("partition:stock.7", "me", 4)
    ended = errors.TermLost(lease=own.lease, term=own.number)
    assert JUDGE.judge(ended, job(), POLICY, own) == Lost("term_lost")
    for led in (errors.TermLost(lease="leader:scheduler", term=4), errors.TermLost(), errors.ClaimLost(item=1)):
        assert isinstance(JUDGE.judge(led, job(), POLICY, own), Retry)
        assert JUDGE.judge(led, job(POLICY.attempts), POLICY, own) == Dead("exhausted", led)
    assert isinstance(JUDGE.judge(ended, job(), POLICY), Retry)


def test_shutdown_returns_the_job_and_spends_nothing() -> None:
    assert JUDGE.judge(errors.Shutdown(), job(), POLICY) == Returned("shutdown")
    assert JUDGE.judge(asyncio.CancelledError(SHUTDOWN_CANCEL), job(), POLICY) == Returned("shutdown")


def test_a_cancellation_that_is_the_jobs_own_doing_is_an_unknown_error() -> None:
    assert isinstance(JUDGE.judge(asyncio.CancelledError(), job(), POLICY), Retry)
    assert JUDGE.judge(asyncio.CancelledError(), job(3), POLICY).reason == "unexpected"  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), ValueError("x"), Exception()])
def test_whatever_else_a_job_raises_is_tried_a_few_times_and_then_dead(error: BaseException) -> None:
    assert isinstance(JUDGE.judge(error, job(2), POLICY), Retry)
    assert JUDGE.judge(error, job(3), POLICY) == Dead("unexpected", error)


def test_p17_a_permanent_error_is_dead_at_its_first_attempt() -> None:
    class RuleBroken(errors.Permanent):
        """A rule is broken."""

        code = "rule_broken"

    error = RuleBroken()
    assert JUDGE.judge(error, job(), POLICY) == Dead("rule_broken", error)


def test_a_transient_error_is_dead_when_its_attempts_are_used_up() -> None:
    error = errors.BrokerLost()
    assert isinstance(JUDGE.judge(error, job(4), POLICY), Retry)
    assert JUDGE.judge(error, job(5), POLICY) == Dead("exhausted", error)


def test_p17_no_retry_starts_later_than_the_total_age() -> None:
    error = errors.BrokerLost()
    old = CLOCK.now_ms() - 3600 * 1000
    assert JUDGE.judge(error, job(1, old), POLICY) == Dead("too_old", error)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_http_answers_that_pass_are_tried_again(status: int) -> None:
    assert isinstance(JUDGE.judge(HttpError(status), job(4), POLICY), Retry)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_other_http_answers_are_unknown_errors(status: int) -> None:
    assert JUDGE.judge(HttpError(status), job(3), POLICY).reason == "unexpected"  # type: ignore[union-attr]


def test_retry_after_in_seconds_and_as_a_date_is_the_least_wait() -> None:
    in_seconds = JUDGE.judge(HttpError(429, "120"), job(), POLICY)
    as_date = JUDGE.judge(HttpError(503, format_datetime(START + timedelta(seconds=90), usegmt=True)), job(), POLICY)
    assert isinstance(in_seconds, Retry)
    assert in_seconds.delay_s == 120
    assert isinstance(as_date, Retry)
    assert as_date.delay_s == 90


@pytest.mark.parametrize("value", ["soon", "-5", "", "1e9", "9" * 400, "Thu, 99 Foo 2026", "\x00"])
def test_a_retry_after_that_makes_no_sense_is_ignored_or_capped(value: str) -> None:
    outcome = JUDGE.judge(HttpError(429, value), job(), POLICY)
    assert isinstance(outcome, Retry)
    assert outcome.delay_s <= max(POLICY.cap_s, LONGEST_RETRY_AFTER_S)


def test_network_errors_are_transient_even_under_a_library_error() -> None:
    try:
        try:
            raise ConnectionResetError
        except ConnectionResetError as reset:
            raise RuntimeError("the library's own") from reset
    except RuntimeError as error:
        wrapped = error
    assert isinstance(JUDGE.judge(wrapped, job(4), POLICY), Retry)
    assert isinstance(JUDGE.judge(TimeoutError(), job(4), POLICY), Retry)


def test_a_missing_file_is_no_network_error() -> None:
    assert JUDGE.judge(FileNotFoundError(), job(3), POLICY).reason == "unexpected"  # type: ignore[union-attr]


def test_a_driver_error_is_translated_first() -> None:
    judge = Judge(CLOCK, [lambda error: errors.DatabaseLost() if isinstance(error, LookupError) else None])
    assert isinstance(judge.judge(KeyError("x"), job(4), POLICY), Retry)


def test_a_circular_chain_of_causes_ends() -> None:
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    assert isinstance(JUDGE.judge(first, job(), POLICY), Retry)


class SilentlyMade(errors.Transient):
    """Its author forgot the constructor above."""

    def __init__(self) -> None:
        Exception.__init__(self, "odd")


class NumberedRule(errors.Permanent):
    """Its code is no text."""

    code = 7  # type: ignore[assignment]  # what the test is about


class RaisingCode(errors.Permanent):
    """Its code cannot be read."""

    @property
    def code(self) -> str:  # type: ignore[override]
        raise RuntimeError


class RaisingResponse(Exception):
    """An HTTP client's error that is broken itself."""

    @property
    def response(self) -> object:
        raise RuntimeError


@pytest.mark.parametrize("wait", ["soon", None, -1, float("nan"), float("inf"), 10**400, [], True])
def test_a_wait_that_makes_no_sense_is_not_waited_for(wait: object) -> None:
    outcome = JUDGE.judge(errors.Transient("x", retry_after_s=wait), job(), POLICY)  # type: ignore[arg-type]
    assert isinstance(outcome, Retry)
    assert 0 <= outcome.delay_s <= max(POLICY.cap_s, LONGEST_RETRY_AFTER_S)


@pytest.mark.parametrize("error", [SilentlyMade(), RaisingResponse()])
def test_an_error_that_is_broken_itself_is_judged_all_the_same(error: Exception) -> None:
    assert isinstance(JUDGE.judge(error, job(1), POLICY), Retry)
    assert isinstance(JUDGE.judge(error, job(5), POLICY), Dead)


@pytest.mark.parametrize("error", [NumberedRule(), RaisingCode()])
def test_a_code_that_is_no_text_gives_way_to_the_nearest_one_that_is(error: errors.Permanent) -> None:
    assert JUDGE.judge(error, job(), POLICY) == Dead("permanent", error)


def test_shutdown_raised_by_a_job_while_nothing_ends_is_an_unknown_error() -> None:
    judge = Judge(CLOCK, ending=lambda: False)
    assert isinstance(judge.judge(errors.Shutdown(), job(), POLICY), Retry)
    assert judge.judge(errors.Shutdown(), job(3), POLICY).reason == "unexpected"  # type: ignore[union-attr]
