"""A test's grip on a running fleet: start it, see it through its state file, port and log, and leave nothing."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fixtures.eventually import PATIENCE_S, eventually
from workers.process import lineage
from workers.supervisor.state_file import read_state

ROOT = Path(__file__).resolve().parents[3]


class FleetGrip:
    """One supervisor of pretenders, in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "state"
        self._log = folder / "log.jsonl"
        self._errors = folder / "stderr"
        self._terminal = ""
        self._seen: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        forked: int = 2,
        plain: int = 0,
        *,
        drain_s: float = 20,
        settings: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        **plan: object,
    ) -> None:
        """Start the program; ``plan`` are fields of the pretender's `Plan`, ``settings`` as in `RealFleet.up`."""
        env = {
            "SMENA_SUPERVISOR_STATE_DIR": str(self.folder),
            "SMENA_SUPERVISOR_METRICS_PORT": "0",
            "SMENA_SUPERVISOR_KILL_GRACE_S": "1",
            "SMENA_TELEMETRY_LOG_FILE": str(self._log),
            "SMENA_WORKER_DRAIN_S": str(drain_s),
            **{f"SMENA_{name.upper()}": str(value) for name, value in (settings or {}).items()},
            **(environ or {}),
            **{f"SMENA_APP_{name.upper()}": str(value) for name, value in plan.items()},
        }
        self._open([sys.executable, "-m", "tests.acceptance.fleet.program", str(forked), str(plain)], env)

    def start_at_terminal(self, forked: int) -> int:
        """Start the program in the foreground of a terminal of its own; return the terminal's other end."""
        ours, theirs = pty.openpty()
        self._terminal = os.ttyname(theirs)
        self.start(forked)
        os.close(theirs)
        return ours

    def _open(self, command: list[str], env: dict[str, str]) -> None:
        if self._terminal:
            take = "import os, sys; os.setsid(); os.open(sys.argv[1], os.O_RDWR); os.execv(sys.argv[2], sys.argv[2:])"
            command = [sys.executable, "-c", take, self._terminal, *command]
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **env},
                stderr=errors,
                start_new_session=not self._terminal,
            )

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The supervisor."""
        assert self._process is not None
        return self._process

    def state(self) -> dict[str, Any]:
        """Return what the state file says; empty without one."""
        return read_state(self.folder) or {}

    def pids(self, role: str = "forked") -> dict[str, int]:
        """Return post to pid."""
        pids: dict[str, int] = self.state().get("roles", {}).get(role, {})
        self._seen.update(pids.values())
        return pids

    def programs(self, post: str) -> list[int]:
        """Return the pids of what the post's child has started."""
        return [int(pid) for pid in (self.folder / f"programs-forked-{post}").read_text().split()]

    def wait_ready(self) -> dict[str, int]:
        """Wait until the fleet is ready; return the forked role's pids."""
        eventually(lambda: self.state().get("state") == "ready")
        return self.pids()

    def paused(self) -> set[int]:
        """Return the pids of the children that take no work."""
        return {int(path.name.removeprefix("paused-")) for path in self.folder.glob("paused-*")}

    def load(self, code: str) -> None:
        """Put up what the next nursery will load (see the pretender)."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "code").write_text(code)

    def ran(self, pid: int) -> str:
        """Return the code that the child runs."""
        return (self.folder / f"ran-{pid}").read_text()

    def wait_replaced(self, post: str, before: int) -> int:
        """Wait until another process is at the post and all are ready again; return its pid."""
        eventually(lambda: self.pids().get(post, before) != before and self.get("/ready")[0] == 200)
        return self.pids()[post]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the supervisor."""
        os.kill(self.process.pid, number)

    def cue(self, name: str) -> None:
        """Give the pretenders a cue."""
        (self.folder / name).touch()

    def exit_code(self) -> int:
        """Wait for the supervisor's end."""
        return self.process.wait(PATIENCE_S)

    def get(self, path: str) -> tuple[int, str]:
        """Ask the port."""
        address = self.state()["metrics"]
        url = f"http://{address['host']}:{address['port']}{path}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the log's events of that name."""
        return [event for event in self._all() if event["event"] == name]

    def order(self, *names: str) -> list[str]:
        """Return the names of those events as they came."""
        return [event["event"] for event in self._all() if event["event"] in names]

    def _all(self) -> list[dict[str, Any]]:
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def errors(self) -> str:
        """Return what the fleet wrote to standard error."""
        return self._errors.read_text()

    def clear(self) -> None:
        """End everything that may be left."""
        self.pids()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait(PATIENCE_S)
        for pid in self._seen:
            if self._is_ours(pid):
                lineage.kill_session(pid)

    def _is_ours(self, pid: int) -> bool:
        """Say whether the pid is still a child of this fleet: the orders on its command line name the folder."""
        with contextlib.suppress(OSError):
            return str(self.folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        return False


def alive(pid: int) -> bool:
    """Say whether the process exists and is no zombie."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False
