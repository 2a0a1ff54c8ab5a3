"""Wait for something outside this process, which can only be looked at again and again."""

import time
from collections.abc import Callable
from typing import Final

from smena.clock import Deadline

_PAUSE_S: Final = 0.05


def wait_until(condition: Callable[[], bool], deadline: Deadline, pause_s: float = _PAUSE_S) -> bool:
    """Look until ``condition`` holds and return True, or return False once the deadline has passed."""
    while not condition():
        if deadline.passed():
            return False
        time.sleep(min(pause_s, deadline.left_s()))
    return True
