"""Where RabbitMQ comes from, in the order that the design gives; what cannot be had is said in one sentence."""

from pathlib import Path

import pytest

from workers.local import installation, sources, unpacked
from workers.local.container import RabbitMQContainer
from workers.local.faults import Missing
from workers.local.rabbitmq import RabbitMQ


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Give a machine with nothing: no broker, no apt, no Docker engine."""
    monkeypatch.setattr(sources, "installed", lambda: None)
    monkeypatch.setattr(sources, "can_unpack", lambda: False)
    monkeypatch.setattr(sources, "has_engine", lambda: False)
    return monkeypatch


def test_without_any_way_one_sentence_says_what_to_install(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broker = sources.choose_rabbitmq(tmp_path)
    with pytest.raises(Missing, match="install the package rabbitmq-server") as refusal:
        broker.start()
    assert "\n" not in str(refusal.value)


def test_a_docker_engine_is_the_last_resort(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setattr(sources, "has_engine", lambda: True)
    assert isinstance(sources.choose_rabbitmq(tmp_path), RabbitMQContainer)
    bare.setattr(sources, "can_unpack", lambda: True)
    assert isinstance(sources.choose_rabbitmq(tmp_path), RabbitMQ)


def test_a_container_listens_on_loopback_only(tmp_path: Path) -> None:
    broker = RabbitMQContainer(tmp_path)
    broker.ports = {"amqp": 1, "management": 2, "prometheus": 3}
    published = [part for part in broker.prepare().command if part.startswith("--publish")]
    assert published == ["--publish=127.0.0.1:1:5672", "--publish=127.0.0.1:2:15672", "--publish=127.0.0.1:3:15692"]


def test_debians_script_is_run_and_not_the_wrapper_that_changes_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = tmp_path / "lib" / "rabbitmq_server-3.10.8" / "sbin"
    scripts.mkdir(parents=True)
    (scripts / "rabbitmq-server").touch()
    behind = tmp_path / "bin"
    behind.mkdir()
    (behind / "rabbitmq-server").symlink_to(scripts / "rabbitmq-server")
    monkeypatch.setattr(installation, "_DEBIAN_SCRIPTS", behind)
    monkeypatch.setattr(installation, "_find", lambda program: f"/usr/sbin/{program}")
    found = installation.installed()
    assert found is not None
    assert found.server == (str(behind / "rabbitmq-server"),)
    assert found.plugins == scripts.parent / "plugins"


def test_without_a_home_the_cache_lies_in_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    assert unpacked.cache_folder(tmp_path / "here") == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert unpacked.cache_folder(tmp_path / "here") == tmp_path / ".cache" / "smena" / "rabbitmq"
