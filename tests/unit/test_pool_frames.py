"""What comes of a step's call in its pool process, as the frame says that goes back."""

from workers.execution import pool_frames
from workers.execution.pool_frames import HEAD, Kind

MOST = 1 << 20


class Unfolds:
    """Small when it is packed, and too large for the process when it is unpacked."""

    def __reduce__(self) -> tuple[object, ...]:
        return _too_large, ()


def _too_large() -> None:
    raise MemoryError


def test_arguments_that_do_not_fit_into_the_process_are_a_want_of_memory_and_no_fault_of_pickling() -> None:
    frame = pool_frames.request(len, (Unfolds(),), MOST)
    told, _ = HEAD.unpack_from(pool_frames.answer(frame[HEAD.size :], MOST))
    assert Kind(told) is Kind.OUT_OF_MEMORY
