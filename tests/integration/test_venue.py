"""On servers that are given a session has a database and queues of its own, and removes them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from smena.amqp import names
from smena.settings import load
from tests.fixtures.fix_broker import BrokerView
from tests.fixtures.fix_database import url_of
from workers.drills.own_database import NotMade, OwnDatabase
from workers.drills.venue import Venue

LISTED = "SELECT datname FROM pg_database"


@pytest.fixture
def given(tmp_path: Path, amqp_url: str, empty_database_url: str, redis_url: str) -> dict[str, str]:
    return {
        "SMENA_LOCAL_DIR": str(tmp_path),
        "SMENA_AMQP_URL": amqp_url,
        "SMENA_DATABASE_URL": empty_database_url,
        "SMENA_REDIS_URL": redis_url,
    }


def venue(environ: dict[str, str]) -> Venue:
    return Venue("play", environ, Path("nowhere"), prefix="play", queues=["work"])


def own_name(venue: Venue) -> str:
    return str(conninfo_to_dict(load(env=venue.addresses()).database.libpq_url())["dbname"])


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {name for (name,) in connection.execute(LISTED)}


def test_a_given_database_is_not_worked_in_and_ones_own_is_dropped_though_somebody_is_connected(
    given: dict[str, str], server_url: str
) -> None:
    before = databases(server_url)
    stage = venue(given)
    with stage.open(keep=False):
        own = load(env=stage.addresses()).database.libpq_url()
        left_open = psycopg.connect(own)
        left_open.execute("CREATE TABLE mine (number int)")
        left_open.commit()
        assert own_name(stage) in databases(server_url) - before
        with psycopg.connect(given["SMENA_DATABASE_URL"]) as theirs:
            assert theirs.execute("SELECT to_regclass('mine')").fetchone() == (None,)
    left_open.close()
    assert own_name(stage) not in databases(server_url)


def test_the_queues_of_a_session_on_a_given_broker_go_with_it(given: dict[str, str], amqp_url: str) -> None:
    stage = venue(given)
    with closing(BrokerView(amqp_url, stage.prefix)) as broker:
        queue = names.work_queue(stage.prefix, "work")
        with stage.open(keep=False):
            broker.channel.queue_declare(queue, durable=True)
            assert broker.depth(queue) == 0
        assert broker.depth(queue) == -1


def test_what_is_kept_is_named_with_the_way_to_look_at_it_and_to_remove_it(
    given: dict[str, str], server_url: str
) -> None:
    stage = venue(given)
    assert stage.place() == (
        f"servers given by SMENA_AMQP_URL (queues {stage.prefix}.…), SMENA_DATABASE_URL (database {own_name(stage)}), "
        "SMENA_REDIS_URL"
    )
    with stage.open(keep=True):
        pass
    look, queues, database = stage.look_and_end("smena local status")
    assert look.startswith(f"look      SMENA_DATABASE_URL={stage.addresses()['SMENA_DATABASE_URL']} ")
    assert f"SMENA_AMQP_PREFIX={stage.prefix} smena dead list" in look
    assert queues.startswith("end       ")
    assert f"{stage.prefix}.…" in queues
    statement = database.strip().partition(";")[0]
    assert statement == f"DROP DATABASE {own_name(stage)} WITH (FORCE)"
    assert own_name(stage) in databases(server_url)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_leadership_is_stood_for_in_the_sessions_own_database_whatever_the_environment_names(
    given: dict[str, str],
) -> None:
    stage = venue(
        {**given, "SMENA_LEADERSHIP_BACKEND": "redis", "SMENA_LEADERSHIP_DATABASE_URL": "postgresql://h/shop"}
    )
    leadership = load(env=stage.addresses()).leadership
    assert leadership.backend == "postgresql"
    assert leadership.database_url is not None
    assert leadership.database_url.get_secret_value() == f"postgresql+psycopg://h/{own_name(stage)}"


def test_a_role_that_may_not_create_a_database_is_told_what_to_do(given: dict[str, str], server_url: str) -> None:
    with role_without_rights(server_url) as login:
        stage = venue({**given, "SMENA_DATABASE_URL": url_of(server_url.replace(*login), "postgres")})
        wanted = r"may not create the database .* \(ALTER ROLE … CREATEDB\), or none"
        with pytest.raises(NotMade, match=wanted), stage.open(keep=False):
            pytest.fail("there is nothing to stand on")


@pytest.mark.parametrize(
    ("address", "beside"),
    [
        ("postgresql://u:p@h:5432/shop?sslmode=require", "postgresql://u:p@h:5432/{}?sslmode=require"),
        ("postgresql+psycopg://one,two/shop", "postgresql+psycopg://one,two/{}"),
        ("postgresql:///?host=/run&dbname=shop", "postgresql:///{}?host=/run"),
        ("postgres://h", "postgres://h/{}"),
    ],
)
def test_of_an_address_only_the_database_is_another(address: str, beside: str) -> None:
    own = OwnDatabase(address, "play")
    assert own.url == beside.format(own.name)
    assert own.name.startswith("smena_play_")


@contextmanager
def role_without_rights(server_url: str) -> Iterator[tuple[str, str]]:
    """Have a role that may log in and no more; give the login of the server's own role and that of this one."""
    login = server_url.partition("://")[2].partition("@")[0]
    name = sql.Identifier("guest_of_the_venue")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(name))
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'guest'").format(name))
        try:
            yield f"{login}@", "guest_of_the_venue:guest@"
        finally:
            connection.execute(sql.SQL("DROP ROLE {}").format(name))
