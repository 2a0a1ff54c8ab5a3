"""Guarantee 1 on real services: an attempt is settled once, whatever is delivered twice or dies between two steps."""

import os
import random
import signal

import psycopg

from smena.amqp import names
from smena.job import Job
from tests.acceptance.fleet.real import RealFleet
from tests.acceptance.jobs import book
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView

ROWS = "SELECT job_id, attempt, kind, confirmed_at IS NOT NULL FROM smena.settlements ORDER BY attempt"

LETTERS = "SELECT reason, actor FROM smena.dead_letters WHERE strpos(job_id, '~') = {} ORDER BY actor"


def test_p14_two_copies_of_one_attempt_become_one_next_attempt(real_fleet: RealFleet, broker: BrokerView) -> None:
    job = book.bug.message("twice")
    real_fleet.send(job, job)
    real_fleet.up()
    dead = names.dead_queue(broker.prefix, "jobs")
    eventually(lambda: broker.depth(dead) == 1)
    eventually(lambda: len(real_fleet.events("job.lost")) == 1)
    assert [event["attempt"] for event in real_fleet.events("job.retried")][:1] == [1]
    eventually(
        lambda: (
            real_fleet.rows(ROWS) == [(job.id, 1, "retry", True), (job.id, 2, "retry", True), (job.id, 3, "dead", True)]
        )
    )
    assert broker.depth(dead) == 1


def test_a_settled_attempt_does_not_run_again_and_its_stored_message_goes_out(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    job = book.note.message("settled").replace(attempt=2)
    instead = real_fleet.publisher.outgoing_for(book.note.message("instead"))
    with psycopg.connect(real_fleet.database_url) as database:
        database.execute(
            "INSERT INTO smena.settlements (job_id, attempt, kind, queue, exchange, routing_key, body, properties)"
            " VALUES (%s, 2, 'retry', 'jobs', %s, %s, %s, %s)",
            (job.id, instead.exchange, instead.routing_key, instead.body, '{"message_id": "instead"}'),
        )
    real_fleet.up()
    real_fleet.send(job)
    eventually(lambda: real_fleet.effects() == {"instead": 1})
    assert [event["job"] for event in real_fleet.events("settle.resumed")] == [job.id]


def test_an_id_that_two_different_jobs_have_costs_the_second_its_run_but_drops_neither(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    first = book.bug.message("first")
    others = [book.bug.message("other").replace(id=first.id), book.broken_rule.message("x").replace(id=first.id)]
    late = book.note.message("late").replace(id=first.id, attempt=2)
    real_fleet.up(roles="worker,archivist")
    real_fleet.send(first)
    eventually(lambda: real_fleet.rows(LETTERS.format(0)) == [("unexpected", "jobs.bug")])

    real_fleet.send(*others, late)

    buried = LETTERS.format(len(first.id) + 1)
    eventually(lambda: len(real_fleet.rows(buried)) == 3)
    assert real_fleet.rows(buried) == [("id_reused", f"jobs.{name}") for name in ("broken_rule", "bug", "note")]
    assert broker.depth(names.work_queue(broker.prefix, "jobs")) == 0
    assert not real_fleet.effects()
    assert not real_fleet.events("job.lost")


def test_a_first_delivery_is_not_dropped_for_a_row_of_its_attempt(real_fleet: RealFleet) -> None:
    """A row alone never drops a job: an operator's replay sends a dead job again under its own id."""
    job = book.note.message("again")
    with psycopg.connect(real_fleet.database_url) as database:
        database.execute(
            "INSERT INTO smena.settlements VALUES (%s, 1, 'dead', 'jobs', '', 'x', '', '{}', now(), now())", (job.id,)
        )
    real_fleet.up()
    real_fleet.send(job)
    eventually(lambda: real_fleet.effects() == {"again": 1})


def test_p14_killed_again_and_again_while_retrying_every_job_takes_effect_once(
    real_fleet: RealFleet, broker: BrokerView
) -> None:
    keys = [f"k{number}" for number in range(400)]
    real_fleet.send(*(book.third_time_once.message(key) for key in keys))
    real_fleet.up(processes=2)
    for round_, post in enumerate(random.Random(14).choices("01", k=4)):
        kill_one(real_fleet, post, after_retries=100 * round_)
    eventually(lambda: len(real_fleet.effects()) == len(keys))
    assert set(real_fleet.effects().values()) == {1}
    assert broker.depth(names.dead_queue(broker.prefix, "jobs")) == 0


def kill_one(fleet: RealFleet, post: str, after_retries: int) -> None:
    """Kill the worker at a post in the middle of its work, and wait for its replacement."""
    pid = fleet.wait_ready_workers(2)[post]
    eventually(lambda: fleet.retried() > after_retries or len(fleet.effects()) == 400)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: fleet.pids("worker").get(post) not in (None, pid))


def test_on_rabbitmq_alone_retries_and_deaths_work_and_once_refuses_to_boot(
    bare_fleet: RealFleet, broker: BrokerView
) -> None:
    bare_fleet.up(books="tests.acceptance.jobs.bare")
    bare_fleet.send(Job(actor="bare.fails", queue="jobs", args=(2,)), Job(actor="bare.fails", queue="jobs", args=(9,)))
    eventually(lambda: broker.depth(names.dead_queue(broker.prefix, "jobs")) == 1)
    eventually(lambda: broker.depth(names.work_queue(broker.prefix, "jobs")) == 0)
    assert sorted(event["attempt"] for event in bare_fleet.events("job.retried")) == [1, 1, 2]


def test_an_actor_with_once_refuses_to_boot_without_a_database(bare_fleet: RealFleet) -> None:
    bare_fleet.up()
    assert bare_fleet.exit_code() == 2
    assert "needs PostgreSQL" in bare_fleet.errors()


def test_p12_an_error_that_cannot_be_looked_at_is_a_dead_letter_after_its_attempts(real_fleet: RealFleet) -> None:
    liars = [book.lies.message("x"), book.alies.message("x"), book.lies_in_session.message("x")]
    real_fleet.up(roles="worker,archivist")
    real_fleet.send(*liars)

    eventually(lambda: len(real_fleet.rows("SELECT reason FROM smena.dead_letters")) == len(liars))

    letters = real_fleet.rows("SELECT actor, reason, attempt, error_text FROM smena.dead_letters ORDER BY actor")
    names = sorted(job.actor for job in liars)
    assert [letter[:3] for letter in letters] == [(name, "unexpected", 3) for name in names]
    assert all("Liar: x" in letter[3] for letter in letters)
    assert not real_fleet.effects(), "what it wrote is rolled back"
    assert not real_fleet.events("job.unsettled")
