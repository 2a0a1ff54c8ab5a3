"""A batch on a real fleet: a worker dies over it, other jobs run beside it, and each item takes effect once."""

import os
import signal
from contextlib import closing
from typing import Any

from pydantic import SecretStr

from sharding import batches
from sharding.claims import BLAMED
from smena.book import Actor
from smena.job import Job
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book, deaths
from tests.fixtures.eventually import eventually
from workers.execution.slice_work import MOST_LOSSES

ITEMS = 6000

_BLAMED_BY = f"""
SELECT k.worker FROM smena.batch_slices AS s CROSS JOIN LATERAL ({BLAMED}) AS b
JOIN smena.strikes AS k ON starts_with(s.owner, k.life) WHERE b.blamed ORDER BY s.first
"""  # noqa: S608 - a constant


def send_one_shard_job(fleet: RealFleet, actor: Actor[..., Any], items: list[str]) -> None:
    """Open a batch and send one shard job of it by hand: there is no relay."""
    settings = DatabaseSettings(url=SecretStr(fleet.database_url))
    with closing(Database(settings, "test")) as database, database.session() as session:
        batch = batches.open(session, actor, items)
        session.commit()
    fleet.send(Job(actor=batches.SHARD, queue="jobs", args=(batch.id, 1)))


def test_a_batch_outlives_a_worker_that_is_killed_over_it_and_starves_nobody(real_fleet: RealFleet) -> None:
    real_fleet.up(roles="worker,relay", processes=2, batches_lease_s=2, batches_turn_s=0.3, batches_slice_s=0.1)
    pids = real_fleet.wait_ready_workers(2)
    settings = DatabaseSettings(url=SecretStr(real_fleet.database_url))
    with closing(Database(settings, "test")) as database, database.session() as session:
        batch = batches.open(session, book.note_item, range(ITEMS), then=book.note_end, shards=8)
        session.commit()
        eventually(lambda: batches.status(session, batch.id).done > ITEMS // 8)
        real_fleet.send(book.note.message("beside"))
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        eventually(lambda: real_fleet.effects()["beside"] == 1)
        assert batches.status(session, batch.id).left > 0
        eventually(lambda: batches.status(session, batch.id).state == "complete")
        stands = batches.status(session, batch.id)
    assert (stands.done, stands.dead, stands.left) == (ITEMS, 0, 0)
    end = f"batch {batch.id}: {ITEMS} of {ITEMS} done, 0 dead"
    eventually(lambda: real_fleet.effects()[end] == 1)
    effects = real_fleet.effects()
    assert {key: effects[key] for key in effects if key.startswith("item-")} == {
        f"item-{number}": 1 for number in range(ITEMS)
    }


def test_an_item_whose_worker_is_drained_over_its_time_again_and_again_is_not_dead(real_fleet: RealFleet) -> None:
    real_fleet.up(worker_drain_s=0, supervisor_kill_grace_s=0.1, batches_lease_s=1)
    real_fleet.wait_ready_workers(1)
    send_one_shard_job(real_fleet, book.hold, ["long"])
    running = real_fleet.folder / "running-long"
    ended = "SELECT dead FROM smena.batches WHERE state = 'complete'"
    for drains in range(MOST_LOSSES):
        eventually(running.exists)
        running.unlink()
        real_fleet.signal(signal.SIGHUP)
        eventually(lambda: len(real_fleet.events("reload.finished")), until=(drains + 1).__eq__)
    eventually(lambda: running.exists() or real_fleet.rows(ended))
    real_fleet.cue("let-go")
    assert eventually(lambda: real_fleet.rows(ended)) == [(0,)]
    assert real_fleet.rows("SELECT * FROM smena.strikes") == []


def test_what_a_shard_job_holds_is_found_by_its_strike_be_it_in_a_worker_or_in_a_cell(real_fleet: RealFleet) -> None:
    real_fleet.up(batches_lease_s=3600, batches_largest_slice=1)
    real_fleet.wait_ready_workers(1)
    send_one_shard_job(real_fleet, deaths.poison, ["SIGKILL", "SIGKILL"])
    eventually(lambda: real_fleet.rows(_BLAMED_BY), until=[("worker-0",), ("worker-0-cell",)].__eq__)


def test_a_batch_by_partition_keeps_each_key_in_order_over_a_worker_that_is_killed(real_fleet: RealFleet) -> None:
    items, keys = 600, 12
    real_fleet.up(roles="worker,relay", processes=2, batches_lease_s=2, batches_turn_s=0.3, batches_slice_s=0.1)
    pids = real_fleet.wait_ready_workers(2)
    settings = DatabaseSettings(url=SecretStr(real_fleet.database_url))
    with closing(Database(settings, "test")) as database, database.session() as session:
        batch = batches.open(
            session,
            book.note_in_order,
            range(items),
            mode="partition",
            by=lambda number: number % keys,
            partitions=4,
            kwargs={"keys": keys},
            then=book.note_end,
        )
        session.commit()
        eventually(lambda: batches.status(session, batch.id).done > items // 8)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        eventually(lambda: batches.status(session, batch.id).state == "complete")
    end = f"batch {batch.id}: {items} of {items} done, 0 dead"
    eventually(lambda: real_fleet.effects()[end] == 1)
    effects = real_fleet.effects()
    assert {key: effects[key] for key in effects if not key.startswith("batch")} == {
        f"key-{number % keys}-{number}": 1 for number in range(items)
    }
