"""Nobody waits for what hangs, and nothing of it is lost."""

import threading

import pytest

from smena.guarantees.election.aside import Aside
from tests.fixtures.eventually import PATIENCE_S, eventually


def test_what_is_done_in_time_is_waited_for_and_its_error_comes_out() -> None:
    done: list[int] = []
    aside = Aside()
    aside.do(lambda: done.append(1), PATIENCE_S)
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        aside.do(lambda: done.append(1 // 0), PATIENCE_S)
    aside.do(lambda: done.append(2), PATIENCE_S)
    assert done == [1, 2]


def test_p37_what_hangs_is_left_to_itself_and_its_error_comes_out_later() -> None:
    let_go, done = threading.Event(), threading.Event()

    def hang() -> None:
        let_go.wait(PATIENCE_S)
        done.set()
        raise LookupError

    aside = Aside()
    aside.do(hang, 0.0)
    aside.do(lambda: pytest.fail("beside the one that hangs"), PATIENCE_S if done.is_set() else 0.0)
    let_go.set()

    def comes_out() -> bool:
        try:
            aside.do(lambda: None, 0.0)
        except LookupError:
            return True
        return False

    eventually(comes_out)
