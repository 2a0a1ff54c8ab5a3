"""CPU steps of real workers: where they run, whom a kill costs an attempt, and that none outlives its worker."""

import os
import signal
from collections.abc import Sequence

from tests.acceptance.fleet.grip import alive
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process.exits import Exit


def steps(fleet: RealFleet, *keys: str) -> Sequence[int]:
    """Return the processes of the steps, once all run."""
    files = [fleet.folder / f"step-{key}" for key in keys]
    eventually(lambda: all(file.exists() for file in files))
    return [int(file.read_text(encoding="ascii")) for file in files]


def let_go(fleet: RealFleet) -> None:
    (fleet.folder / "let-go").touch()


def test_p30_a_killed_pool_process_costs_only_its_own_job_an_attempt(real_fleet: RealFleet) -> None:
    real_fleet.up(pool_processes=2)
    [worker] = real_fleet.wait_ready_workers(1).values()
    real_fleet.send(book.compute.message("victim"), book.acompute.message("neighbour"))
    victim, neighbour = steps(real_fleet, "victim", "neighbour")
    assert len({worker, victim, neighbour}) == 3
    os.kill(victim, signal.SIGKILL)
    let_go(real_fleet)
    eventually(lambda: real_fleet.effects() == {"victim": 1, "neighbour": 1})
    attempts = dict(real_fleet.rows("SELECT key, attempt FROM effects"))
    assert attempts == {"victim": 2, "neighbour": 1}
    assert real_fleet.rows("SELECT pid FROM effects WHERE key = 'neighbour'") == [(neighbour,)]
    assert [event["how"] for event in real_fleet.events("pool.step_ended")] == ["SIGKILL"]
    assert list(real_fleet.wait_ready_workers(1).values()) == [worker]


def test_p11_pool_processes_die_with_their_worker_and_its_job_is_done_elsewhere(real_fleet: RealFleet) -> None:
    real_fleet.up(pool_processes=1)
    before = real_fleet.wait_ready_workers(1)["0"]
    real_fleet.send(book.compute.message("k"))
    [step] = steps(real_fleet, "k")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: not alive(step))
    let_go(real_fleet)
    eventually(lambda: real_fleet.effects() == {"k": 1})
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]


def test_a_drain_waits_for_steps_and_leaves_no_process(real_fleet: RealFleet) -> None:
    real_fleet.up(pool_processes=1)
    real_fleet.send(book.compute.message("k"))
    [step] = steps(real_fleet, "k")
    real_fleet.signal(signal.SIGTERM)
    eventually(lambda: real_fleet.events("drain.started"))
    let_go(real_fleet)
    assert real_fleet.exit_code() == Exit.DRAINED
    assert real_fleet.effects() == {"k": 1}
    assert not alive(step)


def test_a_step_beyond_the_drain_goes_back_and_its_attempt_is_not_spent(real_fleet: RealFleet) -> None:
    real_fleet.up(pool_processes=1, worker_drain_s=1)
    real_fleet.send(book.compute.message("k"))
    [step] = steps(real_fleet, "k")
    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() in (Exit.DRAINED, Exit.DRAIN_OVERRAN)
    assert not alive(step)
    let_go(real_fleet)
    real_fleet.up(pool_processes=1)
    eventually(lambda: real_fleet.effects() == {"k": 1})
    assert real_fleet.rows("SELECT attempt FROM effects") == [(1,)]


def test_p30_a_worker_whose_pool_is_broken_stops_pulling_turns_unready_and_comes_back(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    real_fleet.up(pool_processes=1, worker_threads=2)
    real_fleet.wait_ready_workers(1)
    broken = real_fleet.folder / "pool-is-broken"
    broken.touch()
    real_fleet.send(*(book.compute.message(f"k{number}") for number in range(6)))
    eventually(lambda: real_fleet.events("pool.broken"))
    eventually(lambda: real_fleet.get("/ready")[0] == 503)
    assert "pool" in real_fleet.get("/ready")[1]
    let_go(real_fleet)
    broken.unlink()
    eventually(lambda: real_fleet.effects() == {f"k{number}": 1 for number in range(6)})
    assert {attempt for (attempt,) in real_fleet.rows("SELECT attempt FROM effects")} == {1}
    eventually(lambda: real_fleet.get("/ready")[0] == 200)
    assert real_fleet.events("pool.mended")
