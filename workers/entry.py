"""Run the `smena` command. A Ctrl-C while it is imported ends it as quietly as one at work does."""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def main() -> None:
    """Run the command line."""
    try:
        _open_streams()
        from workers.cli import main as smena  # here, because an import takes long enough to be interrupted

        smena(prog_name="smena")
    except KeyboardInterrupt:
        sys.exit(130)  # `workers.cli.INTERRUPTED`, which may not be there yet


def _open_streams() -> None:
    """Open what the process was started without: else its first sockets would have the numbers of these."""
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number, inheritable=True)
                os.close(nowhere)
            os.set_inheritable(number, True)  # noqa: FBT003 - the standard library's
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
