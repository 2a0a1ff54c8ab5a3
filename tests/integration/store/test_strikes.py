"""Who ran where when a process died, and which deaths nobody has told of yet."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import get_args

import pytest
import sqlalchemy as sa

from smena.clock import SYSTEM, Deadline
from smena.guarantees.life import Life
from smena.records.strike import Start, Strike, Why
from smena.records.strikes import Strikes
from smena.store.database import Database
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.integration.store.conftest import Open

Live = Callable[[str], Life]


@pytest.fixture
def live(database: Database) -> Iterator[Live]:
    """Give a function that begins a life; all are ended with the test."""
    with ExitStack() as closing:

        def begun(name: str) -> Life:
            life = Life(database, name, "worker-0", "here")
            life.start()
            closing.callback(lambda: life.stop(Deadline.within(PATIENCE_S, SYSTEM)))
            return life

        yield begun


def strike(job: str = "job", life: str = "gone", **facts: object) -> Strike:
    return Strike(**{"job_id": job, "attempt": 1, "life": life, "actor": "a.b"} | facts)  # type: ignore[arg-type]


def start(job: str, life: str, attempt: int = 1) -> Start:
    return Start(job_id=job, attempt=attempt, life=life, actor="a.b", worker="worker-0", host="here")


def die(database: Database, life: Life) -> None:
    """End a life as a kill does: its connection goes, and nobody says why."""
    assert life._connection is not None
    with database.transaction() as connection:
        ended = sa.text("SELECT pg_terminate_backend(:pid, 5000)")
        life.ask_to_stop()
        assert connection.scalar(ended, {"pid": life._connection.info.backend_pid})


def test_a_strike_is_held_against_its_attempt_until_it_is_cleared(database: Database) -> None:
    strikes = Strikes(database)
    strikes.bury("gone", [strike("one", how="SIGKILL", peak_mib=12, beside=2), strike("two", beside=2)])
    held = strikes.find([("one", 1), ("one", 2), ("other", 1)]).strikes
    assert list(held) == [("one", 1)]
    assert (held["one", 1][0].how, held["one", 1][0].peak_mib, held["one", 1][0].beside) == ("SIGKILL", 12, 2)
    strikes.clear([("one", 1)])
    assert not strikes.find([("one", 1)]).strikes
    told, _ = strikes.of_job("one")
    assert told[0].cleared_at is not None


def test_a_living_process_is_not_among_the_unburied_and_a_killed_one_is_at_once(database: Database, live: Live) -> None:
    strikes = Strikes(database)
    live("lives")
    killed = live("killed")
    assert strikes.find([]).unburied == frozenset()
    die(database, killed)
    assert strikes.find([]).unburied == {"killed"}
    strikes.bury("killed")
    assert strikes.find([]).unburied == frozenset()


def test_a_process_that_lost_its_connection_only_is_soon_seen_alive_again(database: Database, live: Live) -> None:
    life = live("cut")
    assert life._connection is not None
    with database.transaction() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": life._connection.info.backend_pid})
    strikes = Strikes(database)
    strikes.give_up(["cut"])
    eventually(lambda: _rows(database, "lives") == 1 and not strikes.find([]).unburied)


def test_what_a_process_began_that_nobody_buries_becomes_its_strikes(database: Database, live: Live) -> None:
    strikes = Strikes(database)
    alive, killed = live("alive"), live("killed")
    strikes.begin([start("one", "killed"), start("two", "killed"), start("three", "alive")])
    strikes.end("killed", [("two", 1)])
    die(database, killed)
    assert strikes.give_up(["killed", alive.life, "never-was"]) == 1
    held = strikes.find([("one", 1), ("two", 1), ("three", 1)])
    assert {key: [one.why for one in of] for key, of in held.strikes.items()} == {("one", 1): ["lost"]}
    assert held.unburied == frozenset()
    assert _rows(database, "starts") == 1


def test_the_supervisor_that_comes_late_with_its_evidence_is_heard(database: Database) -> None:
    strikes = Strikes(database)
    strikes.bury("gone", [strike(why="lost")])
    strikes.bury("gone", [strike(why="fault", how="SIGSEGV")])
    strikes.bury("gone", [strike(why="suspected", how="SIGKILL")])
    assert [one.how for one in strikes.find([("job", 1)]).strikes["job", 1]] == ["SIGSEGV"]


def test_p21_every_reason_for_a_strike_can_be_kept(database: Database) -> None:
    strikes = Strikes(database)
    strikes.bury("gone", [strike(job=why, why=why) for why in get_args(Why)])
    assert [strikes.of_job(why)[0][0].why for why in get_args(Why)] == list(get_args(Why))


def test_a_process_that_ends_in_order_leaves_nothing(database: Database, live: Live) -> None:
    life = live("in order")
    Strikes(database).begin([start("one", "in order")])
    assert life.stop(Deadline.within(PATIENCE_S, SYSTEM))
    assert (_rows(database, "lives"), _rows(database, "starts"), _rows(database, "strikes")) == (0, 0, 0)


def test_what_a_job_is_called_and_has_logged_never_fails_its_strike(database: Database) -> None:
    strikes = Strikes(database)
    strikes.bury("gone", [strike("nul \x00", lines="\ud800" * 20_000, stack="x" * 10_000)])
    assert len(strikes.find([("nul \x00", 1)]).strikes) == 1


def test_evidence_is_pruned_when_it_is_old_and_a_living_process_never(database: Database, live: Live) -> None:
    strikes = Strikes(database)
    live("alive")
    strikes.begin([start("one", "alive"), start("two", "nobody")])
    strikes.bury("gone", [strike("one"), strike("two"), strike("three")])
    assert strikes.prune(keep_s=3600) == 0
    assert [strikes.prune(keep_s=0, limit=2) for _ in range(3)] == [3, 1, 0]
    assert (_rows(database, "lives"), _rows(database, "starts")) == (1, 1)


def test_one_that_found_no_tables_has_nothing_to_bury(open_database: Open, empty_database_url: str) -> None:
    strikes = Strikes(open_database(url=empty_database_url))
    strikes.bury("refused")
    with pytest.raises(sa.exc.ProgrammingError):
        strikes.bury("struck", [strike("job")])


def _rows(database: Database, table: str) -> int:
    with database.transaction() as connection:
        return connection.scalar(sa.text(f"SELECT count(*) FROM smena.{table}")) or 0  # noqa: S608 - names of the tests
