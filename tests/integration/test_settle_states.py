"""Guarantee 1, P12, P14: the protocol of settling as a state machine with a fault point between every two steps."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.settling import book
from tests.settling.machine import SettleMachine
from tests.settling.scenario import play
from tests.settling.world import World

RUNS = int(os.environ.get("SMENA_SETTLE_RUNS", "50"))
"""The drill makes 500."""


@pytest.fixture
def settle_database(database_url: str) -> Iterator[str]:
    with psycopg.connect(database_url, autocommit=True) as view:
        view.execute(book.CREATE)
        # Nothing crashes the server here, so nothing is lost by it, and a run takes half the time.
        view.execute(f"ALTER DATABASE {view.info.dbname} SET synchronous_commit = off".encode())
        SettleMachine.database_url, SettleMachine.view = database_url, view
        yield database_url


@pytest.mark.timeout(60 + 2 * RUNS)
def test_p12_p14_whatever_strikes_no_job_is_lost_and_a_second_copy_is_dropped(settle_database: str) -> None:
    run_state_machine_as_test(
        SettleMachine,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=50,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("lost", ["question", "answer"])
def test_p12_whichever_word_with_postgresql_is_lost_every_job_comes_to_its_end(settle_database: str, lost: str) -> None:
    after = 0
    while is_lost(after, lost):
        after += 1
    assert after > 30


def is_lost(after: int, lost: str) -> bool:
    """Play the scenario and lose a word of it; say whether it had so many."""
    with new_world() as world:
        cable = world.posts[0].cable
        play(world, lambda post: post.cable.lose(lost, after))
        return cable.asked > after


@contextmanager
def new_world() -> Iterator[World]:
    """Give a world, and end it."""
    world = World(SettleMachine.database_url, SettleMachine.view)
    try:
        yield world
    finally:
        world.close()
