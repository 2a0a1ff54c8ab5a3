"""The main job as a user starts it: real services, a real fleet, a kill in the middle, and a verdict."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from examples.shop.make_retail import Maker
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.processes import those_of

DATA = os.environ.get("SMENA_TEST_DATA")
REAL = [Path(DATA) / "online-retail-week.csv.gz"] if DATA else []
DEMO_S = 240
"""How long a demo may take on a busy machine; on a quiet one it takes 20 s."""
FIELDS = {
    *("accepted", "effects", "lost", "doubled", "dead", "dead_by_reason", "rejected", "mails", "receipts", "amount"),
    *("stock_moves", "order_violations", "reports", "report_groups"),
    *("killed_running", "redelivered", "repeats_absorbed", "seconds", "rate", "latency_ms"),
}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text(Maker(seed=5).text(2_000), encoding="utf-8")
    return path


@contextmanager
def demo(folder: Path, *arguments: str | Path, **given: str) -> Iterator[subprocess.Popen[str]]:
    """Start the demo below a folder, with services of its own unless their addresses are given here.

    At the end it is told to end, and killed if it does not.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "examples.shop.demo", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**env, "SMENA_LOCAL_DIR": str(folder / "smena"), **given},
        cwd=folder,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
            process.communicate()


def finished(folder: Path, *arguments: str | Path, **given: str) -> tuple[int, str, str]:
    with demo(folder, *arguments, **given) as process:
        out, err = process.communicate(timeout=DEMO_S)
        return process.returncode, out, err


@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", ["made", *REAL], ids=lambda file: Path(file).name)
def test_every_accepted_job_takes_effect_once_though_a_worker_is_killed(
    tmp_path: Path, made: Path, file: Path | str
) -> None:
    status, out, err = finished(tmp_path, made if file == "made" else file, "--json")
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert status == 0, (result, err)
    assert result.keys() >= FIELDS
    assert result["accepted"] == result["effects"] + result["dead"]
    assert (result["lost"], result["doubled"], result["wrong"]) == (0, 0, 0)
    assert result["killed_running"] >= 4
    assert result["redelivered"] > 0
    assert result["repeats_absorbed"] > 0
    assert result["dead_by_reason"] == {"price_not_positive": result["dead"]}
    assert Decimal(result["amount"]) > 0
    assert result["stock_moves"] > result["accepted"] / 2, "each line that was accepted moved the stock"
    assert result["order_violations"] == 0
    assert result["reports"] == 1
    assert result["report_groups"] > 10
    assert those_of(tmp_path / "smena") == {}


@pytest.mark.timeout(300)
def test_on_given_servers_a_demo_has_a_database_of_its_own_beside_the_one_of_the_fleet_there(
    tmp_path: Path, made: Path, database_url: str, amqp_url: str, redis_url: str
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO smena.outbox (id, actor, queue, body, properties) VALUES ('theirs', 'a.b', 'shop', '', '{}')"
        )
    given = {"SMENA_DATABASE_URL": database_url, "SMENA_AMQP_URL": amqp_url, "SMENA_REDIS_URL": redis_url}
    status, out, err = finished(tmp_path, made, "--json", **given)
    assert status == 0, (out, err)
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT id, state FROM smena.outbox").fetchall() == [("theirs", "pending")]
        assert connection.execute("SELECT to_regnamespace('shop')").fetchone() == (None,)
        kept = connection.execute("SELECT datname FROM pg_database WHERE starts_with(datname, 'smena_demo_')")
        assert kept.fetchall() == []
    own = tmp_path / "smena" / "demo" / "services"
    assert [path.name for path in own.iterdir()] == ["lock"], "no service of its own was started"


def test_an_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    for name, reason in (("sales.csv", "unexpected columns"), ("gone.csv", "no such file")):
        status, out, err = finished(tmp_path, name, "--json")
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert reason in err
    assert not (tmp_path / "smena").exists(), "nothing was started"


def test_two_demos_in_one_place_do_not_meet(tmp_path: Path, made: Path) -> None:
    (tmp_path / "smena").mkdir()
    with (tmp_path / "smena" / "demo.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, _, err = finished(tmp_path, made)
    assert status == 2
    assert "another session is held" in err


@pytest.mark.timeout(300)
def test_a_demo_that_is_told_to_end_leaves_no_process(tmp_path: Path, made: Path) -> None:
    with demo(tmp_path, made) as process:
        log = tmp_path / "smena" / "demo" / "runs" / "publisher.out"
        eventually(log.exists, timeout_s=120)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEMO_S)
        assert process.returncode == 128 + signal.SIGTERM
    assert those_of(tmp_path / "smena") == {}
