"""Guarantee 1, P12, P14: the protocol of settling as a state machine with a fault point between every two steps."""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from smena.settings.groups import Amqp
from tests.fixtures.fix_broker import BrokerView
from tests.settling import book, fate
from tests.settling.machine import SettleMachine, death_of
from tests.settling.rabbit import RabbitMachine
from tests.settling.scenario import play
from tests.settling.world import Broken, Post, World

RUNS = int(os.environ.get("SMENA_SETTLE_RUNS", "50"))
"""How many runs of 50 steps are made; in the drill (`./run drill settle`) 500."""

SHRINKS = "SMENA_SETTLE_SHRINKS" in os.environ
"""Look for the shortest way to a failure, which takes minutes."""

# A generator that was left in the middle of a transaction by a death is closed by the collector, and complains there.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture
def settle_database(database_url: str) -> Iterator[str]:
    with psycopg.connect(database_url, autocommit=True) as view:
        view.execute(book.CREATE)
        # Nothing crashes the server here, so nothing is lost by it, and a run takes half the time.
        view.execute(f"ALTER DATABASE {view.info.dbname} SET synchronous_commit = off".encode())
        SettleMachine.database_url, SettleMachine.view = database_url, view
        yield database_url


def runs(count: int, steps: int) -> settings:
    """Return how the machine is run: no time limits, and the first failure is told."""
    return settings(
        max_examples=count,
        stateful_step_count=steps,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if SHRINKS else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(60 + 2 * RUNS)
def test_p12_p14_whatever_strikes_no_job_is_lost_and_a_second_copy_is_dropped(settle_database: str) -> None:
    run_state_machine_as_test(SettleMachine, settings=runs(RUNS, 50))


def test_p12_p14_the_same_on_rabbitmq(settle_database: str, amqp: Amqp, broker: BrokerView) -> None:
    RabbitMachine.amqp, RabbitMachine.broker = amqp, broker
    run_state_machine_as_test(RabbitMachine, settings=runs(max(3, RUNS // 50), 20))


@pytest.mark.parametrize("lost", ["question", "answer"])
def test_p12_whichever_word_with_postgresql_is_lost_every_job_comes_to_its_end(settle_database: str, lost: str) -> None:
    after = 0
    while is_lost(after, lost):
        after += 1
    assert after > 15


def test_p12_what_the_broker_does_not_take_in_time_is_sent_again_and_acked_only_then(settle_database: str) -> None:
    with new_world() as world:
        jobs = [world.send(["fail", "done"], copies=1) for _ in range(3)]
        post = world.posts[0]
        post.publishing.block(blocked=True)
        world.cycle(0)
        world.pass_time(Amqp().publish_timeout_s + 1)
        world.cycle(0)
        assert len(jobs) == post.process.settler.waiting()
        world.heal()
        world.check_end()


def test_p12_what_is_written_but_not_confirmed_is_not_acked(settle_database: str) -> None:
    """The course that `P12-durable-before-ack` needs: the next message is under way, and a death would lose it."""
    with new_world() as world:
        world.send(["fail", "done"], copies=1)
        ran_and_settled(world, jobs=1)
        world.step(0, lambda post: post.publishing.turn())
        world.step(0, lambda post: post.consuming.turn())
        assert world.broker.taken == []
        world.posts[0].die(was_read=False)
        world.check()
        world.heal()
        world.check_end()


def test_p14_of_two_copies_that_ran_at_once_one_has_a_next_message(settle_database: str) -> None:
    """The course that `P14-first-row-counts` needs: both have run before either is settled."""
    with new_world() as world:
        job_id = world.send(["fail", "done"], copies=2)
        ran_and_settled(world, jobs=2)
        world.turn(0)
        assert [message.job_id for message in world.broker.taken] == [job_id]
        world.heal()
        world.check_end()


def ran_and_settled(world: World, jobs: int) -> None:
    """Let a process run so many jobs that wait, and settle them all in one round; nothing is on the wire yet."""
    world.posts[0].consuming.take(16)
    world.step(0, lambda post: post.consuming.turn())
    for _ in range(jobs):
        world.step(0, lambda post: post.process.run(0))
    assert world.posts[0].process.settler.waiting() == jobs
    world.step(0, lambda post: post.process.settle())


def is_lost(after: int, lost: str) -> bool:
    """Play the scenario and lose a word of it; say whether it had so many."""
    with new_world() as world:
        cable = world.posts[0].cable
        play(world, lambda post: post.cable.lose(lost, after), scripts=[["fail", "done"]])
        return cable.asked > after


@pytest.mark.timeout(60 + 2 * RUNS)
def test_p14_a_process_that_dies_at_any_step_leaves_every_job_where_it_can_be_found(settle_database: str) -> None:
    """Every step is struck in 1,000 runs; in fewer, as many as fit, and others each time."""
    with new_world() as world:
        steps = world.posts[0].fate.steps
        play(world, lambda _post: None)
    stride = max(1, 1000 // RUNS)
    points = sorted(steps.values())[random.randrange(stride) :: stride]
    struck = 0
    for point in points:
        with new_world() as world:
            play(world, lambda post: dies(post, point))  # noqa: B023 - called before the next round
            struck += len(world.record.struck)
    assert struck > 0.8 * len(points)  # the last ones are not reached each time: retries come at random
    assert sys.exc_info() == (None, None, None), "nothing of the dead is left in this process"


def test_p14_a_job_that_no_actor_knows_is_dead_once_whenever_its_process_dies(settle_database: str) -> None:
    """Such a job is settled without a look at what it came to before, so the row of its first delivery meets it."""
    with new_world() as world:
        steps = world.posts[0].fate.steps
        play(world, lambda _post: None, scripts=[])
    for point in sorted(steps.values()):
        with new_world() as world:
            play(world, lambda post: dies(post, point), scripts=[])  # noqa: B023 - called before the next round


def dies(post: Post, point: int) -> None:
    """Let the process end at that fault point; what it has written may or may not be read."""
    post.fate.arm(point, lambda: death_of(post, was_read=point % 2 == 0))


@pytest.mark.parametrize("place", ["workers/execution/settler.py", "smena/records/settlements.py"])
def test_a_step_in_a_place_without_fault_points_is_found(
    settle_database: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(fate, "ROOM", fate.ROOM - {place})
    with new_world() as world, pytest.raises(Broken, match=place):
        play(world, lambda _post: None)


def test_one_ack_for_many_leaves_out_those_that_go_back_in_the_same_write(settle_database: str) -> None:
    with new_world() as world:
        for _ in range(4):
            world.send(["done"], copies=1)
        post = world.posts[0]
        post.consuming.take(16)
        world.step(0, lambda post: post.consuming.turn())
        for _ in range(2):
            world.step(0, lambda post: post.process.run(2))
        world.step(0, lambda post: post.process.hand_back())
        world.turn(0)
        world.heal()
        world.check_end()


def test_two_effects_without_a_fault_point_between_them_are_found() -> None:
    record = fate.Record()
    watched = fate.Fate(record)
    with watched.watching():
        watched.effect("first")
        watched.effect("second")
    assert record.gaps == {"no fault point between 'first' and 'second'"}


@contextmanager
def new_world() -> Iterator[World]:
    """Give a world, and end it."""
    world = World(SettleMachine.database_url, SettleMachine.view)
    try:
        yield world
    finally:
        world.close()
