"""`./run check --proofs` that is ended by a signal leaves nothing behind."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fixtures.eventually import eventually
from tests.proofs import ROOT
from workers.local.services import LocalServices

PROOF = "P12-durable-before-ack"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("to_all", [False, True], ids=["to-the-first", "to-all"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_p11_proofs_that_are_ended_take_services_and_copies_down(
    tmp_path: Path, number: signal.Signals, to_all: bool
) -> None:
    """Also when all processes get the signal, as from a terminal: then it comes twice."""
    copies = tmp_path / "copies"
    copies.mkdir()
    services = LocalServices(tmp_path / "place0", {})
    with proofs(copies, tmp_path) as run:
        eventually(lambda: len(pids(services)) == 3 or has_ended(run))
        send: Callable[[int, int], None] = os.killpg if to_all else os.kill
        send(run.pid, number)
        output, _ = run.communicate()
    assert (run.returncode, list(copies.iterdir()), pids(services)) == (128 + number, [], []), output


def has_ended(run: "subprocess.Popen[str]") -> bool:
    return run.poll() is not None


def pids(services: LocalServices) -> list[int]:
    return [status.pid for status in services.status() if status.pid is not None]


@contextmanager
def proofs(copies: Path, local: Path) -> "Iterator[subprocess.Popen[str]]":
    """Run one; if it stays in spite of the signal, it and its services are ended here."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")}
    environ |= {"TMPDIR": str(copies), "SMENA_LOCAL_DIR": str(local)}
    command = [str(ROOT / "run"), "check", "--proofs", PROOF]
    run = subprocess.Popen(
        command, env=environ, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield run
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        LocalServices(local / "place0", {}).down()
