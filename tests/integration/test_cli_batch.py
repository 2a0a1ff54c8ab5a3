"""`smena batch` opens batches and steers them; `smena doctor` says what stands in their way."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result
from pydantic import SecretStr

from sharding import batches, claims
from sharding.claims import DeadItem, Wish
from smena.settings.groups import Amqp
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.fix_shell import Shell
from tests.integration.sharding import book
from workers.cli import main


@pytest.fixture(autouse=True)
def database(shell: Shell, database_url: str) -> Iterator[Database]:
    """Give a database, and settings that name it and the book."""
    shell.set(database_url=database_url, books=book.__name__)
    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as opened:
        yield opened


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments])


def told(*arguments: str) -> Any:
    ended = run(*arguments, "--json")
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.output
    return json.loads(ended.stdout)


def take_all(database: Database, batch: int, dead: int, epoch: int = 1) -> None:
    """Work the whole batch; one item dies."""
    while True:
        with database.transaction() as connection:
            claim = claims.take(connection, Wish(batch, epoch, "test", 60, 1000))
            if claim is None:
                return
            numbers = {piece.first + place for piece in claim.pieces for place in range(len(piece.items))}
            ended = [DeadItem(dead, 3, "bad", error_text="no good")] if dead in numbers else []
            claims.finish(connection, claim, dead=ended)


def test_a_batch_is_submitted_from_a_file_or_a_query_and_steered(database: Database, tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("\n".join(map(str, range(20))))
    first = told("batch", "submit", "works.each", "--file", "numbers.txt", "--key", "night")
    assert (first["total"], first["left"], first["done"], first["state"]) == (20, 20, 0, "running")
    again = run("batch", "submit", "works.each", "--file", "numbers.txt", "--key", "night")
    assert again.output.startswith(f"there was already batch {first['id']} of 20 items\n")
    query = told(
        "batch", "submit", "works.line", "--query", "SELECT n AS number, 'x' AS code FROM generate_series(1,3) n;"
    )
    with database.session() as session:
        assert [item.item for item in batches.items(session, query["id"], "left", limit=1)] == [
            {"number": 1, "code": "x"}
        ]
    assert [one["id"] for one in told("batch", "list")] == [query["id"], first["id"]]
    assert run("batch", "list", "--limit", "1").output == (
        f"batch {query['id']}, running, 0 of 3 done, 0 dead, 3 left, 0 items/s: works.line\n"
    )
    assert ": works.each, key night\n" in run("batch", "list").output
    which = str(first["id"])
    assert "paused" in run("batch", "pause", which).output
    assert run("batch", "pause", which).exit_code == 1
    assert "running" in run("batch", "resume", which).output
    take_all(database, first["id"], dead=7, epoch=2)
    assert [(item["number"], item["reason"]) for item in told("batch", "items", which)] == [(7, "bad")]
    assert "no good" in run("batch", "items", which).output
    ended = run("batch", "status", which)
    assert (ended.exit_code, "19 of 20 done, 1 dead" in ended.output) == (1, True)
    assert run("batch", "retry", which).output == "1 item is taken up again\n"
    assert run("batch", "retry", which).output == "no item of it is dead\n"
    assert "items/s" not in run("batch", "status", which).output
    assert told("batch", "status", which)["rate"] is None
    assert "cancelled" in run("batch", "cancel", which).output
    assert told("batch", "status", which, "--watch")["state"] == "cancelled"


def test_who_watches_a_batch_that_nobody_works_is_told_so_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = str(told("batch", "submit", "works.each", "--query", "SELECT 1 AS number")["id"])
    with database.transaction() as connection:
        connection.execute(sa.text("UPDATE smena.batches SET held_at = held_at - interval '1 day'"))
    looks = iter([None, None, "cancel"])

    def wait(_seconds: float) -> None:
        if next(looks) == "cancel":
            run("batch", "cancel", which)

    monkeypatch.setattr("workers.cli.batch.time.sleep", wait)
    ended = run("batch", "status", which, "--watch")
    assert ended.stderr.count("nobody has had it in hand for 86,4") == 1
    assert "cancelled" in ended.stdout


def test_a_batch_by_partition_is_submitted_and_its_items_are_listed_with_their_keys(database: Database) -> None:
    by = ["--mode", "partition", "--by", "code", "--partitions", "4", "--on-dead", "block"]
    query = "SELECT n AS number, 'c' || n % 2 AS code FROM generate_series(1, 4) AS n ORDER BY n"
    stands = told("batch", "submit", "works.line", "--query", query, *by)
    assert (stands["total"], stands["mode"]) == (4, "partition")
    left = told("batch", "items", str(stands["id"]), "--state", "left")
    assert sorted((item["key"], item["item"]["number"]) for item in left) == [
        ("c0", 2),
        ("c0", 4),
        ("c1", 1),
        ("c1", 3),
    ]
    assert run("batch", "items", str(stands["id"]), "--state", "left").output.split()[:2] == ["0", left[0]["key"]]
    with database.transaction() as connection:
        said = connection.exec_driver_sql("SELECT partitions, on_dead FROM smena.batches").one()
    assert tuple(said) == (4, "block")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("works.each", "--query", "SELECT 1", "--mode", "partition"), "wants `by`"),
        (("works.each", "--query", "SELECT 1 AS a", "--mode", "partition", "--by", "b"), "no column of the query"),
        (("works.each",), "by --file or by --query"),
        (("works.nobody", "--query", "SELECT 1"), "no loaded book has an actor works.nobody"),
        (("works.each", "--query", "SELECT 1/0"), "division by zero"),
        (("works.each", "--query", "DROP TABLE x"), "syntax error"),
        (("works.each", "--query", "SELECT 1", "--kwargs", "[1]"), "not a JSON object"),
        (("works.each", "--query", "SELECT 1", "--key", ""), "Error: a batch's key is 1 to"),
        (("works.each", "--query", "SELECT 1", "--key", "k" * 501), f"surrogate (key is '{'k' * 501}')"),
        (("works.awaits", "--query", "SELECT 1"), "plain function, not async (actor is works.awaits)"),
        (("works.each", "--query", "SELECT x FROM nowhere"), 'the query is refused: relation "nowhere" does not exist'),
        (("works.each", "--query", "SELECT 1 AS a, 2 AS a"), "Error: two columns of the query have one name"),
        (("works.each", "--query", "SELECT 1", "--kwargs", '{"to": 1}'), "to: Unexpected keyword argument"),
    ],
)
def test_what_cannot_be_a_batch_is_refused_with_its_reason(arguments: tuple[str, ...], told: str) -> None:
    ended = run("batch", "submit", *arguments)
    assert ended.exit_code != 0
    assert told in ended.output
    assert "where it is made" not in ended.output


def test_the_items_of_a_batch_that_is_not_there_are_no_empty_list(database: Database) -> None:
    for command in ("items", "status", "pause", "resume", "cancel", "retry"):
        ended = run("batch", command, "99")
        assert (ended.exit_code, ended.output) == (1, "Error: there is no batch 99\n")


@pytest.mark.parametrize("command", ["batch status 1", "schedule list", "dead list", "partition keys", "outbox list"])
def test_a_database_without_tables_is_told_of_in_a_sentence(
    empty_database_url: str, shell: Shell, command: str
) -> None:
    shell.set(database_url=empty_database_url)
    ended = run(*command.split())
    assert (ended.exit_code, "run `smena db upgrade`" in ended.output) == (1, True)


def test_a_pipe_is_read_to_its_end_and_said_to_be_waited_for(database: Database, tmp_path: Path) -> None:
    pipe = tmp_path / "numbers"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("1\n2\n",), name="writer")
    writer.start()
    ended = run("batch", "submit", "works.each", "--file", str(pipe))
    writer.join()
    assert ended.stderr == f"reading items from the pipe {pipe} until its writer closes it\n"
    assert " of 2 items" in ended.stdout


def test_a_database_that_does_not_answer_is_told_of_in_a_sentence(shell: Shell) -> None:
    shell.set(database_url="postgresql://nobody@127.0.0.1:9/nowhere")
    ended = run("batch", "status", "1")
    assert (ended.exit_code, "lost or refused" in ended.output) == (1, True)


def test_the_doctor_names_the_oldest_transaction_and_the_batch_that_nobody_works(
    database: Database, database_url: str, amqp: Amqp, shell: Shell
) -> None:
    shell.set(amqp_url=amqp.urls[0].get_secret_value(), amqp_prefix=amqp.prefix)
    assert run("doctor").stdout == "nothing to complain of\n"
    shell.set(batches_stalled_s="1")
    batch = told("batch", "submit", "works.each", "--query", "SELECT 1")["id"]
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE smena.batches SET held_at = now() - interval '1 h'")
    assert ", nobody has had it in hand for 3,60" in run("batch", "status", str(batch)).stdout
    with psycopg.connect(database_url, application_name="forgotten") as holder:
        holder.execute("SELECT pg_sleep(1.1)")
        pid = holder.info.backend_pid
        complaints = told("doctor", "--older-than", "1")
        ended = run("doctor", "--older-than", "1")
    assert [one["about"] for one in complaints] == ["open transaction", "batch"]
    assert "forgotten" in complaints[0]["found"]
    assert f"pg_terminate_backend({pid})" in complaints[0]["do"]
    assert f"smena batch resume {batch}" in complaints[1]["do"]
    assert (ended.exit_code, ended.output.splitlines()[-1]) == (1, "2 to look at")
