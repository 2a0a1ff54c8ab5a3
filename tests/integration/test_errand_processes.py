"""Work that is done once per deploy: several processes race for it, are killed in the middle of it, and it is once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import IO

import psycopg
import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from smena.records.ticks import Endings
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from tests.fixtures.eventually import PATIENCE_S
from tests.fixtures.fix_shell import Shell
from tests.integration.errand_process import PIECES
from workers.cli.once import once

JOBS = "SELECT id FROM smena.outbox WHERE actor LIKE 'moved.%' ORDER BY seq"


class Apart:
    """A process apart; see `errand_process.py`. It ends by itself when its input ends."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.integration.errand_process", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[str] = self._process.stdin
        self._out: IO[str] = self._process.stdout

    def says(self) -> str:
        """Return its next line; empty when it has ended."""
        return self._out.readline().strip()

    def go_on(self) -> None:
        """Let it do its next step."""
        self._in.write("\n")
        self._in.flush()

    def kill(self) -> None:
        """End it at once, wherever it is."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def close(self) -> None:
        """Leave nothing of it."""
        self.kill()
        self._in.close()
        self._out.close()


Begin = Callable[..., list[Apart]]


@pytest.fixture
def begin(database_url: str) -> Iterator[Begin]:
    """Give a function that starts such a process and waits until it is ready to begin."""
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE effects (v text)")
    with ExitStack() as ends:

        def begun(count: int, *words: str) -> list[Apart]:
            processes = [Apart(database_url, *words) for _ in range(count)]
            for one in processes:
                ends.callback(one.close)
            assert [one.says() for one in processes] == ["ready"] * count
            return processes

        yield begun


def rows(database_url: str, query: str) -> list[str]:
    with psycopg.connect(database_url) as connection:
        return [str(value) for (value,) in connection.execute(query.encode()).fetchall()]


def test_of_processes_that_race_one_starts_it(begin: Begin, database_url: str) -> None:
    racing = begin(3, "start", "in-pieces")
    for one in racing:
        one.go_on()
    said = sorted(one.says() for one in racing)
    (job,) = rows(database_url, JOBS)
    assert said == [f"started {job}", "there already", "there already"]


def test_it_goes_on_after_a_kill_in_the_middle_and_runs_again_only_by_name(
    begin: Begin, database_url: str, shell: Shell
) -> None:
    job = _started(begin, "in-pieces")
    (killed,) = begin(1, "work", "in-pieces", job)
    for piece in (1, 2, 3):
        killed.go_on()
        assert killed.says() == f"in {piece}"
    killed.kill()

    (second,) = begin(1, "work", "in-pieces", job)
    for piece in range(3, PIECES + 1):
        second.go_on()
        assert second.says() == f"in {piece}"
    second.go_on()
    assert second.says() == "Done"
    pieces = [f"piece {number}" for number in range(1, PIECES + 1)]
    assert sorted(rows(database_url, "SELECT v FROM effects")) == pieces

    with closing(Database(DatabaseSettings(url=SecretStr(database_url)), "test")) as database:
        Endings(database).done([job])
    (later,) = begin(1, "start", "in-pieces")
    later.go_on()
    assert later.says() == "there already"
    shell.set(database_url=database_url, books="tests.integration.errand_process")
    assert "runs as job" in CliRunner().invoke(once, ["in-pieces"]).output
    assert len(rows(database_url, JOBS)) == 2


def test_one_that_takes_effect_as_a_whole_does_so_once_over_a_kill_and_copies(begin: Begin, database_url: str) -> None:
    job = _started(begin, "as-a-whole")
    (killed,) = begin(1, "work", "as-a-whole", job)
    killed.go_on()
    assert killed.says() == "in"
    killed.kill()
    (second,) = begin(1, "work", "as-a-whole", job)
    second.go_on()
    assert second.says() == "in"
    second.go_on()
    assert second.says() == "Done"
    (copy,) = begin(1, "work", "as-a-whole", job)
    copy.go_on()
    assert copy.says() == "Done", "it found the key and did not run"
    assert rows(database_url, "SELECT v FROM effects") == ["whole"]


def _started(begin: Begin, key: str) -> str:
    (one,) = begin(1, "start", key)
    one.go_on()
    return one.says().removeprefix("started ")
