"""Guarantee 5 on a real fleet: jobs of one key take effect in the order of their sending, whatever happens."""

import os
import signal
from collections import defaultdict

import psycopg
import pytest
from click.testing import CliRunner

from smena.amqp import names
from smena.job import Job
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import ordered, wider
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.cli import main

KEYS = [f"key-{number}" for number in range(8)]


@pytest.fixture
def fleet(real_fleet: RealFleet, broker: BrokerView) -> RealFleet:
    broker.knows("ordered", *(names.address("ordered", partition) for partition in range(4)))
    with psycopg.connect(real_fleet.database_url) as database:
        database.execute(ordered.CREATE)
    return real_fleet


def up(fleet: RealFleet, processes: int = 2, books: str = ordered.__name__, **settings: object) -> None:
    fleet.up(roles="worker,archivist", processes=processes, books=books, partitions_lease_s=3, **settings)
    fleet.wait_ready_workers(processes)


def moves(fleet: RealFleet) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, number in fleet.rows("SELECT key, number FROM moves ORDER BY seq"):
        found[key].append(number)
    return found


def count(fleet: RealFleet) -> int:
    return int(fleet.rows("SELECT count(*) FROM moves")[0][0])


def stream(size: int) -> list[Job]:
    """Return jobs of all keys in turn; every seventh fails twice."""
    return [ordered.move.message(key, number, 2 if number % 7 == 3 else 0) for number in range(size) for key in KEYS]


def test_order_survives_retries_kills_and_hand_overs(fleet: RealFleet) -> None:
    sent = stream(40)
    fleet.send(*sent[: len(sent) // 2])
    up(fleet)
    eventually(lambda: count(fleet) > len(sent) // 8)
    os.kill(next(iter(fleet.pids("worker").values())), signal.SIGKILL)
    fleet.send(*sent[len(sent) // 2 :])
    eventually(lambda: count(fleet) > len(sent) // 2)
    fleet.signal(signal.SIGTTIN)  # a third one takes its share over
    eventually(lambda: count(fleet) == len(sent))
    assert moves(fleet) == {key: list(range(40)) for key in KEYS}
    eventually(lambda: fleet.rows("SELECT count(*) FROM smena.key_parked") == [(0,)])
    fleet.signal(signal.SIGTERM)
    assert fleet.exit_code() == 0


def test_a_death_blocks_its_key_or_is_skipped_and_other_keys_go_on(fleet: RealFleet) -> None:
    up(fleet, processes=1)
    fleet.send(
        ordered.breaks.message("blocked", 0),
        ordered.breaks_off.message("skipped", 0),
        *(ordered.move.message(key, 1) for key in ("blocked", "skipped", "other")),
    )
    eventually(lambda: moves(fleet) == {"skipped": [1], "other": [1]})
    eventually(lambda: fleet.rows("SELECT reason FROM smena.dead_letters") == [("broken",)])
    waiting = "SELECT key, why, reason, due_at FROM smena.key_holds"
    ((key, why, reason, due_at),) = fleet.rows(waiting)
    assert (key, why, due_at) == ("blocked", "blocked", None)
    assert reason.startswith("broken")
    eventually(lambda: fleet.rows("SELECT count(*) FROM smena.key_parked") == [(2,)])
    assert [event["key"] for event in fleet.events("key.blocked")] == ["blocked"]
    eventually(lambda: 'smena_partitions_owned{group="ordered"} 4.0' in fleet.get("/metrics")[1])
    nobodys_before = 'smena_partition_moves_total{group="ordered"} 0.0'
    eventually(lambda: nobodys_before in fleet.get("/metrics")[1])

    operate(fleet, "release", "ordered", "blocked")  # one more try, which ends as the first did
    eventually(lambda: len(fleet.events("key.blocked")) == 2)
    eventually(lambda: "1 key(s) wait" in operate(fleet, "keys"))
    operate(fleet, "skip", "ordered", "blocked")
    eventually(lambda: moves(fleet)["blocked"] == [1])
    eventually(lambda: "0 key(s) wait" in operate(fleet, "keys"))
    assert fleet.rows("SELECT reason, attempt FROM smena.dead_letters") == [("broken", 1)] * 2


def test_a_partition_that_was_full_goes_on_when_an_operator_has_emptied_it(fleet: RealFleet) -> None:
    up(fleet, processes=1, partitions_parked_max=1)
    fleet.send(ordered.breaks.message("blocked", 0))
    eventually(lambda: "1 key(s) wait" in operate(fleet, "keys"))
    operate(fleet, "skip", "ordered", "blocked")
    eventually(lambda: "0 key(s) wait" in operate(fleet, "keys"))
    fleet.send(ordered.move.message("blocked", 1, 1))  # it fills the partition once more, with its own retry
    fleet.send(ordered.move.message("blocked", 2))
    eventually(lambda: moves(fleet) == {"blocked": [1, 2]})


def test_a_queue_with_more_partitions_works_all_of_them_and_each_key_goes_on_where_it_was(
    fleet: RealFleet, broker: BrokerView
) -> None:
    broker.knows(*(names.address("ordered", partition) for partition in range(4, 8)))
    up(fleet, processes=1)
    fleet.send(*(ordered.move.message(key, number) for number in range(3) for key in KEYS))
    eventually(lambda: count(fleet) == 3 * len(KEYS))
    fleet.signal(signal.SIGTERM)
    assert fleet.exit_code() == 0

    eventually(lambda: "and had 4" in operate(fleet, "resize", "ordered", "8"))

    fleet.send(*(wider.move.message(key, number) for number in range(3, 6) for key in KEYS))
    up(fleet, processes=1, books=wider.__name__)
    eventually(lambda: count(fleet) == 6 * len(KEYS))
    assert moves(fleet) == {key: list(range(6)) for key in KEYS}
    assert {job.partition for job in (wider.move.message(key, 0) for key in KEYS)} - set(range(4))


def operate(fleet: RealFleet, *command: str) -> str:
    environment = {"SMENA_DATABASE_URL": fleet.database_url, **fleet.broker_settings()}
    ended = CliRunner().invoke(main, ["partition", *command], env=environment)
    assert ended.exit_code == 0, ended.output
    return ended.output
