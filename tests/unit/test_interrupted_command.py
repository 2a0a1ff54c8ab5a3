"""A Ctrl-C ends `smena` quietly, whenever it comes."""

import subprocess
import sys

import pytest

INTERRUPTED = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)
when, *arguments = sys.argv[1:]

class CtrlC:
    def find_spec(self, name, *_):
        if name == when:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
sys.argv[1:] = arguments
from workers.entry import main
main()
"""


@pytest.mark.parametrize("when", ["click", "workers.cli.partition"])
def test_a_ctrl_c_is_no_traceback(when: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, when, "partition", "keys"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
