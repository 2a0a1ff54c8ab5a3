"""A signal does not end a fleet where it comes before the supervisor listens, or after it has drained."""

import os
import subprocess
import sys
from pathlib import Path

IMPORTED = """
import importlib, os, signal
from workers import cli

before = importlib.import_module

def with_signals(name, package=None):
    if name == "workers.cli.fleet":
        for each in ("HUP", "USR1", "TTIN", "TTOU", "TSTP"):
            os.kill(os.getpid(), getattr(signal, f"SIG{each}"))
    return before(name, package)

importlib.import_module = with_signals
try:
    cli.main(["relay", "--help"])
finally:
    print("pending:", signal.sigpending())
"""


def test_a_signal_during_the_import_of_the_fleet_neither_ends_nor_stops_it() -> None:
    ended = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Run the relay" in ended.stdout
    assert "pending: set()" in ended.stdout


DRAINED = """
import os, signal, sys
from smena.settings import load
from workers.wiring.supervisor import run_supervisor

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
os.kill(os.getpid(), signal.SIGTERM)
ending = run_supervisor([], load({}), {})
signal.pthread_sigmask(signal.SIG_SETMASK, ())
for late in ("TERM", "HUP", "INT", "USR1", "TTIN", "TTOU", "TSTP"):
    os.kill(os.getpid(), getattr(signal, f"SIG{late}"))
sys.exit(ending.code)
"""


def test_a_signal_after_the_drain_changes_nothing_in_how_it_ended(tmp_path: Path) -> None:
    given = {"SMENA_SUPERVISOR_STATE_DIR": str(tmp_path / "state"), "SMENA_SUPERVISOR_METRICS_PORT": "0"}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SMENA_")} | given
    ended = subprocess.run(
        [sys.executable, "-c", DRAINED], capture_output=True, text=True, timeout=120, check=False, env=environ
    )
    assert ended.returncode == 0, ended.stderr
