"""`smena settings` and `smena check` say what is set, by whom, and what is wrong."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from workers.cli import main

pytestmark = pytest.mark.usefixtures("shell")


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, arguments, env=env)


def test_each_setting_is_printed_with_its_value_and_source() -> None:
    shown = json.loads(run("settings", "--json", SMENA_WORKER_THREADS="4").stdout)
    assert shown["worker.threads"] == {"value": "4", "unit": "threads", "source": "SMENA_WORKER_THREADS"}
    assert shown["worker.drain_s"] == {"value": "25", "unit": "s", "source": "default"}


def test_no_secret_is_printed() -> None:
    env = {"SMENA_AMQP_URL": "amqp://shop:hunter22@h/", "SMENA_APP_API_KEY": "hunter22"}
    for arguments in (["settings"], ["settings", "--json"], ["check", "--offline"]):
        ended = run(*arguments, **env)
        assert ended.exit_code == 0, ended.output
        assert "hunter22" not in ended.output


def test_the_table_names_groups_and_sources() -> None:
    Path("smena.toml").write_text("[worker]\nprocesses = 3\n")
    lines = run("settings").stdout.splitlines()
    assert "[worker]" in lines
    assert any(line.split() == ["worker.processes", "3", "processes", "smena.toml"] for line in lines)


def test_one_of_a_unit_is_no_plural() -> None:
    Path("smena.toml").write_text("[worker]\nprocesses = 1\nthreads = 1\ndrain_s = 1\n[pool]\nnice = 1\n")
    told = run("settings").stdout
    for key, words in {"worker.processes": "1 process", "worker.threads": "1 thread", "worker.drain_s": "1 s"}.items():
        assert any(line.split()[:3] == [key, *words.split()] for line in told.splitlines()), told


def test_wrong_settings_are_named_and_end_with_the_exit_status_of_a_misconfigured_process() -> None:
    ended = run("settings", SMENA_WORKER_THREAD="4")
    assert ended.exit_code == 2
    assert "did you mean SMENA_WORKER_THREADS?" in ended.stderr


def test_check_prints_errors_and_warnings_apart() -> None:
    ended = run("check", "--offline", SMENA_RETRY_BASE_S="400")
    errors, _, warnings = ended.stdout.partition("warnings:")
    assert ended.exit_code == 2
    assert "retry.base_s" in errors
    assert "database.url: not set" in warnings
    assert "database.url" not in errors


def test_check_passes_with_warnings_only() -> None:
    Path("ducks.py").write_text(
        "import smena\n\nbook = smena.Book('ducks')\n\n\n@book.actor(queue='pond')\ndef quack(): ...\n"
    )
    ended = run("check", "--offline", SMENA_AMQP_URL="amqp://h/", SMENA_BOOKS="ducks")
    assert ended.exit_code == 0, ended.output
    assert "0 error(s)" in ended.stdout
    assert "books: ducks: 1 actor(s) on pond" in ended.stdout


def test_check_finds_what_keeps_a_fleet_from_working_without_asking_a_service() -> None:
    Path("geese.py").write_text(
        "import smena\n\nbook = smena.Book('geese')\n\n\n@book.actor(queue='pond', once=lambda: 1)\ndef honk(): ...\n"
    )
    ended = run("check", "--offline", SMENA_BOOKS="geese", SMENA_WORKER_QUEUES="lake")
    errors, _, warnings = ended.stdout.partition("warnings:")
    assert ended.exit_code == 2
    assert "amqp.urls: not set" in errors
    assert "amqp.urls" not in warnings
    assert "no loaded book has an actor on this queue: queues=lake" in errors
    ended = run("check", "--offline", SMENA_BOOKS="geese")
    assert "actor geese.honk has `once` or a session and needs PostgreSQL" in ended.stdout


def test_check_tells_what_needs_postgresql_and_keeps_no_worker_from_booting_for_a_schedule() -> None:
    Path("swans.py").write_text(
        "import smena\n\nbook = smena.Book('swans')\n\n\n"
        "@book.actor(queue='pond', schedule=smena.every(minutes=1))\ndef glide(): ...\n\n\n"
        "@book.once_per_deploy('hatched')\ndef hatch(): ...\n"
    )
    ended = run("check", "--offline", SMENA_AMQP_URL="amqp://h/", SMENA_BOOKS="swans")
    assert ended.exit_code == 0, ended.output
    _, _, warnings = ended.stdout.partition("warnings:")
    for actor in ("swans.glide", "swans.hatch"):
        assert f"the schedule of actor {actor} fires only with PostgreSQL; set SMENA_DATABASE_URL" in warnings
    given = run(
        "check", "--offline", SMENA_AMQP_URL="amqp://h/", SMENA_BOOKS="swans", SMENA_DATABASE_URL="postgresql:///x"
    )
    assert "fires only" not in given.stdout
    Path("storks.py").write_text(
        "import smena\n\nbook = smena.Book('storks')\n\n\n"
        "@book.actor(queue='lake', partition_by=lambda egg: egg, partitions=2)\ndef brood(egg: str): ...\n"
    )
    ended = run("check", "--offline", SMENA_AMQP_URL="amqp://h/", SMENA_BOOKS="storks")
    assert ended.exit_code == 2
    assert "actor storks.brood has `partition_by` and needs PostgreSQL" in ended.stdout


def test_check_finds_a_book_that_cannot_be_imported() -> None:
    ended = run("check", SMENA_BOOKS="no_such_module_anywhere")
    assert ended.exit_code == 2
    assert "no_such_module_anywhere" in ended.stdout


def test_bytes_that_are_no_text_are_refused_at_the_command_lines_door() -> None:
    result = CliRunner().invoke(main, ["schedule", "next", "report\udcff"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "argument 3 is not UTF-8 text" in result.stderr


def test_what_the_terminal_cannot_show_comes_escaped() -> None:
    ended = run("settings", SMENA_TELEMETRY_LOG_FILE="/var/log/\udcff")
    assert (ended.exit_code, "/var/log/\\udcff" in ended.stdout) == (0, True)
