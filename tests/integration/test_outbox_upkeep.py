"""Old rows go in small batches, by one janitor at a time; an operator sees what is parked."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from pydantic import SecretStr

from smena import outbox as public
from smena.clock import SYSTEM, Deadline
from smena.guarantees.solo import Solo
from smena.job import Job
from smena.outbox import upkeep
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.eventually import eventually
from workers.cli.outbox import outbox
from workers.roles.janitor import BATCH, Duty, Janitor

_SENT = """UPDATE smena.outbox SET state = 'sent', sent_at = now() - make_interval(days => CAST(args AS int))
           FROM (SELECT seq, (seq % 2) * 10 AS args FROM smena.outbox) AS ages WHERE ages.seq = smena.outbox.seq"""


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


def fill(database: Database, count: int) -> None:
    """Write rows, half of which were sent ten days ago and half now."""
    with database.transaction() as connection:
        public.add(connection, *[Job(actor="sales.record", queue="sales") for _ in range(count)])
        connection.execute(sa.text(_SENT))


def left(database: Database) -> int:
    with database.transaction() as connection:
        return connection.scalar(sa.text("SELECT count(*) FROM smena.outbox")) or 0


def test_rows_sent_long_ago_go_and_others_stay(database: Database) -> None:
    fill(database, 100)
    with database.transaction() as connection:
        public.add(connection, Job(actor="sales.record", queue="sales"))
    with database.transaction() as connection:
        assert upkeep.prune(connection, keep_s=86_400, limit=30) == 30
        assert upkeep.prune(connection, keep_s=86_400, limit=30) == 20
        assert upkeep.prune(connection, keep_s=86_400, limit=30) == 0
    assert left(database) == 51


def test_a_janitor_goes_on_batch_by_batch_until_nothing_is_left_to_do(database: Database) -> None:
    batches: list[int] = []

    def prune(limit: int) -> int:
        with database.transaction() as connection:
            batches.append(upkeep.prune(connection, 86_400, limit // 100))
        return batches[-1] * 100

    fill(database, 100)
    janitor = Janitor(Solo(database, "janitor"), [Duty("outbox", prune)], rest_s=600, breath_s=0.001)
    janitor.start()
    eventually(lambda: batches[-1:] == [0])
    assert left(database) == 50
    assert janitor.stop(Deadline.within(30, SYSTEM))
    assert batches == [10] * 5 + [0]
    assert BATCH == 1000


def test_one_janitor_works_at_a_time_and_another_follows_when_it_ends(database: Database) -> None:
    first, second = Solo(database, "janitor"), Solo(database, "janitor")
    other = Solo(database, "another duty")
    assert first.held()
    assert first.held()
    assert not second.held()
    assert other.held()
    first.leave()
    eventually(second.held)
    second.leave()
    other.leave()


def test_p41_a_solo_whose_connection_ended_is_known_to_be_lost(database: Database) -> None:
    solo, rival = Solo(database, "janitor"), Solo(database, "janitor")
    assert solo.held()
    ended = threading.Event()
    with database.transaction() as connection:
        connection.execute(
            sa.text("""SELECT pg_terminate_backend(pid) FROM pg_locks
            WHERE locktype = 'advisory' AND pid <> pg_backend_pid()""")
        )
        ended.set()
    eventually(rival.held)
    with pytest.raises(Exception, match="lost"):
        solo.held()
    assert not solo.held()
    solo.leave()
    rival.leave()


def test_an_operator_sees_parked_rows_and_frees_them(database: Database, database_url: str) -> None:
    env = {"SMENA_DATABASE_URL": database_url}
    job = Job(actor="sales.record", queue="sales")
    with database.transaction() as connection:
        public.add(connection, job)
        connection.execute(sa.text("UPDATE smena.outbox SET state = 'parked', error = 'unroutable: nobody'"))
    listed = CliRunner().invoke(outbox, ["list"], env=env)
    assert job.id in listed.output
    assert "unroutable: nobody" in listed.output
    assert "0 pending, 1 parked" in listed.output
    assert "sales.record" in CliRunner().invoke(outbox, ["show", job.id], env=env).output
    assert CliRunner().invoke(outbox, ["retry", job.id], env=env).exit_code == 0
    assert CliRunner().invoke(outbox, ["retry", job.id], env=env).exit_code == 1
    assert "1 pending, 0 parked" in CliRunner().invoke(outbox, ["list"], env=env).output
    assert CliRunner().invoke(outbox, ["show", "nothing"], env=env).exit_code == 1
