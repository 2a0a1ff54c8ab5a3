"""`smena dead` tells people and programs the same about dead letters."""

import json
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from smena.records.dead_letters import DeadLetter, DeadLetters
from smena.settings import groups as settings
from smena.store.database import Database
from tests.fixtures.fix_shell import Shell
from workers.cli import main

SECRET = "4111" + "-SECRET"
HEAD = "Traceback (most recent call last):\n"
HOUSE = """\
  File "/app/lib/workers/middleware/tracing.py", line 43, in traced
    outcome = call(attempt)
  File "/app/lib/workers/middleware/actor.py", line 33, in _called
    result = actor.fn(*attempt.args, **attempt.kwargs)
             ^^^^^^^^
"""
OWN = """\
  File "/app/shop/mail.py", line 3, in receipt
    raise ValueError("no")
ValueError: no
"""


@pytest.fixture(autouse=True)
def _two_letters(shell: Shell, database_url: str) -> None:
    shell.set(database_url=database_url)
    died = datetime(2026, 1, 2, tzinfo=UTC)
    letters = [
        DeadLetter(
            job_id=job, attempt=1, queue="q", reason=reason, died_at=died, body=SECRET.encode(), traceback="at 1"
        )
        for job, reason in (("one", "bad"), ("two", "worse"))
    ]
    with closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database:
        assert DeadLetters(database).insert_many(letters) == [None, None]


def told(*arguments: str) -> Any:
    ended = CliRunner().invoke(main, ["dead", *arguments, "--json"])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_a_program_reads_the_list() -> None:
    listed = told("list", "--reason", "worse")
    assert [(letter["job"], letter["reason"], letter["attempt"]) for letter in listed["letters"]] == [
        ("two", "worse", 1)
    ]
    assert (listed["in_rows"], listed["in_queues"]) == ({"bad": 1, "worse": 1}, None)


def test_a_program_reads_one_letter_and_its_body_only_when_asked() -> None:
    (letter,) = told("show", "one")
    assert (letter["reason"], letter["traceback"], letter["body_bytes"]) == ("bad", "at 1", len(SECRET))
    assert SECRET not in json.dumps(letter)
    assert told("show", str(letter["letter"]), "--body")[0]["body"] == SECRET


def test_a_person_reads_the_traceback_from_the_actor_on_and_a_program_the_whole(database_url: str) -> None:
    died = datetime(2026, 1, 2, tzinfo=UTC)
    letter = DeadLetter(
        job_id="three", attempt=1, queue="q", reason="bad", died_at=died, body=b"", traceback=HEAD + HOUSE + OWN
    )
    with closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database:
        assert DeadLetters(database).insert_many([letter]) == [None]
    assert told("show", "three")[0]["traceback"] == HEAD + HOUSE + OWN
    shown = CliRunner().invoke(main, ["dead", "show", "three"]).stdout
    assert HEAD + OWN in shown
    assert "died         2026-01-02 00:00:00Z\n" in shown


@pytest.mark.parametrize(("body", "times"), [(b'{"args":[7,1]}', 1), (b'{"args":["7"]}', 0), (b"\xff", 0)])
def test_the_letter_of_a_shard_job_names_its_batch(database_url: str, body: bytes, times: int) -> None:
    died = datetime(2026, 1, 2, tzinfo=UTC)
    letter = DeadLetter(
        job_id="shard", attempt=1, queue="q", reason="crashed", died_at=died, body=body, actor="smena.shard"
    )
    with closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database:
        assert DeadLetters(database).insert_many([letter]) == [None]
    assert CliRunner().invoke(main, ["dead", "show", "shard"]).stdout.count("batch        7") == times
    assert CliRunner().invoke(main, ["dead", "list"]).stdout.count("shard  of batch 7") == times


def test_text_of_a_foreign_message_cannot_steer_a_terminal_nor_forge_a_line(database_url: str) -> None:
    foul = "\x1b[31m\r\nfake\x9b\x07\u202e"
    letter = DeadLetter(
        job_id=foul,
        attempt=1,
        queue="q",
        reason=foul,
        died_at=datetime(2026, 1, 2, tzinfo=UTC),
        body=foul.encode(),
        actor=foul,
        error_text=foul,
        traceback=foul,
    )
    with closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database:
        assert DeadLetters(database).insert_many([letter]) == [None]
    number = str(next(one["letter"] for one in told("list")["letters"] if one["job"] == foul))
    for arguments in (["list"], ["show", number, "--body"], ["digest"]):
        shown = CliRunner().invoke(main, ["dead", *arguments]).stdout
        assert r"\x1b[31m\x0d" in shown
        assert not set(shown) & set(foul) - set("\n[31mfake")
        assert len(shown.splitlines()) < 30
    assert told("show", number)[0]["text"] == foul


def test_a_person_reads_the_same() -> None:
    listed = CliRunner().invoke(main, ["dead", "list"])
    assert "2 in rows: bad 1, worse 1" in listed.stdout
    shown = CliRunner().invoke(main, ["dead", "show", "one"])
    assert "reason       bad" in shown.stdout
    assert SECRET not in shown.stdout
