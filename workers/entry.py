"""Run the `smena` command. A Ctrl-C while it is imported ends it as quietly as one at work does."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    try:
        from workers.cli import main as smena  # here, because an import takes long enough to be interrupted

        smena(prog_name="smena")
    except KeyboardInterrupt:
        sys.exit(130)  # `workers.cli.INTERRUPTED`, which may not be there yet
