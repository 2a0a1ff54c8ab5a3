"""`smena check` reaches the services as a process would at boot."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from smena.store import migrations
from workers.cli import main


@pytest.fixture(autouse=True)
def _empty_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("SMENA_")]:
        monkeypatch.delenv(variable)


def check(**env: str) -> Result:
    return CliRunner().invoke(main, ["check"], env={"SMENA_BOOKS": "actors.sales", **env})


def test_a_database_without_our_schema_is_an_error_until_it_is_upgraded(amqp_url: str, empty_database_url: str) -> None:
    env = {"SMENA_AMQP_URL": amqp_url, "SMENA_DATABASE_URL": empty_database_url}
    before = check(**env)
    assert before.exit_code == 2
    assert "schema smena is too old; run `smena db upgrade`" in before.stdout
    migrations.upgrade(empty_database_url)
    after = check(**env)
    assert after.exit_code == 0, after.output
    assert "0 error(s)" in after.stdout


def test_services_that_do_not_answer_are_errors_without_their_passwords(free_port: int) -> None:
    ended = check(
        SMENA_AMQP_URL=f"amqp://shop:hunter22@127.0.0.1:{free_port}/",
        SMENA_DATABASE_URL=f"postgresql://shop:hunter22@127.0.0.1:{free_port}/shop",
    )
    errors, _, _ = ended.stdout.partition("warnings:")
    assert ended.exit_code == 2
    assert "amqp.urls: no node takes a connection" in errors
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
