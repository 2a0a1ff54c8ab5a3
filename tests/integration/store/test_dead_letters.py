"""Any dead letter becomes a row, and none is a reason to lose those beside it (guarantee 8, P25)."""

from datetime import UTC, datetime
from typing import Any

import pytest

from smena.records.dead_letters import DeadLetter, DeadLetters
from smena.store.database import Database

DIED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def letter(job_id: str = "job-1", **facts: Any) -> DeadLetter:
    usual: dict[str, Any] = {"attempt": 1, "queue": "q", "reason": "bad", "died_at": DIED, "body": b"\x00\xff"}
    return DeadLetter(job_id=job_id, **usual | facts)


def test_a_letter_comes_back_as_it_was(database: Database) -> None:
    letters = DeadLetters(database)
    whole = letter(
        source="smena.q.dead", actor="a.b", error_class="ValueError", error_text="no", traceback="at line 1",
        fingerprint="f", first_enqueued_at=DIED, worker="w", build="1", request_id="r", properties={"type": "a.b"},
    )  # fmt: skip
    assert letters.insert_many([whole]) == [None]
    (stored,) = letters.newest()
    assert stored.letter == whole
    assert letters.get(stored.id) == stored
    assert letters.of_job("job-1") == [stored]


def test_one_death_is_one_row_however_often_it_is_told(database: Database) -> None:
    letters = DeadLetters(database)
    assert letters.insert_many([letter(), letter(attempt=2)]) == [None, None]
    assert letters.insert_many([letter(reason="again"), letter("job-2"), letter("job-2")]) == [None] * 3
    assert letters.count_by_reason() == {"bad": 3}


@pytest.mark.parametrize(
    "strange",
    [
        {"error_text": "nul \x00 and lone \ud800"},
        {"error_text": "x" * 50_000_000},
        {"traceback": "\ud800" * 1_000_000, "actor": "\x00", "reason": "\udfff", "queue": "q\x00"},
        {"job_id": "\x00", "attempt": 10**30},
        {"properties": {"nan": float("nan"), "nul\x00": ["\ud800", b"\x00", {1: float("inf")}]}},
        {"died_at": datetime.min.replace(tzinfo=UTC), "first_enqueued_at": datetime.max.replace(tzinfo=UTC)},
    ],
)
def test_nothing_in_a_letter_can_keep_it_out_of_the_table(database: Database, strange: dict[str, Any]) -> None:
    letters = DeadLetters(database)
    assert letters.insert_many([letter("before"), letter(**strange), letter("after")]) == [None] * 3
    assert len(letters.newest()) == 3


def test_a_row_that_is_refused_fails_alone_or_is_kept_plainer(database: Database) -> None:
    letters = DeadLetters(database)
    plainer = letter("plainer", first_enqueued_at="not a time", traceback="t")
    hopeless = letter("hopeless", died_at=None)
    first, second, third, fourth = letters.insert_many([letter("before"), plainer, hopeless, letter("after")])
    assert first is second is fourth is None
    assert third is not None
    assert {stored.letter.job_id for stored in letters.newest()} == {"before", "plainer", "after"}
    (kept,) = letters.of_job("plainer")
    assert "kept without its evidence" in (kept.letter.error_text or "")


def test_letters_are_listed_by_what_they_have_in_common(database: Database) -> None:
    letters = DeadLetters(database)
    letters.insert_many([letter(str(n), reason=f"r{n % 2}", fingerprint=f"f{n % 3}") for n in range(12)])
    newest = letters.newest(reason="r0", limit=2)
    assert [stored.letter.job_id for stored in newest] == ["10", "8"]
    assert [s.letter.job_id for s in letters.newest(reason="r0", before_id=newest[-1].id)] == ["6", "4", "2", "0"]
    assert [s.letter.job_id for s in letters.newest(fingerprint="f1", queue="q")] == ["10", "7", "4", "1"]
    assert letters.newest(actor="nobody") == []
    assert letters.get(10**9) is None
