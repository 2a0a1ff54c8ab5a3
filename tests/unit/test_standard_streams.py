"""A command that was started with its standard streams closed runs as it would with them."""

import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = ["<&- >&- 2>&-", ">&- 2>&-", ">&-", "2>&-"]
SCRIPT = """
import os, sys
from workers import entry
entry._open_streams()
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("nobody hears this", flush=True)
print("nor this", file=sys.stderr, flush=True)
os.write(opened, f"{opened > 2} {[os.get_inheritable(number) for number in (0, 1, 2)]}".encode())
"""


@pytest.mark.parametrize("closed", CLOSED)
def test_streams_that_are_closed_lead_nowhere(closed: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = f'exec "$0" -c "$1" "$2" {closed}'
    ended = subprocess.run(
        ["sh", "-c", command, sys.executable, SCRIPT, str(told)], check=False, stdin=subprocess.DEVNULL
    )
    assert ended.returncode == 0
    assert told.read_text() == "True [True, True, True]"
