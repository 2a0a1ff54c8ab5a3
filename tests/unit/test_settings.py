"""Settings come from five places in a fixed order, and nothing wrong or unsafe boots in silence."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, ValidationError

from smena.errors import Misconfigured
from smena.settings import Settings, app_settings, examine, load
from smena.settings.key import keys
from smena.settings.masking import MASK, masked

AMQP = "amqp://shop:hunter22@broker/"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str, path: str = "smena.toml") -> Path:
    Path(path).write_text(text, encoding="utf-8")
    return Path(path)


# --- order ---


def test_the_order_is_command_line_variable_file_profile_toml_default() -> None:
    secret = str(written("3\n", "threads"))
    written("[worker]\nthreads = 1\n[profile.development.worker]\nthreads = 2\n")
    steps: list[tuple[dict[str, Any], dict[str, str], int, str]] = [
        ({"worker.threads": 5}, {"SMENA_WORKER_THREADS": "4"}, 5, "command line"),
        ({}, {"SMENA_WORKER_THREADS": "4", "SMENA_WORKER_THREADS_FILE": secret}, 4, "SMENA_WORKER_THREADS"),
        ({}, {"SMENA_WORKER_THREADS_FILE": secret}, 3, f"SMENA_WORKER_THREADS_FILE ({secret})"),
        ({}, {}, 2, "smena.toml [profile.development]"),
        ({}, {"SMENA_PROFILE": "production"}, 1, "smena.toml"),
    ]
    for overrides, env, threads, source in steps:
        settings = load(overrides, env)
        assert (settings.worker.threads, settings.sources["worker.threads"]) == (threads, source)
    Path("smena.toml").unlink()
    assert load(env={}).worker.threads == 8
    assert "worker.threads" not in load(env={}).sources


def test_sources_differ_from_value_to_value_within_a_group() -> None:
    written("[worker]\nprocesses = 7\n")
    settings = load({"worker.threads": 5}, {"SMENA_WORKER_DRAIN_S": "3.5"})
    assert (settings.worker.threads, settings.worker.processes, settings.worker.drain_s) == (5, 7, 3.5)


def test_an_option_that_was_not_given_does_not_count() -> None:
    assert load({"worker.threads": None}, {"SMENA_WORKER_THREADS": "4"}).worker.threads == 4


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load(env={"SMENA_WORKER_THREADS": "", "SMENA_DATABASE_URL": ""}).worker.threads == 8


def test_lists_are_written_with_commas() -> None:
    settings = load(env={"SMENA_BOOKS": "actors.sales, actors.mail", "SMENA_AMQP_URL": f"{AMQP},amqps://two"})
    assert settings.books == ("actors.sales", "actors.mail")
    assert settings.amqp.required_urls() == (AMQP, "amqps://two")


def test_both_names_of_the_brokers_address_are_one_setting() -> None:
    for variable in ("SMENA_AMQP_URL", "SMENA_AMQP_URLS"):
        assert load(env={variable: AMQP}).amqp.required_urls() == (AMQP,)


def test_the_settings_file_may_lie_elsewhere(tmp_path: Path) -> None:
    path = written("[worker]\nthreads = 3\n", str(tmp_path / "other.toml"))
    assert load(env={"SMENA_TOML": str(path)}).worker.threads == 3
    assert load(env={}, toml_path=path).worker.threads == 3


def test_a_settings_file_that_was_named_must_exist() -> None:
    with pytest.raises(Misconfigured, match=r"nowhere\.toml"):
        load(env={"SMENA_TOML": "nowhere.toml"})


def test_a_database_address_gets_the_driver_whatever_name_it_came_with() -> None:
    for scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        database = load(env={"SMENA_DATABASE_URL": f"{scheme}://shop@db/shop"}).database
        assert database.required_url() == "postgresql+psycopg://shop@db/shop"
        assert database.libpq_url() == "postgresql://shop@db/shop"


def test_what_is_missing_is_said_by_who_wants_it() -> None:
    settings = load(env={})
    with pytest.raises(Misconfigured, match="SMENA_AMQP_URL"):
        settings.amqp.required_urls()
    with pytest.raises(Misconfigured, match="SMENA_DATABASE_URL"):
        settings.database.required_url()


# --- refusals ---


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("SMENA_WORKER_THREAD", "SMENA_WORKER_THREADS"),
        ("SMENA_DATABSE_URL", "SMENA_DATABASE_URL"),
        ("SMENA_BOOK", "SMENA_BOOKS"),
        ("SMENA_METRICS_PORT", "SMENA_SUPERVISOR_METRICS_PORT"),
    ],
)
def test_an_unknown_variable_refuses_to_boot_with_a_suggestion(variable: str, meant: str) -> None:
    with pytest.raises(Misconfigured, match=rf"{variable}: no such setting .* did you mean {meant}\?"):
        load(env={variable: "x"})


@pytest.mark.parametrize("variable", ["SMENA_WRKER_X", "SMENA_WORKER_X", "SMENA_AMQP_NOTHING", "SMENA_Q"])
def test_a_variable_that_is_like_no_setting_as_a_whole_gets_no_suggestion(variable: str) -> None:
    with pytest.raises(Misconfigured, match=variable) as refusal:
        load(env={variable: "x"})
    assert "did you mean" not in str(refusal.value)


def test_an_unknown_key_in_the_file_refuses_to_boot_with_a_suggestion() -> None:
    written("[worker]\nthread = 3\n[profile.prodction.worker]\nthreads = 3\n")
    with pytest.raises(Misconfigured) as refusal:
        load(env={})
    assert "worker.thread: no such setting (smena.toml); did you mean worker.threads?" in str(refusal.value)
    assert "did you mean profile.production?" in str(refusal.value)


def test_an_unknown_option_refuses_to_boot() -> None:
    with pytest.raises(Misconfigured, match=r"did you mean worker\.threads"):
        load({"worker.thread": 3}, {})


def test_all_errors_are_said_at_once_with_their_source_and_without_the_value() -> None:
    examined = examine(env={"SMENA_WORKER_THREADS": "9999", "SMENA_AMQP_URL": "hunter22", "SMENA_WORKER_THREAD": "1"})
    said = "\n".join(map(str, examined.errors))
    assert examined.settings is None
    assert "worker.threads: Input should be less than or equal to 256 (from SMENA_WORKER_THREADS)" in said
    assert "amqp.urls: an AMQP address reads" in said
    assert "SMENA_WORKER_THREAD: no such setting" in said
    assert "hunter22" not in said


@pytest.mark.parametrize(
    ("variable", "addresses"),
    [
        ("SMENA_AMQP_URL", ["amqp://u:hunter22@{}/", "amqps://{}"]),
        ("SMENA_DATABASE_URL", ["postgresql://u:hunter22@{}/db", "postgres://{}"]),
        ("SMENA_REDIS_URL", ["redis://:hunter22@{}/0", "rediss://{}"]),
    ],
)
@pytest.mark.parametrize("place", ["host:port", "host:0", "host:65536", "host:-1", "[::1", "[::1]:x"])
def test_an_address_that_nothing_could_connect_to_refuses_to_boot(
    variable: str, addresses: list[str], place: str
) -> None:
    for address in addresses:
        with pytest.raises(Misconfigured, match="address reads") as refused:
            load(env={variable: address.format(place)})
        assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("SMENA_AMQP_URL", "amqp://"),
        ("SMENA_AMQP_URL", "amqp://:5672/"),
        ("SMENA_AMQP_URL", "http://host/"),
        ("SMENA_DATABASE_URL", "postgresql://"),
        ("SMENA_DATABASE_URL", "mysql://host/db"),
        ("SMENA_REDIS_URL", "redis://"),
        ("SMENA_REDIS_URL", "redis:///0"),
        ("SMENA_REDIS_URL", "http://host/0"),
    ],
)
def test_an_address_without_a_host_or_of_another_kind_refuses_to_boot(variable: str, address: str) -> None:
    with pytest.raises(Misconfigured, match="address reads"):
        load(env={variable: address})


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("heartbeet=5", "did you mean heartbeat?"),
        ("heartbeat=5&chanel_max=7", "did you mean channel_max?"),
        ("hunter22", "there are blocked_connection_timeout, channel_max,"),
    ],
)
def test_an_unknown_parameter_of_an_amqp_address_refuses_to_boot_with_a_suggestion(query: str, said: str) -> None:
    with pytest.raises(Misconfigured, match="a parameter that nothing reads") as refused:
        load(env={"SMENA_AMQP_URL": f"amqp://u:hunter22@host/vhost?{query}"})
    assert said in str(refused.value)
    assert "hunter22" not in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("SMENA_AMQP_URL", "amqps://u:p%40ss@[::1]/vhost?heartbeat=5"),
        ("SMENA_DATABASE_URL", "postgresql:///db"),
        ("SMENA_DATABASE_URL", "postgresql:///db?host=/run/postgresql"),
        ("SMENA_DATABASE_URL", "postgresql://u:p@[::1]:5432/db"),
        ("SMENA_REDIS_URL", "unix:///run/valkey.sock"),
        ("SMENA_REDIS_URL", "redis://host"),
    ],
)
def test_the_rarer_forms_of_an_address_are_taken(variable: str, address: str) -> None:
    load(env={variable: address})


@pytest.mark.parametrize("name", ["a..b", "a.", "sales.dead", "delay.x", "lost", "stock.p07", "a*", "x" * 128])
def test_a_queue_that_no_book_could_declare_refuses_to_boot(name: str) -> None:
    with pytest.raises(Misconfigured, match=r"worker.queues: (a queue's name is|this queue name is one)"):
        load(env={"SMENA_WORKER_QUEUES": f"sales,{name}"})


def test_values_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Misconfigured, match=r"retry\.base_s: is above retry\.cap_s"):
        load({"retry.base_s": 10, "retry.cap_s": 5}, {})


def test_a_secret_file_that_cannot_be_read_refuses_to_boot() -> None:
    with pytest.raises(Misconfigured, match="SMENA_AMQP_URL_FILE: cannot read /nowhere: FileNotFoundError"):
        load(env={"SMENA_AMQP_URL_FILE": "/nowhere"})


@pytest.mark.parametrize("path", ["/dev/null", ".", "fifo", "large"])
def test_a_secret_file_that_may_have_no_end_refuses_to_boot(path: str) -> None:
    os.mkfifo("fifo")
    written("x" * (64 * 1024 + 1), "large")
    with pytest.raises(Misconfigured, match=f"SMENA_AMQP_URL_FILE: {path} is no regular file of at most 64 KiB"):
        load(env={"SMENA_AMQP_URL_FILE": path})


def test_a_file_that_is_not_toml_refuses_to_boot() -> None:
    written("worker = ")
    with pytest.raises(Misconfigured, match=r"smena\.toml: cannot be read"):
        load(env={})


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "."])
def test_a_settings_file_that_is_no_file_refuses_to_boot_at_once(path: str) -> None:
    os.mkfifo("pipe")
    with pytest.raises(Misconfigured, match=r"cannot be read"):
        load(env={"SMENA_TOML": path})


def test_a_settings_file_of_more_than_a_mebibyte_refuses_to_boot() -> None:
    written("#" * (1024 * 1024 - 1) + "\n")
    load(env={})
    written("#" * 1024 * 1024 + "\n")
    with pytest.raises(Misconfigured, match="larger than 1 MiB"):
        load(env={})


def test_the_file_cannot_choose_the_profile() -> None:
    written('profile = "production"')
    with pytest.raises(Misconfigured, match="chosen by SMENA_PROFILE"):
        load(env={})


def test_a_profile_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Misconfigured, match="profile: Input should be 'development' or 'production'"):
        load(env={}, profile="prod")


def test_what_kubernetes_and_other_parts_put_into_the_environment_is_let_pass() -> None:
    env = {
        "SMENA_SERVICE_HOST": "10.0.0.1",
        "SMENA_GATEWAY_SERVICE_PORT_HTTP": "80",
        "SMENA_SUPERVISOR_METRICS_PORT": "tcp://10.0.0.1:9191",
        "SMENA_GATEWAY_PORT_80_TCP_ADDR": "10.0.0.1",
        "SMENA_LOCAL_DIR": "/somewhere",
        "SMENA_TEST_DATA": "/somewhere",
        "SMENADE": "x",
    }
    assert load(env=env).supervisor.metrics_port == 9191


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"SMENA_LEADERSHIP_LEASE_S": "25"}, "must be below leadership.lease_s"),
        ({"SMENA_LEADERSHIP_RETRY_S": "11"}, "a third of leadership.lease_s"),
        ({"SMENA_LEADERSHIP_BACKEND": "redis"}, "SMENA_REDIS_URL"),
    ],
)
def test_an_election_that_could_leave_the_fleet_without_a_leader_is_refused(env: dict[str, str], says: str) -> None:
    with pytest.raises(Misconfigured, match=says):
        load(env=env)


# --- production ---


@pytest.mark.parametrize(
    "env",
    [
        {"SMENA_AMQP_URL": "amqp://guest:guest@broker/"},
        {"SMENA_DATABASE_URL": "postgresql://shop:postgres@db/shop"},
        {"SMENA_REDIS_URL": "redis://:smena-development-only@cache/0"},
        {"SMENA_TELEMETRY_LOG_LEVEL": "debug"},
    ],
)
def test_unsafe_development_values_are_refused_in_production_only(env: dict[str, str]) -> None:
    assert load(env=env).profile == "development"
    with pytest.raises(Misconfigured, match="production"):
        load(env=env, profile="production")


def test_unwise_values_in_production_are_only_said() -> None:
    env = {"SMENA_AMQP_URL": AMQP, "SMENA_SUPERVISOR_METRICS_HOST": "0.0.0.0"}  # noqa: S104
    examined = examine(env=env, profile="production")
    assert examined.settings is not None
    assert {finding.key for finding in examined.warnings} >= {"amqp.urls", "supervisor.metrics_host"}


# --- the value itself ---


def test_settings_cannot_be_changed() -> None:
    settings = load(env={})
    with pytest.raises(ValidationError):
        settings.worker.threads = 3  # type: ignore[misc]  # what the test is about
    with pytest.raises(ValidationError):
        settings.profile = "production"  # type: ignore[misc]


def test_constructing_settings_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMENA_WORKER_THREADS", "4")
    written("[worker]\nthreads = 3\n")
    assert Settings().worker.threads == 8


def test_secrets_are_masked_wherever_settings_are_shown() -> None:
    env = {"SMENA_AMQP_URL": AMQP, "SMENA_DATABASE_URL": "postgresql://u:hunter22@db/x", "SMENA_APP_KEY": "hunter22"}
    settings = load(env=env)
    for shown in (repr(settings), str(settings), repr(settings.amqp), settings.model_dump_json(exclude={"app"})):
        assert "hunter22" not in shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("amqp://shop:hunter22@h:5672/v", f"amqp://shop:{MASK}@h:5672/v"),
        ("postgresql+psycopg://db/shop?password=hunter22", "postgresql+psycopg://db/shop"),
        ("redis://:hunter22@cache/0", f"redis://:{MASK}@cache/0"),
        ("hunter22", MASK),
        ("amqp://u:hunter22@[h", MASK),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert masked((SecretStr(address),)) == shown


@pytest.mark.parametrize("key", keys().values(), ids=lambda key: key.path)
def test_every_setting_has_a_doc_and_every_number_unit_and_bounds(key: Any) -> None:
    assert key.doc.endswith(".")
    if "number" in key.kind:
        assert key.unit
        assert " – " in key.bounds
        assert "None" not in key.bounds
    assert key.path.endswith("_s") == (key.unit == "s")


# --- the section app ---


class Mail(BaseModel):
    url: str = "http://localhost"
    retries: int = 3


class Shop(BaseModel, extra="forbid"):
    currency: str
    key: SecretStr | None = None
    mail: Mail = Mail()


def test_an_authors_model_reads_the_section_app(monkeypatch: pytest.MonkeyPatch) -> None:
    written('[app]\ncurrency = "GBP"\n[app.mail]\nurl = "http://mail"\n')
    monkeypatch.setenv("SMENA_APP_KEY_FILE", str(written("hunter22\n", "key")))
    monkeypatch.setenv("SMENA_APP_MAIL__RETRIES", "5")
    shop = app_settings(Shop)
    assert (shop.currency, shop.mail) == ("GBP", Mail(url="http://mail", retries=5))
    assert shop.key is not None
    assert shop.key.get_secret_value() == "hunter22"
    assert app_settings(Shop, load()) == shop


def test_only_the_authors_model_says_what_is_right_in_app() -> None:
    settings = load(env={"SMENA_APP_CURENCY": "GBP"})
    with pytest.raises(Misconfigured) as refusal:
        app_settings(Shop, settings)
    assert "app.currency: Field required (SMENA_APP_CURRENCY)" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "app.curency: Extra inputs are not permitted" in str(refusal.value)
