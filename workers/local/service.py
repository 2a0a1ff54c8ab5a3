"""The one shape of a private service: a server process in a folder of its own, on ports of its own.

Ready means that it answered a real request, not that a process exists. Start is safe on a running service (nothing
happens), after a stop, after a kill, and over what an interrupted start left behind. Stop lets it write down what it
holds; kill is `SIGKILL` for all of its processes at once, as a power cut would be.
"""

import os
import secrets
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from smena.clock import SYSTEM, Deadline
from workers.local.faults import NotAnswering
from workers.local.patience import wait_until
from workers.local.ports import keep_ports, read_ports
from workers.local.residents import Resident, end_all, residents

START_S: Final = 60.0
STOP_S: Final = 30.0
_APPEARS_S: Final = 5.0
_LOG_TAIL_CHARACTERS: Final = 1_500
_DETACHED: Final = ("/bin/sh", "-c", '"$@" &', "sh")


@dataclass(frozen=True)
class Launch:
    """Say how a server is started: its command, its environment, and the user when it must not be root."""

    command: Sequence[str]
    environ: Mapping[str, str]
    user: int | None = None
    children: Sequence[Sequence[str]] = field(default=())
    """Commands of processes that the server needs beside it, started first."""


class Service(ABC):
    """A server that this checkout owns; see the module's docstring for what each verb promises."""

    name: ClassVar[str]
    programs: ClassVar[frozenset[str]]
    """Names of all programs that run for this service; the first to be started is `main_program`."""
    main_program: ClassVar[str]
    port_names: ClassVar[tuple[str, ...]]
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self._turn: Final = threading.RLock()

    # What each service says of itself

    @property
    @abstractmethod
    def url(self) -> str:
        """Return the address for clients, with its password."""

    @abstractmethod
    def answers(self) -> bool:
        """Say whether the service answered a real request just now."""

    @abstractmethod
    def prepare(self) -> Launch:
        """Write what the server needs into its folder, and say how to start it."""

    def finish(self) -> None:  # noqa: B027 - most services need nothing
        """Do what must be done once the server answers; by default nothing."""

    def pages(self) -> dict[str, str]:
        """Return further addresses for people, by name."""
        return {}

    # The verbs

    def start(self, timeout_s: float = START_S) -> bool:
        """Start the server and wait until it answers; return False when it already ran and answered."""
        with self._turn:
            if self._answers_while_it_runs(Deadline.within(timeout_s, SYSTEM)):
                return False
            self.kill()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._forget_ports()
            self.ports = keep_ports(self._ports_file, self.port_names)
            self._launch(self.prepare())
            self._await_answer(Deadline.within(timeout_s, SYSTEM))
            self.finish()
            return True

    def stop(self, timeout_s: float = STOP_S) -> None:
        """Ask the server to end, kill what is left after the time, and return when no process is left."""
        with self._turn:
            pid = self.pid
            if pid is not None:
                _send(pid, self.stop_signal)
                wait_until(lambda: self.pid is None, Deadline.within(timeout_s, SYSTEM))
            self.kill()

    def kill(self, timeout_s: float = STOP_S) -> None:
        """Kill every process of the service and return when none is left."""
        with self._turn:
            if not end_all(self.folder, self.programs, Deadline.within(timeout_s, SYSTEM)):
                raise NotAnswering(f"{self.name} has processes that cannot be killed", pids=self._pids())

    def restart(self) -> None:
        """Stop the server and start it again, on the same ports and data."""
        with self._turn:
            self.stop()
            self.start()

    @property
    def pid(self) -> int | None:
        """Return the pid of the server's first process, or None when it does not run."""
        return next((one.pid for one in self._mains()), None)

    def ready(self) -> bool:
        """Say whether the server runs and answered just now."""
        return self.pid is not None and self.answers()

    # What the kinds of service share

    @cached_property
    def ports(self) -> dict[str, int]:
        """Return the service's ports by name; they last as long as nobody else takes them while it is down."""
        return read_ports(self._ports_file)

    @cached_property
    def password(self) -> str:
        """Return the service's own password, made at its first start and readable by its owner only."""
        file = self.folder / "password"
        if not file.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as out:
                out.write(secrets.token_hex(16))
        return file.read_text(encoding="ascii")

    @property
    def log_file(self) -> Path:
        """Return the file that holds what the server printed."""
        return self.folder / "server.log"

    @property
    def _ports_file(self) -> Path:
        return self.folder / "ports.json"

    def _forget_ports(self) -> None:
        self.__dict__.pop("ports", None)

    def _mains(self) -> list[Resident]:
        found = [one for one in residents(self.folder, self.programs) if one.program == self.main_program]
        pids = {one.pid for one in found}
        return [one for one in found if one.parent not in pids]

    def _answers_while_it_runs(self, deadline: Deadline) -> bool:
        wait_until(lambda: self.pid is None or self.answers(), deadline)
        return self.ready()

    def _pids(self) -> list[int]:
        return [one.pid for one in residents(self.folder, self.programs)]

    def _launch(self, launch: Launch) -> None:
        """Start the processes as nobody's children: they outlive this process, and their end leaves no zombie here."""
        with self.log_file.open("ab") as log:
            for command in (*launch.children, launch.command):
                subprocess.run(
                    [*_DETACHED, *command],
                    check=True,
                    cwd=self.folder,
                    env=dict(launch.environ),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    user=launch.user,
                    group=launch.user,
                    extra_groups=None if launch.user is None else [],
                )

    def _await_answer(self, deadline: Deadline) -> None:
        appears = Deadline.within(_APPEARS_S, SYSTEM)
        wait_until(lambda: self.answers() or (appears.passed() and self.pid is None), deadline)
        if self.answers():
            return
        state = "ended" if self.pid is None else "does not answer"
        self.kill()
        raise NotAnswering(f"{self.name} {state}; its log ends with:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL_CHARACTERS:].strip()


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
