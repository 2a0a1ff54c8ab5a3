"""Short forms of the drills: the fault bites, the verdict holds, and without the guard it does not."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from tests.fixtures.fix_database import _database, _migrate, url_of
from workers.drills.catalogue import drills
from workers.drills.drill import Control
from workers.drills.load import LoadPlan
from workers.drills.runner import hold
from workers.drills.stage import Stage
from workers.local.services import LocalServices

_ACCEPTED = """
INSERT INTO smena.outbox (id, actor, queue, body, properties) VALUES ('theirs', 'shop.charge', 'payments', '', '{}')
"""


@pytest.fixture(scope="module")
def fleets_url(server_url: str) -> Iterator[str]:
    """Give the address of a fleet's database, with a job that it has accepted and not sent yet."""
    with _database(server_url) as name:
        url = url_of(server_url, name)
        _migrate(url)
        with psycopg.connect(url) as connection:
            connection.execute(_ACCEPTED)
        yield url


@pytest.fixture(scope="module")
def stage(services: LocalServices, fleets_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Give a stage on the session's servers, where a fleet has its database."""
    folder: Path = tmp_path_factory.mktemp("drills")
    own = {"SMENA_LOCAL_DIR": str(folder), "SMENA_DATABASE_URL": fleets_url}
    stage = Stage({**os.environ, **services.env(), **own})
    with stage.set(keep=False):
        yield stage
    queues = services.rabbitmq.ctl("list_queues", "--quiet", "name").split()
    assert [queue for queue in queues if queue.startswith(stage.prefix)] == []


def test_a_killed_workers_jobs_run_again_and_none_is_lost_doubled_or_blamed(stage: Stage) -> None:
    report = hold(drills()["kill-worker"], stage, seconds=0.5)
    assert report.verdict.holds, report.lines()
    assert report.left_over == 0
    assert report.bite >= 6
    assert report.verdict.accepted == report.verdict.effects > 0


def test_a_drill_on_given_servers_leaves_the_fleet_that_lives_there_its_jobs_and_its_leadership(
    stage: Stage, fleets_url: str
) -> None:
    report = hold(drills()["two-schedulers"], stage, seconds=0)
    assert report.left_over == 0
    with psycopg.connect(fleets_url) as connection:
        assert connection.execute("SELECT id, state FROM smena.outbox").fetchall() == [("theirs", "pending")]
        assert connection.execute("SELECT name FROM smena.leases").fetchall() == []
        assert connection.execute("SELECT to_regnamespace('drill')").fetchall() == [(None,)]


def test_a_drill_whose_fault_hit_nothing_fails(stage: Stage) -> None:
    missed = replace(drills()["kill-worker"], fault=lambda _ground: None, load=LoadPlan(ahead=4))
    report = hold(missed, stage, seconds=0)
    assert report.verdict.holds
    assert report.failures == ["the fault hit 0 jobs; under 6 it proves nothing"]


@pytest.mark.parametrize(("guard", "must_be"), [("ack-first", "lost"), ("no-once-key", "doubled")])
def test_the_judge_notices_when_a_guard_is_out(stage: Stage, guard: str, must_be: str) -> None:
    drill = drills()["kill-worker"]
    [control] = [one for one in drill.controls if one == Control(guard, must_be)]
    report = hold(drill, stage, control, seconds=0.5)
    assert report.passed, report.lines()
    assert must_be in report.verdict.faults()
