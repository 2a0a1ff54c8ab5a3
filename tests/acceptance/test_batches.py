"""A batch on a real fleet: a worker dies over it, other jobs run beside it, and each item takes effect once."""

import os
import signal
from contextlib import closing

from pydantic import SecretStr

from sharding import batches
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually

ITEMS = 2000


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
