"""`./run bench drain` measures, proves its rounds, and makes ratios only of what was measured."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from workers.local.services import LocalServices


def bench(folder: Path, services: LocalServices, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "benchmarks", *arguments],
        cwd=folder,
        env={**os.environ, **services.env()},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_a_drain_of_chosen_systems_is_proven_and_compared(tmp_path: Path, services: LocalServices) -> None:
    done = bench(tmp_path, services, "drain", "--jobs", "400", "--rounds", "1", "--only", "smena,bare-pika", "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert set(report["systems"]) == {"smena", "bare-pika"}
    for system in report["systems"].values():
        assert system["stalled"] is None, system
        assert len(system["rounds"]) == 1
        assert system["figures"]["rate"] > 0
        assert system["killed_at"] > 0, "the round that is killed did not lose anything"
        assert system["version"]
    assert report["of_limit"] > 0
    assert report["ratio_dramatiq"] is None, "there is no ratio to what was not measured"
    assert report["ratio_celery"] is None
    assert report["missed"] == []
    assert list(tmp_path.iterdir()) == [], "proofs and logs are left nowhere"


def test_a_system_that_is_not_in_the_field_is_refused(tmp_path: Path, services: LocalServices) -> None:
    done = bench(tmp_path, services, "outbox", "--only", "celery")
    assert done.returncode == 2
    assert "celery" in done.stderr
