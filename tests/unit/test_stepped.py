"""A clock that was set is told of, by name and by how far; time that passes, and slow answers, are not."""

from datetime import UTC, datetime, timedelta

import pytest

from smena.clock import MovedClock
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.fix_events import Listen
from workers.roles.stepped import Steps

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A host and a database whose clocks are set apart from the time that passes."""

    def __init__(self) -> None:
        self.clock = SetClock(START)
        self.database_set_s = 0.0
        self.answer_takes_s = 0.0
        self.steps = Steps(self._database_now, self.clock)

    def pass_and_look(self, seconds: float = 10.0) -> None:
        self.clock.advance(seconds)
        self.steps.look()

    def _database_now(self) -> datetime:
        now = START + timedelta(seconds=self.clock.monotonic() + self.database_set_s)
        self.clock.advance(self.answer_takes_s)
        return now


class SetClock(MovedClock):
    """A clock whose wall time somebody sets."""

    set_s = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.set_s)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def told(listen: Listen) -> list[Occurrence]:
    return listen(events.SCHEDULE_CLOCK_STEPPED)


def test_time_that_passes_is_no_step_however_much(world: World, told: list[Occurrence]) -> None:
    for seconds in (0.0, 0.5, 3600.0, 86_400.0):
        world.pass_and_look(seconds)
    assert told == []


@pytest.mark.parametrize("step_s", [-3600.0, -2.5, 2.5, 3600.0])
def test_a_databases_clock_that_was_set_is_told_of_once(world: World, told: list[Occurrence], step_s: float) -> None:
    world.pass_and_look()
    world.database_set_s = step_s
    world.pass_and_look()
    world.pass_and_look()
    assert [one.fields for one in told] == [{"clock": "database", "step_s": step_s}]


def test_a_hosts_clock_that_was_set_is_told_of_by_its_own_name(world: World, told: list[Occurrence]) -> None:
    world.pass_and_look()
    world.clock.set_s = -60.0
    world.pass_and_look()
    assert [one.fields for one in told] == [{"clock": "host", "step_s": -60.0}]


def test_a_clock_that_is_slewed_is_none_that_was_set(world: World, told: list[Occurrence]) -> None:
    for _ in range(10):
        world.database_set_s += 1.9
        world.pass_and_look()
    assert told == []


@pytest.mark.parametrize("answers_s", [(0.0, 1.9, 0.0), (0.0, 30.0, 0.0), (30.0, 0.0, 30.0)])
def test_a_slow_answer_is_no_step(world: World, told: list[Occurrence], answers_s: tuple[float, ...]) -> None:
    for world.answer_takes_s in answers_s:
        world.pass_and_look()
    assert told == []


def test_what_happened_while_another_led_is_not_told(world: World, told: list[Occurrence]) -> None:
    world.pass_and_look()
    world.database_set_s = 600.0
    world.steps.forget()
    world.pass_and_look()
    assert told == []
