"""Jobs that kill their process: found, put out, and nobody beside them pays."""

import math
import os
import signal
from collections.abc import Sequence
from typing import Any

import pytest

from smena.amqp import names
from tests.acceptance.fleet.grip import alive
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import bare, book, deaths
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process import processor
from workers.process.exits import Exit

THREADS = 4
MANY = 32
WAYS = {
    "SIGKILL": "SIGKILL",
    "SIGSEGV": "SIGSEGV",
    "exit": "exit code 0",
    "exit 2": "exit code 2",
    "TERM": "exit code 7",
    "hog": "SIGKILL",
}
"""How a job kills its process, and what that looks like from outside."""


CUT_OFF = ["closes all and returns", "null over all and returns"]
RETURNING = ["raises in all threads", *CUT_OFF]
"""How a job breaks its process and returns, so that it does not run any more when the process ends.

The first does so in its cell too, but is heard there: it is done, as whoever returns. The others cut their cell off.
"""


def strikes(fleet: RealFleet, job_id: str) -> Sequence[tuple[Any, ...]]:
    """Return what is held against the job, the oldest first: among how many, and whether it was cleared."""
    held = "SELECT beside, cleared_at IS NOT NULL FROM smena.strikes"
    return fleet.rows(f"{held} WHERE job_id = '{job_id}' ORDER BY struck_at")


def letters(broker: BrokerView) -> list[dict[str, Any]]:
    """Take the dead letters; return their headers."""
    found = broker.take(names.dead_queue(broker.prefix, "jobs"))
    return [{"job": properties.message_id, **properties.headers} for properties, _ in found]


def bitten(fleet: RealFleet, job_id: str) -> int:
    """Return how many processes the job has killed."""
    return len(list(fleet.folder.glob(f"bitten-*-{job_id}")))


def most(beside: int) -> int:
    """Return how many processes one poison message may kill that ran beside so many, itself included."""
    return 1 + max(1, math.ceil(math.log2(beside)))


def test_p21_poison_is_dead_with_evidence_and_its_neighbours_are_done_once(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    real_fleet.up(processes=2)
    real_fleet.wait_ready_workers(2)
    sent = 0
    for how, tells in WAYS.items():
        poison = deaths.poison.message(how)
        good = [book.slow_note.message(f"{how}{number}") for number in range(20)]
        real_fleet.send(*good[:10], poison, *good[10:])
        eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
        sent += len(good)
        eventually(lambda: len(real_fleet.effects()), until=sent.__eq__)

        (letter,) = letters(broker)
        assert (letter["job"], letter["smena-reason"], letter["smena-attempt"]) == (poison.id, "crashed", 1)
        assert f"how={tells}" in letter["smena-error-text"]
        assert int(letter["smena-error-text"].partition("peak_mib=")[2].split()[0]) >= (256 if how == "hog" else 1)
        assert float(letter["smena-error-text"].partition("ran_s=")[2].split()[0]) >= 0.1
        assert f"{how} is what I am" in letter["smena-traceback"]
        assert bitten(real_fleet, poison.id) <= most(THREADS)
    assert set(real_fleet.effects().values()) == {1}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    real_fleet.wait_ready_workers(2)
    eventually(lambda: real_fleet.rows("SELECT count(*) FROM smena.starts") == [(0,)])


def test_p21_a_job_that_closes_what_is_not_its_own_ends_the_process_at_once(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    real_fleet.up(worker_drain_s=600)
    real_fleet.wait_ready_workers(1)
    poison = deaths.poison.message("closes all")
    real_fleet.send(poison)
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)

    (letter,) = letters(broker)
    assert (letter["job"], letter["smena-reason"], letter["smena-attempt"]) == (poison.id, "crashed", 1)
    assert f"how=exit code {Exit.CRASHED:d}" in letter["smena-error-text"]
    assert not real_fleet.events("drain.started")
    real_fleet.send(book.note.message("a"), book.anote_once.message("b"))
    eventually(lambda: real_fleet.effects() == {"a": 1, "b": 1})


@pytest.mark.parametrize("beside", [0, 20])
@pytest.mark.parametrize("how", RETURNING)
def test_p21_a_job_that_breaks_its_process_and_returns_comes_to_an_end_and_nobody_beside_it_pays(
    real_fleet: RealFleet, broker: BrokerView, how: str, beside: int
) -> None:
    real_fleet.up()
    real_fleet.wait_ready_workers(1)
    poison = deaths.breaker.message(how)
    good = [book.slow_note.message(f"k{number}") for number in range(beside)]
    real_fleet.send(*good[:3], poison, *good[3:])
    if how in CUT_OFF:
        eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
        (letter,) = letters(broker)
        assert (letter["job"], letter["smena-reason"], letter["smena-attempt"]) == (poison.id, "crashed", 1)
    else:
        eventually(lambda: [cleared for _, cleared in strikes(real_fleet, poison.id)] == [True])
    eventually(lambda: len(real_fleet.effects()) == beside)

    among, _ = strikes(real_fleet, poison.id)[0]
    assert 2 <= bitten(real_fleet, poison.id) <= most(among)
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)] * (beside > 0)
    real_fleet.wait_ready_workers(1)


def test_p21_a_job_that_stops_its_process_is_dead_with_evidence_and_its_neighbours_are_done_once(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    real_fleet.up(processes=2, supervisor_stopped_s=2)
    before = real_fleet.wait_ready_workers(2)
    poison = deaths.poison.message("SIGSTOP")
    good = [book.slow_note.message(f"k{number}") for number in range(20)]
    real_fleet.send(*good[:10], poison, *good[10:])
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
    eventually(lambda: len(real_fleet.effects()) == len(good))

    (letter,) = letters(broker)
    assert (letter["job"], letter["smena-reason"], letter["smena-attempt"]) == (poison.id, "crashed", 1)
    assert "how=SIGKILL after it was stopped" in letter["smena-error-text"]
    assert bitten(real_fleet, poison.id) <= most(THREADS)
    assert set(real_fleet.effects().values()) == {1}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    (killed,) = real_fleet.events("child.killed")
    assert killed["child"] in before.values()
    assert killed["why"].startswith("it has been stopped for ")
    real_fleet.wait_ready_workers(2)


def test_a_worker_that_is_stopped_by_hand_is_not_ready_and_goes_on_when_it_may(real_fleet: RealFleet) -> None:
    real_fleet.up(amqp_heartbeat_s=600, supervisor_stopped_s=600)
    worker = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(book.hold.message("h"))
    eventually(lambda: (real_fleet.folder / "running-h").exists())
    os.kill(worker, signal.SIGSTOP)
    eventually(lambda: processor.is_stopped(worker))
    eventually(lambda: real_fleet.get("/ready"), until=lambda said: said[0] == 503 and "stopped" in said[1])

    os.kill(worker, signal.SIGCONT)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: real_fleet.effects() == {"h": 1})
    eventually(lambda: real_fleet.get("/ready")[0] == 200)
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]
    assert real_fleet.wait_ready_workers(1)["0"] == worker
    assert not real_fleet.events("child.killed")


def test_p21_one_bad_among_many_coroutines_kills_a_logarithm_of_them(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up(worker_concurrency=MANY)
    real_fleet.wait_ready_workers(1)
    poison = deaths.apoison.message("SIGKILL")
    good = [book.ahold.message(f"good{number}") for number in range(MANY - 1)]
    real_fleet.send(*good[:9], poison, *good[9:])
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: len(real_fleet.effects()) == MANY - 1)
    assert [letter["job"] for letter in letters(broker)] == [poison.id]
    assert set(real_fleet.effects().values()) == {1}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert 2 <= bitten(real_fleet, poison.id) <= most(MANY)


def test_p21_a_job_whose_stray_thread_drains_its_process_for_less_than_it_takes_comes_to_an_end(
    real_fleet: RealFleet,
) -> None:
    real_fleet.up(worker_drain_s=0.5)
    real_fleet.wait_ready_workers(1)
    real_fleet.send(deaths.strays.message("s"))
    eventually(lambda: real_fleet.effects() == {"s": 1})
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]
    assert real_fleet.rows("SELECT why, cleared_at IS NOT NULL FROM smena.strikes") == [("suspected", True)]
    assert len(real_fleet.events("child.exited")) == 1


def test_p19_jobs_of_a_consumer_that_is_closed_again_and_again_are_innocent(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    real_fleet.send(*(book.note.message(f"k{number}") for number in range(3)))
    for _ in range(4):
        with broker.another() as channel:
            channel.basic_qos(prefetch_count=3)
            held = channel.consume(names.work_queue(broker.prefix, "jobs"))
            assert [next(held)[2] for _ in range(3)]
    real_fleet.up()
    eventually(lambda: real_fleet.effects() == {"k0": 1, "k1": 1, "k2": 1})
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert broker.depth(names.dead_queue(broker.prefix, "jobs")) <= 0
    assert real_fleet.rows("SELECT count(*) FROM smena.strikes") == [(0,)]


def test_p21_a_host_that_dies_with_its_supervisor_leaves_its_starts_as_evidence(real_fleet: RealFleet) -> None:
    real_fleet.up()
    real_fleet.send(book.hold.message("h"))
    eventually(lambda: (real_fleet.folder / "running-h").exists())
    kill_host(real_fleet)
    assert real_fleet.rows("SELECT count(*) FROM smena.strikes") == [(0,)]

    real_fleet.up()
    eventually(lambda: real_fleet.rows("SELECT count(*) FROM smena.starts") == [(1,)])
    kill_host(real_fleet)

    real_fleet.up()
    eventually(lambda: [event["why"] for event in real_fleet.events("job.suspected")] == ["lost"])
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: real_fleet.effects() == {"h": 1})
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]
    assert real_fleet.rows("SELECT why, cleared_at IS NOT NULL FROM smena.strikes") == [("lost", True)]


def test_p22_suspects_that_run_apart_end_in_a_drain_like_all_others(real_fleet: RealFleet) -> None:
    real_fleet.up()
    worker = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(book.hold.message("h"), book.ahold.message("a"))
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == 2)
    os.kill(worker, signal.SIGKILL)
    for running in real_fleet.folder.glob("running-*"):
        running.unlink()
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == 2)
    assert len(real_fleet.events("job.suspected")) == 2
    real_fleet.signal(signal.SIGTERM)
    eventually(lambda: real_fleet.events("drain.handed_back"))
    (real_fleet.folder / "let-go").touch()
    assert real_fleet.exit_code() == Exit.DRAINED
    assert real_fleet.effects() == {"h": 1, "a": 1}
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]
    assert real_fleet.rows("SELECT count(*) FROM smena.lives") == [(0,)]


def kill_host(fleet: RealFleet) -> None:
    """Kill the supervisor, and with it its workers, as when a host goes down."""
    workers = fleet.pids("worker").values()
    fleet.signal(signal.SIGKILL)
    fleet.exit_code()
    eventually(lambda: not any(alive(pid) for pid in workers))


def test_p21_on_rabbitmq_alone_each_host_finds_its_poison_too(bare_fleet: RealFleet, broker: BrokerView) -> None:
    bare_fleet.up(processes=2, books=bare.__name__)
    bare_fleet.wait_ready_workers(2)
    folder = str(bare_fleet.folder)
    poison = bare.kills.message(folder)
    good = [bare.works.message(folder, f"good{number}") for number in range(10)]
    bare_fleet.send(*good[:3], poison, *good[3:])
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
    eventually(lambda: len({path.name.split("-")[1] for path in bare_fleet.folder.glob("worked-*")}) == len(good))
    assert [(letter["job"], letter["smena-reason"]) for letter in letters(broker)] == [(poison.id, "crashed")]
    assert len(list(bare_fleet.folder.glob("bitten-*"))) <= most(THREADS)
    assert not bare_fleet.events("job.retried")
