"""A wait is shown for as long as it is recent."""

from datetime import UTC, datetime

from smena.clock import MovedClock
from smena.store.waits import LOOKED_BACK_S, Waits


def test_the_longest_of_the_recent_waits_is_shown() -> None:
    clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
    waits = Waits(clock)
    assert waits.longest_s() == 0.0
    for wait_s in (3.0, 1.0):
        with waits.noted():
            clock.advance(wait_s)
    assert waits.longest_s() == 3.0
    clock.advance(LOOKED_BACK_S - 0.5)
    assert waits.longest_s() == 1.0
    clock.advance(1)
    assert waits.longest_s() == 0.0
