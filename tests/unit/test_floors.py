"""The floors of the house hold; `./run check` says the same, this says it in the test run."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LINT = "from importlinter.cli import lint_imports_command as lint; lint(['--no-logo', '--no-cache'])"


def test_imports_go_down_only() -> None:
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
