"""Errors that raise where they are looked at are unknown errors, and what cannot be settled is not run again."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from smena.book import Book
from smena.clock import SYSTEM
from smena.errors import DatabaseLost, Permanent
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from smena.telemetry.plain_text import error_text
from tests.fixtures.fix_events import Listen
from tests.fixtures.hostile_errors import UNKNOWN, BadCode, BadResponse, ClassRaises
from tests.fixtures.ring_bench import Bench
from workers.execution import pool_frames
from workers.middleware.attempt import Attempt
from workers.middleware.evidence import of_error
from workers.middleware.outcome import MOST_REASON_CHARS, Dead, Done, Retry, Returned
from workers.middleware.settle import MOST_UNSETTLED, UNSETTLED
from workers.middleware.unaskable import Unaskable, askable
from workers.middleware.verdict import Judge

book = Book("unaskable")
ran: list[str] = []


class Wordy(Permanent):
    """A domain error with too much to say."""

    code = "w" * 20_000


def look_at(error: BaseException) -> None:
    """Do as a worker process does."""
    if isinstance(error, DatabaseLost) or (isinstance(error, OSError) and error.errno == errno.EMFILE):
        raise AssertionError


@book.actor()
def fails(kind: str) -> None:
    ran.append(kind)
    raise UNKNOWN[kind]()


@book.actor()
async def afails(kind: str) -> None:
    ran.append(kind)
    raise UNKNOWN[kind]()


@book.actor()
def breaks_a_rule(kind: str) -> None:
    raise Wordy if kind == "wordy" else BadCode


@book.actor()
def returns() -> int:
    ran.append("returns")
    return 3


@book.actor()
def forks() -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    raise SystemExit(ClassRaises())


def step(kind: str) -> NoReturn:
    raise UNKNOWN[kind]()


@pytest.fixture
def bench() -> Bench:
    ran.clear()
    return Bench(book, failed=look_at)


@pytest.fixture
def told(listen: Listen) -> list[Occurrence]:
    return listen(events.JOB_UNSETTLED)


@pytest.mark.parametrize("actor", ["unaskable.fails", "unaskable.afails"])
@pytest.mark.parametrize("kind", UNKNOWN)
def test_p12_an_error_that_raises_where_it_is_looked_at_is_an_unknown_error(
    bench: Bench, actor: str, kind: str
) -> None:
    attempt = bench.attempt(actor, kind)
    first = bench.run_attempt(attempt)
    attempt.job = attempt.job.replace(attempt=3)
    last = bench.run_attempt(attempt)
    assert isinstance(first, Retry)
    assert isinstance(last, Dead)
    assert last.reason in {"unexpected", "exhausted"}
    assert bench.settler.taken == [first, last]
    evidence = of_error(last.error, last.reason)
    assert evidence.fingerprint
    assert isinstance(error_text(first.error), str)


def test_what_is_known_of_an_error_that_lies_is_its_class_its_text_and_its_place() -> None:
    try:
        step("ClassRaises")
    except Exception as error:  # noqa: BLE001 - that is what is tested
        plain = askable(error)
    assert isinstance(plain, Unaskable)
    told = of_error(plain, "unexpected")
    assert told.error_text == "ClassRaises"
    assert "in step" in told.traceback


def test_an_error_whose_properties_raise_stands_for_itself() -> None:
    error = BadResponse()
    assert Judge(SYSTEM).classify(error) is error


def test_an_error_in_order_is_handed_on_as_it_is() -> None:
    error = ValueError("x")
    assert askable(error) is error


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_pool_process_tells_of_an_error_that_raises_where_it_is_looked_at(kind: str) -> None:
    frame = pool_frames.request(step, (kind,), 1 << 20)[pool_frames.HEAD.size :]
    answer = pool_frames.answer(frame, 1 << 20)
    told, _ = pool_frames.HEAD.unpack_from(answer)
    with pytest.raises(BaseException):  # noqa: B017 - whatever it is, the caller hears of it
        pool_frames.value(told, answer[pool_frames.HEAD.size :], "step", 1 << 20)


def test_a_code_that_is_too_long_is_cut_where_the_reason_is_made(bench: Bench) -> None:
    outcome, _ = bench.run("unaskable.breaks_a_rule", "wordy")
    assert isinstance(outcome, Dead)
    assert outcome.reason == "w" * MOST_REASON_CHARS


def test_a_code_that_raises_is_that_of_the_class_above(bench: Bench) -> None:
    outcome, _ = bench.run("unaskable.breaks_a_rule", "code")
    assert isinstance(outcome, Dead)
    assert outcome.reason == Permanent.code


def test_a_forked_child_ends_whatever_it_was_to_exit_with(bench: Bench, tmp_path: Path) -> None:
    parent = os.getpid()
    try:
        outcome, _ = bench.run("unaskable.forks")
    finally:
        if os.getpid() != parent:
            (tmp_path / "came out").touch()
            os._exit(99)
    assert outcome == Done(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("actor", ["unaskable.fails", "unaskable.afails"])
@pytest.mark.parametrize("faults", [1, MOST_UNSETTLED, MOST_UNSETTLED + 2])
def test_p12_what_cannot_be_settled_is_settled_later_and_not_run_again(
    bench: Bench, told: list[Occurrence], actor: str, faults: int
) -> None:
    bench.settler.faults = [KeyboardInterrupt()] * faults
    attempt = bench.attempt(actor, "BadResponse")
    for _ in range(faults):
        assert bench.run_attempt(attempt) == Returned(UNSETTLED)
        attempt = attempt.again()
    outcome = bench.run_attempt(attempt)

    assert ran == ["BadResponse"]
    assert bench.settler.taken == [outcome]
    if faults < MOST_UNSETTLED:
        assert isinstance(outcome, Retry)
    else:
        assert isinstance(outcome, Dead)
        assert outcome.reason == UNSETTLED
    facts = [(one.fields["job"], one.fields["attempt"], one.fields["times"]) for one in told]
    assert facts == [(attempt.job.id, 1, times) for times in range(1, faults + 1)]


def test_p12_what_is_done_and_cannot_be_acked_stays_done(told: list[Occurrence]) -> None:
    ran.clear()
    faults = [MemoryError()] * (MOST_UNSETTLED + 1)

    def done(attempt: Attempt) -> None:
        if faults:
            raise faults.pop()
        attempt.delivery.ack()

    bench = Bench(book, done)
    attempt = bench.attempt("unaskable.returns")
    for _ in range(MOST_UNSETTLED + 1):
        assert bench.run_attempt(attempt) == Returned(UNSETTLED)
        attempt = attempt.again()
    assert bench.run_attempt(attempt) == Done(3)
    assert ran == ["returns"]
    assert bench.settler.taken == []
    assert {one.fields["outcome"] for one in told} == {"done"}
