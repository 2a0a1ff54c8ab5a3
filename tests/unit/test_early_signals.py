"""A signal that steers a fleet does not end it where it comes before the supervisor listens."""

import subprocess
import sys

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
