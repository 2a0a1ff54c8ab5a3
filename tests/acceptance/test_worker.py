"""A real worker on real queues: what becomes of a job that succeeds, fails in each way, or is interrupted."""

import fcntl
import os
import signal
from collections import Counter

from smena.amqp import names
from smena.job import Job
from tests.acceptance.fleet.grip import alive
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from workers.process.exits import Exit


def dead_reasons(broker: BrokerView) -> list[str]:
    letters = broker.take(names.dead_queue(broker.prefix, "jobs"))
    return sorted(str(properties.headers["smena-reason"]) for properties, _ in letters)


def test_jobs_take_effect_on_threads_and_on_the_event_loop(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up()
    real_fleet.send(book.note.message("a"), book.note_once.message("b"), book.anote_once.message("c"))
    eventually(lambda: real_fleet.effects() == {"a": 1, "b": 1, "c": 1})
    eventually(lambda: broker.depth(names.work_queue(broker.prefix, "jobs")) == 0)


def test_a_repeat_of_a_once_job_is_absorbed(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2)
    jobs = [book.note_once.message(f"k{number}") for number in range(50)]
    jobs += [book.anote_once.message(f"k{number}") for number in range(50, 100)]
    real_fleet.send(*jobs, *jobs)
    eventually(lambda: len(real_fleet.events("once.hit")) == 100)
    assert set(real_fleet.effects().values()) == {1}
    assert len(real_fleet.effects()) == 100


def test_a_transient_failure_is_tried_again_until_it_succeeds(real_fleet: RealFleet) -> None:
    real_fleet.up()
    real_fleet.send(book.third_time.message("x"))
    eventually(lambda: real_fleet.rows("SELECT key, attempt FROM effects") == [("x", 3)])
    assert [event["attempt"] for event in real_fleet.events("job.retried")] == [1, 2]


def test_p17_failures_end_as_dead_letters_that_say_why(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up()
    wrong = Job(actor="jobs.note", queue="jobs", args=(1, 2, 3))
    real_fleet.send(book.broken_rule.message("r"), book.bug.message("key"), book.bug.message("exit"), wrong)
    reasons = ["invalid_arguments", "rule_broken", "unexpected", "unexpected"]
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == len(reasons))
    assert dead_reasons(broker) == reasons
    assert len(real_fleet.events("job.retried")) == 4


def test_p23_any_bytes_end_as_a_dead_letter_and_the_queue_goes_on(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up()
    real_fleet.send(book.note.message("before"))
    eventually(lambda: real_fleet.effects() == {"before": 1})
    good = (
        b'{"queue_name":"jobs","actor_name":"jobs.note","args":["x"],"kwargs":{},"message_id":"1","message_timestamp":1'
    )
    bad = [
        b"",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"queue_name": "jobs"}',
        good + b',"options":null}',
        good.replace(b'"jobs.note"', b"[]") + b',"options":{}}',
        good.replace(b'["x"]', b'"abc"') + b',"options":{}}',
        good.replace(b'["x"]', b"[NaN]") + b',"options":{}}',
        good.replace(b'["x"]', b"[1e999]") + b',"options":{}}',
        good.replace(b'["x"]', b'["\\ud800"]') + b',"options":{}}',
        good.replace(b'["x"]', b'["\\u0000"]') + b',"options":{}}',
    ]
    queue = names.work_queue(broker.prefix, "jobs")
    for body in bad:
        broker.put("", queue, body)
    real_fleet.send(book.note.message("after"))
    eventually(lambda: real_fleet.effects() == {"before": 1, "after": 1})
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == len(bad))
    letters = broker.take(names.dead_queue(broker.prefix, "jobs"))
    assert sorted(body for _, body in letters) == sorted(bad)
    assert {properties.headers["smena-reason"] for properties, _ in letters} == {"undecodable"}


def test_p20_an_unknown_actor_is_parked_and_then_dead(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up(worker_unknown_actor_s=3)
    real_fleet.send(Job(actor="jobs.not_deployed_yet", queue="jobs"))
    eventually(lambda: real_fleet.events("job.snoozed"))
    assert broker.depth(names.dead_queue(broker.prefix, "jobs")) <= 0
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
    assert dead_reasons(broker) == ["unknown_actor"]


def test_p12_messages_sent_in_a_once_job_exist_exactly_if_its_effect_does(real_fleet: RealFleet) -> None:
    real_fleet.up(roles="worker,relay")
    real_fleet.send(book.with_follow_up.message("good", fails=False), book.with_follow_up.message("bad", fails=True))
    eventually(lambda: real_fleet.events("job.dead"))
    eventually(lambda: real_fleet.effects() == {"good": 1, "good-follow-up": 1})
    assert real_fleet.rows("SELECT count(*) FROM smena.outbox") == [(1,)]


def test_what_one_job_set_in_its_session_meets_no_other(real_fleet: RealFleet) -> None:
    real_fleet.up()
    for number in range(10):
        real_fleet.send(book.leave_for_nowhere.message(f"left-{number}"), book.note_once.message(f"once-{number}"))
        real_fleet.send(book.note.message(f"plain-{number}"))
    eventually(lambda: len(real_fleet.effects()) == 30)
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]


def test_p08_a_drain_finishes_what_runs_and_hands_back_the_rest(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up()
    real_fleet.send(*(book.hold.message(f"h{number}") for number in range(20)), book.ahold.message("a"))
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == 5)
    pid = real_fleet.pids("worker")["0"]

    real_fleet.signal(signal.SIGTERM)
    queue = names.work_queue(broker.prefix, "jobs")
    eventually(lambda: broker.depth(queue) == 16)
    (real_fleet.folder / "let-go").touch()

    assert real_fleet.exit_code() == Exit.DRAINED
    assert len(real_fleet.effects()) == 5
    assert broker.depth(queue) == 16
    assert (real_fleet.folder / f"closed-{pid}").exists()


def test_a_drain_that_overruns_loses_nothing_and_spends_no_attempt(real_fleet: RealFleet) -> None:
    real_fleet.up(worker_drain_s=1)
    real_fleet.send(book.hold.message("h"), book.ahold.message("a"))
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == 2)
    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() == Exit.DRAIN_OVERRAN
    assert not real_fleet.effects()

    (real_fleet.folder / "let-go").touch()
    real_fleet.up()
    eventually(lambda: real_fleet.effects() == {"h": 1, "a": 1})
    assert real_fleet.rows("SELECT DISTINCT attempt FROM effects") == [(1,)]


def test_p22_a_killed_worker_is_replaced_alone_and_its_jobs_are_done(real_fleet: RealFleet) -> None:
    real_fleet.up(processes=2)
    before = real_fleet.wait_ready_workers(2)
    real_fleet.send(*(book.hold.message(f"h{number}") for number in range(8)))
    eventually(lambda: len(list(real_fleet.folder.glob("running-*"))) == 8)
    os.kill(before["0"], signal.SIGKILL)
    eventually(lambda: real_fleet.pids("worker").get("0") not in (None, before["0"]))
    (real_fleet.folder / "let-go").touch()
    eventually(lambda: len(real_fleet.effects()) == 8)
    assert set(real_fleet.effects().values()) == {1}
    assert real_fleet.pids("worker")["1"] == before["1"]
    assert {attempt for (attempt,) in real_fleet.rows("SELECT attempt FROM effects")} == {1}


def test_p11_a_killed_supervisor_leaves_no_worker_consuming(real_fleet: RealFleet, broker: BrokerView) -> None:
    real_fleet.up(processes=2)
    pids = real_fleet.wait_ready_workers(2)
    real_fleet.signal(signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in pids.values()))
    real_fleet.send(book.note.message("later"))
    eventually(lambda: broker.depth(names.work_queue(broker.prefix, "jobs")) == 1)


def test_p50_a_log_pipe_that_nobody_reads_blocks_no_job(real_fleet: RealFleet) -> None:
    os.mkfifo(real_fleet._errors)
    pipe = os.open(real_fleet._errors, os.O_RDWR)
    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
    real_fleet.up()
    keys = [f"k{number}" for number in range(100)]
    real_fleet.send(*(book.third_time.message(key) for key in keys))

    eventually(lambda: real_fleet.effects() == Counter(keys))

    real_fleet.signal(signal.SIGTERM)
    assert real_fleet.exit_code() == Exit.DRAINED
    os.close(pipe)


def test_p55_a_queue_with_other_arguments_is_one_clear_refusal_at_boot(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    queue = names.work_queue(broker.prefix, "jobs")
    broker.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
    real_fleet.up()
    assert real_fleet.exit_code() == Exit.MISCONFIGURED
    assert f"{queue}: x-dead-letter-exchange should be" in real_fleet.errors()
    assert "smena topology diff" in real_fleet.errors()
