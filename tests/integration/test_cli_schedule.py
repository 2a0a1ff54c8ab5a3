"""`smena schedule`: what an operator sees and does."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from click.testing import CliRunner

from tests.fixtures.fix_shell import Shell
from workers.cli.schedule import schedule

Smena = Callable[..., str]


@pytest.fixture
def smena(database_url: str, shell: Shell) -> Smena:
    """Give a function that runs `smena schedule` and returns what it printed; it must end with 0 unless told."""
    shell.set(database_url=database_url)

    def run(*words: str, status: int = 0) -> str:
        result = CliRunner().invoke(schedule, words)
        assert result.exit_code == status, result.output
        return result.output

    return run


def _jobs(database_url: str) -> int:
    with psycopg.connect(database_url) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM smena.outbox").fetchall()
    return int(count)


def test_a_schedule_is_added_seen_paused_fired_and_removed(smena: Smena, database_url: str) -> None:
    rule = "cron 30 1 * * * Europe/London"
    assert "comes next at 20" in smena(
        "add", "report", "reports.nightly", rule, "--queue", "reports", "--args", '["a"]'
    )
    assert "misfire=one overlap=skip  reports.nightly" in smena("list")
    ticks = smena("next", "report", "--count", "400").splitlines()
    assert len(ticks) == 400
    assert sum("gap:" in tick for tick in ticks) in (1, 2)  # two from a day shortly before one
    assert sum("fold:" in tick for tick in ticks) in (1, 2)
    smena("pause", "report")
    assert "paused" in smena("list")
    assert "report comes next at" in smena("resume", "report")
    assert "fired as job" in smena("run", "report")
    assert "fired (by hand) as job" in smena("history", "report")
    assert _jobs(database_url) == 1
    smena("remove", "report")
    assert "no schedules; the scheduler that leads" in smena("list")
    assert "fired (by hand)" in smena("history", "report"), "what it did stays to be seen"
    assert "no schedule of this name" in smena("history", "rapport", status=1)


def test_a_schedule_that_is_due_and_not_decided_says_where_its_cause_stands(smena: Smena, database_url: str) -> None:
    smena("add", "beat", "house.beat", "every 60m", "--queue", "house")
    assert "schedule.failed" not in smena("list")
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE smena.schedules SET next_at = now() - interval '1 h'")
    assert "due, not decided: see `schedule.failed`" in smena("list")


def test_a_cron_job_that_comes_twice_fires_once(smena: Smena, database_url: str) -> None:
    smena("add", "beat", "house.beat", "every 60m", "--queue", "house", "--overlap", "allow")
    assert "fired as job" in smena("tick", "--now", "beat")
    assert "nothing to fire" in smena("tick", "--now", "beat")
    assert _jobs(database_url) == 1


def test_a_cron_job_needs_no_scheduler_where_the_books_declare_the_schedule(
    smena: Smena, database_url: str, shell: Shell
) -> None:
    shell.set(books="tests.fixtures.hourly_book")
    assert "fired as job" in smena("tick", "--now", "hourly.sweep")
    assert "nothing to fire" in smena("tick", "--now", "hourly.sweep")
    smena("tick", "--now", "hourly.swept", status=1)
    assert _jobs(database_url) == 1


def test_the_fleets_own_schedules_are_listed_whatever_books_are_loaded(smena: Smena, database_url: str) -> None:
    own = {line.split()[0]: line for line in smena("list").splitlines() if "the fleet's own" in line}
    kept = ("outbox", "settlements", "once_keys", "strikes", "ticks", "batches", "shard_jobs", "members", "dead_digest")
    assert set(own) == {f"fleet:{name}" for name in kept}
    assert "every 86400s" in own["fleet:dead_digest"]
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO smena.once_keys (actor, key, job_id, expires_at) VALUES ('a', 'k', 'j', '2026-01-01')"
        )
    assert "1 row(s) went" in smena("run", "fleet:once_keys")
    for words in (("pause", "fleet:outbox"), ("remove", "fleet:outbox"), ("run", "fleet:dead_digest")):
        assert smena(*words, status=1).startswith("Error: ")


@pytest.mark.parametrize(
    "words",
    [
        ("run", "nobody"),
        ("next", "nobody"),
        ("remove", "nobody"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(smena: Smena, words: tuple[str, ...]) -> None:
    assert smena(*words, status=1).startswith("Error: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("bad", "a.b", "cron 61 * * * *"), "RULE"),
        (("bad", "a.b", "cron 0 3 * * * Europe/Moskau"), "no such time zone"),
        (("bad", "a.b", "sometimes"), "every 5m"),
        (("bad", "a b", "every 5m"), "ACTOR"),
        (("two words", "a.b", "every 5m"), "NAME"),
    ],
)
def test_a_refusal_speaks_of_what_was_typed_and_not_of_code(smena: Smena, words: tuple[str, ...], told: str) -> None:
    refusal = smena("add", *words, "--queue", "q", status=2)
    assert told in refusal
    assert "declares" not in refusal


@pytest.fixture
def _stock(shell: Shell) -> None:
    shell.set(books="tests.fixtures.stock_book")


@pytest.mark.usefixtures("_stock")
@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("stock.apply", "--queue", "stock", "--args", '["7"]'), 2, "an ordered actor has no schedule"),
        (("stock.count", "--queue", "stock", "--args", "[7]"), 2, "stock.count is on queue counts"),
        (("stock.count", "--args", '["seven"]'), 1, "shelves"),
        (("stock.taken",), 2, "no loaded book has stock.taken"),
    ],
)
def test_an_actor_of_a_loaded_book_is_added_as_in_code_or_refused(
    smena: Smena, words: tuple[str, ...], status: int, told: str
) -> None:
    actor, *options = words
    assert told in smena("add", "tick", actor, "every 1s", *options, status=status)
    assert "no schedules" in smena("list")


@pytest.mark.usefixtures("_stock")
def test_a_loaded_actor_says_its_queue_and_of_one_that_no_book_has_it_is_told(smena: Smena) -> None:
    assert "no loaded book" not in smena("add", "count", "stock.count", "every 5m", "--args", "[7]")
    told = smena("add", "beat", "house.beat", "every 5m", "--queue", "house")
    assert told.endswith("no loaded book has house.beat; its jobs wait in queue house for a worker that has it\n")
