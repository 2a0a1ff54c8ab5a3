"""The private services of a checkout keep their promises; each test has a folder and services of its own."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pika
import psycopg
import pytest
import redis

from tests.fixtures.eventually import eventually
from workers.local.faults import NotOurs
from workers.local.service import Service
from workers.local.services import LocalServices

CHECKOUT = Path(__file__).resolve().parents[2]
NOTHING_GIVEN: dict[str, str] = {}

pytestmark = pytest.mark.timeout(300)  # a broker is started up to four times in one test, on a machine that may be busy


@pytest.fixture
def root() -> Iterator[Path]:
    """Give a folder with a space in its name that every user may enter, as a checkout usually is.

    Not one of pytest's: those are closed to others, and each run of pytest closes them again.
    """
    with tempfile.TemporaryDirectory(prefix="smena check out ") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "smena"


@pytest.fixture
def local(root: Path) -> Iterator[LocalServices]:
    """Give services that are not up yet and end with the test, whatever they do then."""
    services = LocalServices(root, environ=NOTHING_GIVEN)
    yield services
    for service in (services.rabbitmq, services.postgresql, services.valkey):
        service.kill()


def processes_in(root: Path) -> list[str]:
    """Return every process whose working directory lies in ``root``, found without the product's own search."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                place = str((entry / "cwd").readlink())
                name = (entry / "comm").read_text().strip()
            except OSError:
                continue
            if place.startswith(str(root)):
                found.append(f"{name} {entry.name}")
    return found


def test_up_twice_is_up_once_and_down_leaves_no_process(local: LocalServices, root: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda services: services.up(), [local, LocalServices(root, NOTHING_GIVEN)])
    assert sorted(first + second) == ["postgresql", "rabbitmq", "valkey"]
    pids = [one.pid for one in local.status()]
    assert all(one.ready for one in local.status())

    assert LocalServices(root, NOTHING_GIVEN).up() == []
    assert [one.pid for one in local.status()] == pids
    programs = {name.split()[0] for name in processes_in(root)}
    assert {"beam.smp", "epmd", "postgres", "valkey-server"} <= programs
    assert "smena@localhost" in local.rabbitmq.ctl("cluster_status")

    LocalServices(root, NOTHING_GIVEN).down()
    eventually(lambda: processes_in(root) == [])
    assert not any(one.ready for one in local.status())


def test_the_addresses_work_with_the_drivers(services: LocalServices) -> None:
    addresses = services.env()
    pika.BlockingConnection(pika.URLParameters(addresses["SMENA_AMQP_URL"])).close()
    with psycopg.connect(addresses["SMENA_DATABASE_URL"]) as database:
        assert database.execute("SELECT current_database()").fetchone() == ("smena",)
    with redis.Redis.from_url(addresses["SMENA_REDIS_URL"]) as cache:
        assert cache.ping()


def test_two_roots_do_not_meet(local: LocalServices, services: LocalServices) -> None:
    if not all(one.ours for one in services.status()):
        other = LocalServices(local.root.parent / "other", NOTHING_GIVEN)
    else:
        other = services
    local.valkey.start()
    other.valkey.start()
    assert set(local.valkey.ports.values()).isdisjoint(other.valkey.ports.values())
    pid = other.valkey.pid
    local.down()
    assert other.valkey.pid == pid
    if other is not services:
        other.down()


@pytest.mark.parametrize("name", ["rabbitmq", "postgresql", "valkey"])
def test_each_service_is_stopped_killed_and_restarted_alone(local: LocalServices, name: str) -> None:
    service: Service = getattr(local, name)
    assert service.start()
    url, pid = service.url, service.pid

    service.kill()
    assert service.pid is None
    assert not service.ready()
    assert service.start()
    assert service.ready()
    assert service.url == url
    assert service.pid != pid

    service.restart()
    assert service.ready()
    assert service.url == url


@pytest.mark.parametrize("name", ["rabbitmq", "postgresql", "valkey"])
def test_what_a_kill_left_behind_is_cleaned(local: LocalServices, root: Path, name: str) -> None:
    service: Service = getattr(local, name)
    service.start()
    assert service.pid is not None
    os.kill(service.pid, signal.SIGKILL)  # its children and its epmd live on, its pid file stays
    eventually(lambda: service.pid is None)
    left = set(processes_in(root))

    again: Service = getattr(LocalServices(root, NOTHING_GIVEN), name)
    assert again.start()
    assert again.ready()
    assert not left & set(processes_in(root))
    again.kill()
    assert processes_in(root) == []


def test_data_outlives_down_and_up(local: LocalServices) -> None:
    local.postgresql.start()
    with psycopg.connect(local.postgresql.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
    local.down()
    local.postgresql.start()
    with psycopg.connect(local.postgresql.url) as connection:
        assert connection.execute("SELECT one FROM kept").fetchone() == (1,)


def test_a_delay_level_of_a_killed_node_stands_still_for_seconds_and_not_for_minutes(local: LocalServices) -> None:
    local.rabbitmq.start()
    told = local.rabbitmq.ctl("eval", "application:get_env(rabbit, dead_letter_worker_publisher_confirm_timeout).")
    assert told.strip() == "{ok,10000}"


def test_tables_of_an_app_do_not_lie_among_those_of_smena(local: LocalServices) -> None:
    local.postgresql.start()
    with psycopg.connect(local.postgresql.url) as connection:
        connection.execute("CREATE SCHEMA smena")
        connection.execute("CREATE TABLE outbox ()")
        assert connection.execute("SELECT to_regclass('public.outbox') IS NOT NULL").fetchone() == (True,)


def test_postgresql_writes_through_to_the_disk_unless_who_starts_it_needs_no_more_than_its_own_death(
    local: LocalServices, root: Path
) -> None:
    def told(*names: str) -> list[str]:
        with psycopg.connect(local.postgresql.url) as connection:
            return [str(*(connection.execute(f"SHOW {name}").fetchone() or ())) for name in names]

    passing = LocalServices(root, NOTHING_GIVEN, durable=False)
    passing.postgresql.start()
    assert told("fsync", "full_page_writes", "synchronous_commit") == ["off", "off", "on"]
    passing.postgresql.stop()

    local.postgresql.start()
    assert told("fsync", "full_page_writes", "synchronous_commit") == ["on", "on", "on"]
    assert told("max_connections") == ["200"]


def test_services_ask_for_a_password(local: LocalServices) -> None:
    local.postgresql.start()
    stranger = local.postgresql.url.replace(local.postgresql.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(stranger)
    assert oct((local.postgresql.folder / "password").stat().st_mode)[-3:] == "600"


def test_postgresql_runs_where_only_its_owner_may_enter(local: LocalServices) -> None:
    local.root.mkdir()
    local.root.chmod(0o700)
    local.postgresql.start()
    with psycopg.connect(local.postgresql.url) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("smena",)
    local.postgresql.restart()
    assert local.root.stat().st_mode & 0o777 == 0o700


def test_given_addresses_are_used_and_nothing_is_started(root: Path) -> None:
    given = {
        "SMENA_AMQP_URL": "amqp://guest:guest@127.0.0.1:1/%2F",
        "SMENA_DATABASE_URL": "postgresql://127.0.0.1:1/smena",
        "SMENA_REDIS_URL": "redis://127.0.0.1:1/0",
    }
    local = LocalServices(root, given)
    assert local.up() == []
    assert local.env() == given
    with pytest.raises(NotOurs, match="SMENA_AMQP_URL"):
        _ = local.rabbitmq
    local.down()
    assert processes_in(root) == []


def test_the_command_prints_addresses_that_a_shell_can_take(root: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")}
    environ |= {
        "SMENA_LOCAL_DIR": str(root),
        "SMENA_AMQP_URL": "amqp://a",
        "SMENA_DATABASE_URL": "postgresql://b",
        "SMENA_REDIS_URL": "redis://c",
    }
    command = [sys.executable, "-m", "workers.cli", "local", "env"]
    printed = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [
        "export SMENA_AMQP_URL='amqp://a'",
        "export SMENA_DATABASE_URL='postgresql://b'",
        "export SMENA_REDIS_URL='redis://c'",
    ]


def test_an_address_of_ones_own_service_gives_nothing_and_anothers_is_left_alone(
    local: LocalServices, root: Path
) -> None:
    local.valkey.start()
    pid = local.valkey.pid
    others = {
        "SMENA_AMQP_URL": "amqp://guest:guest@127.0.0.1:1/%2F",
        "SMENA_DATABASE_URL": "postgresql://127.0.0.1:1/smena",
    }
    shell = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")}
    shell |= {"SMENA_LOCAL_DIR": str(root), "SMENA_REDIS_URL": local.valkey.url} | others

    def told(verb: str) -> list[str]:
        command = [sys.executable, "-m", "workers.cli", "local", verb]
        return subprocess.run(command, env=shell, capture_output=True, text=True, check=True).stdout.splitlines()

    assert told("status")[-1].split() == ["valkey", "up", "pid", str(pid), local.valkey.url]
    assert told("up")[0] == "all was up already"
    assert [name for name in processes_in(root) if name.startswith("valkey")] == [f"valkey-server {pid}"]
    assert told("down") == [
        f"stopped valkey; data stays in {root}",
        f"rabbitmq is left alone: SMENA_AMQP_URL names another than that of {root}",
        f"postgresql is left alone: SMENA_DATABASE_URL names another than that of {root}",
    ]
    assert processes_in(root) == []


def test_down_finds_every_set_of_services_below_a_folder_and_says_what_it_stopped(root: Path) -> None:
    sets = [root / "demo" / "services", root]
    for folder in sets:
        LocalServices(folder, NOTHING_GIVEN).valkey.start()
    try:
        stop = [sys.executable, "-m", "workers.local", "down", str(root)]
        told = subprocess.run(stop, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
        assert told.splitlines() == [f"stopped valkey in {folder}" for folder in sets]
        assert processes_in(root) == []
    finally:
        for folder in sets:
            LocalServices(folder, NOTHING_GIVEN).valkey.kill()
