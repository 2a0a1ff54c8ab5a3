"""`smena evidence` tells people and programs the same about a job that ran when processes died."""

import json
from contextlib import closing
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from smena.records.dead_letters import DeadLetter, DeadLetters
from smena.records.strike import Start, Strike
from smena.records.strikes import Strikes
from smena.settings import groups as settings
from smena.store.database import Database
from tests.fixtures.fix_shell import Shell
from workers.cli import main


@pytest.fixture(autouse=True)
def _a_crash(shell: Shell, database_url: str) -> None:
    shell.set(database_url=database_url)
    first = Strike(job_id="bad", attempt=2, life="one", actor="a.b", beside=4, how="SIGKILL", peak_mib=99, ran_s=1.5)
    alone = Strike(job_id="bad", attempt=2, life="two", actor="a.b", how="SIGKILL", lines="said\nlast")
    ended = Strike(job_id="bad", attempt=3, life="four", actor="a.b", beside=2, how="exit_1", why="ended")
    begun = Start(job_id="bad", attempt=2, life="three", actor="a.b", worker="worker-0", host="here")
    died = datetime(2026, 1, 2, tzinfo=UTC)
    letters = [
        DeadLetter(job_id="bad", attempt=n, queue="q", reason=reason, died_at=died, body=b"", error_text="it died")
        for n, reason in ((2, "crashed"), (1, "another"))
    ]
    with closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database:
        for strike in (first, alone, ended):
            Strikes(database).bury(strike.life, [strike])
        Strikes(database).begin([begun])
        DeadLetters(database).insert_many(letters)


def said(*arguments: str) -> str:
    ended = CliRunner().invoke(main, ["evidence", *arguments])
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def test_a_program_reads_strikes_starts_and_death() -> None:
    told = json.loads(said("bad", "--json"))
    assert [(one["how"], one["beside"], one["peak_mib"], one["lines"]) for one in told["strikes"]] == [
        ("SIGKILL", 4, 99, []),
        ("SIGKILL", 1, None, ["said", "last"]),
        ("exit_1", 2, None, []),
    ]
    assert [one["worker"] for one in told["starts"]] == ["worker-0"]
    assert [(one["reason"], one["text"]) for one in told["deaths"]] == [("crashed", "it died")]


def test_a_person_reads_it_in_words() -> None:
    text = said("bad")
    assert "ended by SIGKILL, suspected, one of 4 there, after 1.5 s, peak memory 99 MiB" in text
    assert "alone there" in text
    assert "ended by exit_1, suspected: it had just ended there, one of 2 there" in text
    assert "    said\n    last\n" in text
    assert "it died" in text


def test_a_job_that_nothing_is_held_against_is_said_to_be_so() -> None:
    assert "nothing is held against good" in said("good")
    assert json.loads(said("good", "--json")) == {"job": "good", "strikes": [], "starts": [], "deaths": []}
