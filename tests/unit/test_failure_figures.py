"""What failed and was survived is counted by its name."""

from smena.telemetry import events
from smena.telemetry.event import Occurrence
from smena.telemetry.tally import Board
from workers.process.failure_figures import count_failures


def test_hooks_and_rounds_of_loops_that_failed_are_counted() -> None:
    def broken_hook(_occurrence: Occurrence) -> None:
        raise ZeroDivisionError

    board = Board()
    ends = [count_failures(board), events.subscribe(broken_hook, only=[events.ONCE_HIT])]
    try:
        events.emit(events.ONCE_HIT, job="1")
        events.emit(events.ONCE_HIT, job="2")
        events.loop_failed("settler", ZeroDivisionError())
    finally:
        for end in ends:
            end()
    counters = board.snapshot()["counters"]
    (hook,) = counters["smena_hook_failures_total"].items()
    assert hook == (broken_hook.__qualname__, 2)
    assert counters["smena_loop_failures_total"] == {"settler": 1}
