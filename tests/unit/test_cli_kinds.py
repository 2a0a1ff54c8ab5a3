"""Values that no command can do anything with are usage errors: one sentence, exit status 2, and nothing is begun."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from workers.cli import main

pytestmark = pytest.mark.usefixtures("shell")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "command",
    [
        "doctor --older-than",
        "dead digest --days",
        "health --timeout-s",
        "drill run kill-worker --seconds",
        "db upgrade --wait-s",
        "debug memory worker-0 --seconds",
        "debug profile worker-0 --seconds",
    ],
)
def test_what_is_no_number_is_in_no_range(command: str, value: str) -> None:
    ended = CliRunner().invoke(main, [*command.split(), value])
    assert ended.exit_code == 2, ended.output
    assert ended.stderr.rstrip().endswith("is not a finite number.") or "is not in the range" in ended.stderr


@pytest.mark.parametrize("command", ["doctor --management", "topology diff --management"])
@pytest.mark.parametrize("address", ["nonsense", "amqp://127.0.0.1", "http://", "http://127.0.0.1:99999"])
def test_an_address_that_is_none_of_a_management_api_is_refused(command: str, address: str) -> None:
    ended = CliRunner().invoke(main, [*command.split(), address])
    assert ended.exit_code == 2, ended.output
    assert "an address of RabbitMQ's management API reads http://user:password@host:15672" in ended.stderr


def test_a_file_that_cannot_be_written_is_refused_before_anybody_looks_and_one_that_is_there_is_kept() -> None:
    ended = CliRunner().invoke(main, ["debug", "profile", "worker-0", "--output", "nowhere/stacks"])
    assert ended.exit_code == 2, ended.output
    assert "there is no folder nowhere" in ended.stderr
    Path("stacks").write_text("as it was")
    assert CliRunner().invoke(main, ["debug", "profile", "nobody", "--output", "stacks"]).exit_code == 1
    assert Path("stacks").read_text() == "as it was"
