"""Strike at the protocol of settling for as long as a drill does: ``./run drill settle [--runs N] [--json]``.

The same tests as in the test run, with 500 runs of 50 steps in the place of 50, and a process that dies at every step
of the scenario in the place of some. It takes minutes, needs no fleet, and ends with 0 if all held.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_TESTS: Final = "tests/integration/test_settle_states.py"
_PYTEST: Final = ("-P", "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
_UNTIMED: Final = ("-o", "faulthandler_timeout=0")
"""So many runs take longer than any test of the suite; each test has its own time limit."""


def main(arguments: list[str] | None = None) -> int:
    """Hold it and say what came of it."""
    options = _options(arguments)
    began_s = time.monotonic()
    held = subprocess.run(
        [sys.executable, *_PYTEST, *_UNTIMED, _TESTS],
        cwd=ROOT,
        env={**os.environ, "SMENA_SETTLE_RUNS": str(options.runs)},
        check=False,
        stdout=sys.stderr,
    )
    seconds = round(time.monotonic() - began_s, 1)
    passed = held.returncode == 0
    if options.json:
        told = {"name": "settle", "passed": passed, "runs": options.runs, "steps": 50, "seconds": seconds}
        sys.stdout.write(json.dumps({"drills": [told]}) + "\n")
    else:
        sys.stdout.write(f"{'passed' if passed else 'failed'}  settle  {options.runs} runs of 50 steps  {seconds} s\n")
    return 0 if passed else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run drill settle", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500, metavar="N", help="runs of 50 steps (default 500)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
