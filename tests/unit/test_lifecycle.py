"""Every running thing starts once, stops safely however often and whenever, and shares one deadline."""

import threading
from collections.abc import Callable

import pytest

from smena.backoff import Backoff
from smena.clock import SYSTEM, Deadline
from smena.lifecycle import Group, Loop
from tests.fixtures.eventually import eventually


def soon() -> Deadline:
    return Deadline.within(10.0, SYSTEM)


def waiting(stopping: threading.Event) -> None:
    stopping.wait(0.01)


def ignore(_name: str, _error: BaseException) -> None:
    """Errors are not what this test is about."""


class Recorded:
    """A service that writes down what it is asked."""

    def __init__(self, name: str, seen: list[str], refuse: bool = False) -> None:
        self.name = name
        self._seen = seen
        self._refuse = refuse
        self.deadlines: list[Deadline] = []

    def start(self) -> None:
        if self._refuse:
            raise RuntimeError(self.name)
        self._seen.append(f"start {self.name}")

    def stop(self, deadline: Deadline) -> bool:
        self._seen.append(f"stop {self.name}")
        self.deadlines.append(deadline)
        return self.name != "stuck"


def test_a_loop_runs_rounds_until_it_is_stopped() -> None:
    loop = Loop("rounds", waiting, ignore)
    loop.start()
    eventually(lambda: loop.tick > 3)
    assert loop.stop(soon())
    assert "rounds" not in [thread.name for thread in threading.enumerate()]


def test_a_loop_can_be_started_twice_and_stopped_twice() -> None:
    loop = Loop("twice", waiting, ignore)
    loop.start()
    loop.start()
    assert [thread.name for thread in threading.enumerate()].count("twice") == 1
    assert loop.stop(soon())
    assert loop.stop(soon())


def test_a_loop_that_was_never_started_can_be_stopped() -> None:
    loop = Loop("unstarted", waiting, ignore)
    assert loop.stop(soon())
    loop.start()
    assert loop.tick == 0


def test_a_loop_outlives_a_bad_round() -> None:
    told: list[tuple[str, str]] = []

    def step(stopping: threading.Event) -> None:
        if len(told) < 3:
            raise RuntimeError("bad round")
        stopping.wait(0.01)

    loop = Loop("brave", step, lambda name, error: told.append((name, str(error))), Backoff(0.001, 0.001))
    loop.start()
    eventually(lambda: loop.tick > 5)
    assert loop.stop(soon())
    assert told == [("brave", "bad round")] * 3


def test_stopping_a_hung_loop_returns_by_the_deadline_and_says_so() -> None:
    release = threading.Event()

    def hang(_stopping: threading.Event) -> None:
        release.wait()

    loop = Loop("hung", hang, ignore)
    loop.start()
    assert not loop.stop(Deadline.within(0.05, SYSTEM))
    release.set()
    assert loop.stop(soon())


def test_a_loop_may_stop_itself() -> None:
    ended: list[bool] = []
    loop: Loop
    step: Callable[[threading.Event], None] = lambda _stopping: ended.append(loop.stop(soon()))  # noqa: E731
    loop = Loop("own", step, ignore)
    loop.start()
    eventually(lambda: loop.tick == 1)
    assert ended == [True]
    assert loop.stop(soon())


def test_a_group_starts_in_order_and_stops_in_reverse_under_one_deadline() -> None:
    seen: list[str] = []
    services = [Recorded(name, seen) for name in ("a", "b", "c")]
    group = Group("all", services, soon)
    deadline = soon()
    group.start()
    group.start()
    assert group.stop(deadline)
    assert seen == ["start a", "start b", "start c", "stop c", "stop b", "stop a"]
    assert [service.deadlines for service in services] == [[deadline]] * 3


def test_a_group_that_was_never_started_or_has_stopped_asks_nothing_of_its_services() -> None:
    seen: list[str] = []
    group = Group("all", [Recorded("a", seen)], soon)
    assert group.stop(soon())
    group.start()
    group.stop(soon())
    group.stop(soon())
    assert seen == ["start a", "stop a"]


def test_a_service_that_does_not_start_stops_those_before_it() -> None:
    seen: list[str] = []
    group = Group("all", [Recorded("a", seen), Recorded("b", seen, refuse=True), Recorded("c", seen)], soon)
    with pytest.raises(RuntimeError, match="b"):
        group.start()
    assert seen == ["start a", "stop a"]


def test_a_group_says_when_something_has_not_ended_and_still_stops_the_rest() -> None:
    seen: list[str] = []
    group = Group("all", [Recorded("a", seen), Recorded("stuck", seen)], soon)
    group.start()
    assert not group.stop(soon())
    assert seen[-1] == "stop a"


def test_a_service_whose_stop_raises_does_not_keep_those_before_it_running() -> None:
    seen: list[str] = []

    class Bad(Recorded):
        def stop(self, deadline: Deadline) -> bool:
            super().stop(deadline)
            raise RuntimeError("will not")

    group = Group("all", [Recorded("a", seen), Bad("b", seen), Recorded("c", seen)], soon)
    group.start()
    with pytest.raises(RuntimeError, match="will not"):
        group.stop(soon())
    assert seen[-3:] == ["stop c", "stop b", "stop a"]


def wait_a_little(stopping: threading.Event) -> None:
    stopping.wait(0.001)


def test_a_loop_that_many_start_at_the_same_moment_is_started_once() -> None:
    for _ in range(50):
        loop = Loop("loop", wait_a_little, lambda _name, _error: None)
        gate = threading.Barrier(4)

        def start(loop: Loop = loop, gate: threading.Barrier = gate) -> None:
            gate.wait(10)
            loop.start()

        starters = [threading.Thread(target=start) for _ in range(4)]
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join(10)
        assert loop.stop(soon())
