"""An attempt is settled once, and a second copy learns what came of it (guarantee 1)."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from smena.records.settlements import Settlements, StoredMessage
from smena.store.database import Database


def message(number: int = 0) -> StoredMessage:
    return StoredMessage("smena.delay.v1.5", f"0.1.q{number}", b"\x00\xff{}", {"headers": {"n": number}}, "retry", "q")


def test_an_attempt_is_settled_by_whoever_is_first(database: Database) -> None:
    settlements = Settlements(database)
    with ThreadPoolExecutor(8) as threads:
        written = list(threads.map(lambda number: settlements.write("job", 1, message(number)), range(8)))
    assert sorted(written) == [False] * 7 + [True]
    found = settlements.find([("job", 1)])
    assert found["job", 1].message == message(written.index(True))


def test_only_settled_attempts_are_found_and_only_confirmed_ones_say_so(database: Database) -> None:
    settlements = Settlements(database)
    for attempt in (1, 2):
        assert settlements.write("job", attempt, message(attempt))
    settlements.confirmed([("job", 2), ("job", 9)])
    found = settlements.find([("job", 1), ("job", 2), ("job", 3), ("other", 1)])
    assert {asked: settled.confirmed for asked, settled in found.items()} == {("job", 1): False, ("job", 2): True}
    assert settlements.find([]) == {}


@pytest.mark.parametrize("value", ["nul \x00", "lone \ud800", float("nan"), b"bytes", 2**100])
def test_a_property_that_postgresql_cannot_hold_does_not_fail_a_settlement(database: Database, value: object) -> None:
    strange = StoredMessage("", "q", b"", {"headers": {"x": value}}, "dead", "q")
    settlements = Settlements(database)
    assert settlements.write("job", 1, strange)
    assert ("job", 1) in settlements.find([("job", 1)])


def test_old_settlements_are_pruned_in_small_batches(database: Database) -> None:
    settlements = Settlements(database)
    for attempt in range(5):
        settlements.write("job", attempt, message())
    assert settlements.prune(keep_s=3600) == 0
    assert [settlements.prune(keep_s=0, limit=3) for _ in range(3)] == [3, 2, 0]
