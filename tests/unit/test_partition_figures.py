"""What a process that has lost a partition still wrote, and was refused, is counted under its group's name."""

from smena.telemetry import events
from smena.telemetry.tally import Board
from workers.process.partition_figures import count_partitions


def test_refused_writes_of_an_ordered_queue_are_counted_under_its_name() -> None:
    board = Board()
    end = count_partitions(board)
    try:
        events.emit(events.KEY_STALE_WRITE, queue="stock", partition=1, term=2)
        events.emit(events.KEY_STALE_EFFECT, job="j", queue="stock", partition=1, term=2)
        events.emit(events.KEY_STALE_WRITE, queue="other", partition=1, term=2)
    finally:
        end()
    assert board.snapshot()["counters"]["smena_stale_writes_total"] == {"stock": 2, "other": 1}
