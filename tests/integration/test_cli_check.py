"""`smena check` reaches the services as a process would at boot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.sql import SQL, Identifier

from smena.store import migrations
from tests.fixtures.fix_broker import BrokerView
from workers.cli import main

pytestmark = pytest.mark.usefixtures("shell")


def check(**env: str) -> Result:
    return CliRunner().invoke(main, ["check"], env={"SMENA_BOOKS": "actors.sales", **env})


def test_a_database_without_our_schema_is_an_error_until_it_is_upgraded(amqp_url: str, empty_database_url: str) -> None:
    env = {"SMENA_AMQP_URL": amqp_url, "SMENA_DATABASE_URL": empty_database_url}
    before = check(**env)
    assert before.exit_code == 2
    assert "schema smena is not there; run `smena db upgrade`" in before.stdout
    migrations.upgrade(empty_database_url)
    after = check(**env)
    assert after.exit_code == 0, after.output
    assert "0 error(s)" in after.stdout
    assert "books: actors.sales: " in after.stdout
    assert "broker: RabbitMQ 3." in after.stdout or "broker: RabbitMQ 4." in after.stdout
    assert "database: schema smena at " in after.stdout


def test_the_books_of_the_current_folder_are_found_by_every_command_that_reads_them(
    amqp_url: str, broker: BrokerView, unique: str
) -> None:
    broker.knows("pond")
    source = "import smena\n\nbook = smena.Book('b')\n\n\n@book.actor(queue='pond')\ndef quack(): ...\n"
    Path(f"{unique}.py").write_text(source)
    env = {"SMENA_AMQP_URL": amqp_url, "SMENA_AMQP_PREFIX": unique, "SMENA_BOOKS": unique}
    for command in (["check"], ["topology", "declare", "pond"], ["topology", "diff"], ["dead", "list"]):
        ended = CliRunner().invoke(main, command, env=env)
        assert ended.exit_code == 0, (command, ended.output)


def test_p13_a_time_limit_that_the_broker_would_undercut_is_an_error(amqp_url: str, unique: str) -> None:
    source = "import smena\n\nbook = smena.Book('b')\n\n\n@book.actor(queue='pond', time_limit=2000)\ndef swim(): ...\n"
    Path(f"{unique}.py").write_text(source)
    env = {"SMENA_AMQP_URL": amqp_url, "SMENA_AMQP_PREFIX": unique, "SMENA_BOOKS": unique}
    ended = CliRunner().invoke(main, ["check"], env=env)
    assert ended.exit_code == 2, ended.output
    assert "worker.time_limit_s: " in ended.stdout
    assert "a job of b.swim may run" in ended.stdout
    assert "says the setting amqp.consumer_timeout_s" in ended.stdout
    longer = CliRunner().invoke(main, ["check"], env={**env, "SMENA_AMQP_CONSUMER_TIMEOUT_S": "3600"})
    assert longer.exit_code == 0, longer.output
    assert "time limits: below the broker's consumer timeout" in longer.stdout


def test_services_that_do_not_answer_are_errors_without_their_passwords(free_port: int) -> None:
    ended = check(
        SMENA_AMQP_URL=f"amqp://shop:hunter22@127.0.0.1:{free_port}/",
        SMENA_DATABASE_URL=f"postgresql://shop:hunter22@127.0.0.1:{free_port}/shop",
    )
    errors, _, _ = ended.stdout.partition("warnings:")
    assert ended.exit_code == 2
    assert (
        f"amqp.urls: The connection to RabbitMQ was lost or refused: never connected; 127.0.0.1:{free_port}" in errors
    )
    assert "database.url: The connection to PostgreSQL was lost" in errors
    assert "hunter22" not in ended.output


@pytest.fixture
def free_port() -> int:
    """Give a port on which nobody listens."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_schema_that_a_process_refuses_as_too_new_is_an_error(amqp_url: str, database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE smena.version SET version_num = '0099'")
    ended = check(SMENA_AMQP_URL=amqp_url, SMENA_DATABASE_URL=database_url)
    assert ended.exit_code == 2, ended.output
    assert "found=99" in ended.stdout
    assert "0099 of a newer build" in ended.stdout


def test_an_address_of_a_pooler_is_an_error(amqp_url: str, pooled: Callable[..., str]) -> None:
    ended = check(SMENA_AMQP_URL=amqp_url, SMENA_DATABASE_URL=pooled())
    assert ended.exit_code == 2, ended.output
    assert "give database.url the address of the server itself" in ended.stdout


@contextmanager
def as_role(database_url: str, name: str, *grants: str) -> Iterator[str]:
    """Give the address of the database for a role that has these rights alone."""
    role = Identifier(name)
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'drake'").format(role))
        try:
            for grant in grants:
                owner.execute(SQL("GRANT " + grant + " TO {}").format(role))
            yield (
                urlsplit(database_url)
                ._replace(netloc=f"{name}:drake@{urlsplit(database_url).netloc.rpartition('@')[2]}")
                .geturl()
            )
        finally:
            owner.execute(SQL("DROP OWNED BY {}").format(role))
            owner.execute(SQL("DROP ROLE {}").format(role))


def test_a_role_without_rights_is_an_error_beside_all_that_was_found(
    amqp_url: str, database_url: str, unique: str
) -> None:
    with as_role(database_url, unique) as address:
        ended = check(SMENA_AMQP_URL=amqp_url, SMENA_DATABASE_URL=address)
    assert ended.exit_code == 2, ended.output
    assert "PostgreSQL refuses: permission denied" in ended.stdout
    assert "books: actors.sales: " in ended.stdout


def test_a_role_that_may_not_keep_a_jobs_result_is_an_error(amqp_url: str, database_url: str, unique: str) -> None:
    read = ("USAGE ON SCHEMA smena", "SELECT, INSERT ON ALL TABLES IN SCHEMA smena")
    with as_role(database_url, unique, *read) as address:
        ended = check(SMENA_AMQP_URL=amqp_url, SMENA_DATABASE_URL=address)
    assert ended.exit_code == 2, ended.output
    assert "table=smena.once_keys lacking=UPDATE" in ended.stdout
