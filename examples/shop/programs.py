"""Run the demo's other processes: each in its own session, with its output in files, ended with the demo."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from smena.errors import Refused
from workers.process.lineage import die_with_parent

_TAIL = 2_000


class Broken(Refused):
    """One of the demo's programs failed."""


class Program:
    """One running program. Its stdin stays open until `close_stdin`; its files are ``NAME.out`` and ``NAME.log``."""

    def __init__(self, name: str, arguments: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self._out, self._log = folder / f"{name}.out", folder / f"{name}.log"
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                env=dict(env),
                cwd=folder,
                start_new_session=True,
                preexec_fn=_end_with_the_demo,
            )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def lines(self) -> list[str]:
        """Return the whole lines of its stdout so far."""
        return self._out.read_text(encoding="utf-8").split("\n")[:-1]

    def last_line(self) -> str | None:
        """Return the last whole line of its stdout, reading only the end of it."""
        with self._out.open("rb") as out:
            out.seek(max(0, out.seek(0, 2) - _TAIL))
            whole = out.read().decode("utf-8", "replace").rpartition("\n")[0]
        return whole.rpartition("\n")[2] or None

    def require_alive(self) -> None:
        """Raise `Broken` if it has ended."""
        if self._process.poll() is not None:
            raise Broken(self.complaint(f"ended with {self._process.returncode}"))

    def require_no_failure(self) -> None:
        """Raise `Broken` if it has ended with another status than 0."""
        if self._process.poll() not in (None, 0):
            raise Broken(self.complaint(f"ended with {self._process.returncode}"))

    def complaint(self, what: str) -> str:
        """Return a sentence about it with the end of its log."""
        tail = self._log.read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
        return f"the {self.name} {what}" + (f":\n{tail}" if tail else "")

    def wait(self, within_s: float) -> int:
        """Wait for its end and return its exit status; raise `Broken` when it takes longer."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise Broken(self.complaint(f"has not ended within {within_s:g} s")) from None

    def close_stdin(self) -> None:
        """Tell a program that listens to its stdin to end."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def end(self, number: signal.Signals = signal.SIGTERM, within_s: float = 10.0) -> int:
        """Ask it to end, kill it if it does not, and return its exit status; safe when it has ended."""
        self.close_stdin()
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _end_with_the_demo() -> None:
    die_with_parent(signal.SIGTERM)
