"""A folder with services of its own, empty at the start, for one program at a time: what drills and the demo stand on.

Each session begins by clearing what an earlier one left, so none meets another's rows or messages. Servers whose
addresses the environment gives are used instead, and with them what fleets live there: so the session takes a database
and a queue prefix of its own on them, and removes both at the end. It stands for leadership in that database, whatever
backend the environment names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from smena.errors import Refused
from workers.drills.own_database import OwnDatabase
from workers.drills.queues import QueueView
from workers.local.services import VARIABLES, LocalServices

BROKER: Final = VARIABLES["rabbitmq"]
DATABASE: Final = VARIABLES["postgresql"]
_ELECTION: Final = "SMENA_LEADERSHIP_DATABASE_URL"


class VenueTaken(Refused):
    """Another session is held there."""


class Venue:
    """The services and folders of one session; ``name`` is its folder's below `SMENA_LOCAL_DIR`, else below `here`."""

    def __init__(self, name: str, environ: Mapping[str, str], here: Path, prefix: str, queues: Sequence[str]) -> None:
        self._environ = dict(environ)
        self._queues = tuple(queues)
        self.folder = Path(environ.get("SMENA_LOCAL_DIR") or here).absolute() / name
        self.services = LocalServices(self.folder / "services", environ)
        self.runs = self.folder / "runs"
        self.given = sorted(variable for variable in VARIABLES.values() if environ.get(variable))
        self.prefix = f"{name}-{uuid.uuid4().hex[:8]}" if BROKER in self.given else prefix
        self._own = OwnDatabase(environ[DATABASE], name) if DATABASE in self.given else None

    @contextmanager
    def open(self, *, keep: bool) -> Iterator[None]:
        """Have services and empty folders for the block; with ``keep`` they stay up after it."""
        with self._alone():
            self.services.down()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.runs.mkdir(parents=True)
            with ExitStack() as ends:
                if not keep:
                    ends.callback(self.services.down)
                self.services.up()
                ends.enter_context(self._own.had(keep=keep) if self._own else nullcontext())
                if not keep and BROKER in self.given:
                    ends.callback(self._delete_queues)
                yield

    def addresses(self) -> dict[str, str]:
        """Return the environment with the addresses of these services, the prefix, and where elections are held."""
        environ = {**self._environ, **self.services.env(), "SMENA_AMQP_PREFIX": self.prefix}
        election = environ.pop(_ELECTION, None)
        if self._own:
            environ[DATABASE] = self._own.url
            environ |= {_ELECTION: self._own.beside(election)} if election else {}
        # A seat in Redis or Kubernetes has one name for all fleets there.
        return {**environ, "SMENA_LEADERSHIP_BACKEND": "postgresql"}

    def place(self) -> str:
        """Say where it is held: in what folder, or on whose servers and what keeps it apart there."""
        private = f"services in {self.services.root}"
        if not self.given:
            return private
        apart = {BROKER: f" (queues {self.prefix}.…)", DATABASE: f" (database {self._own.name})" if self._own else ""}
        given = ", ".join(variable + apart.get(variable, "") for variable in self.given)
        return f"servers given by {given}" + ("" if len(self.given) == len(VARIABLES) else f"; other {private}")

    def look_and_end(self, *looks: str) -> Iterator[str]:
        """Give lines that say how to look at what was kept and how to remove it; ``looks`` do it where all is private.

        On servers of others the commands of `smena` look, told which queues and which database are meant.
        """
        here = f"SMENA_LOCAL_DIR={self.services.root} "
        settings = {variable: self.addresses()[variable] for variable in (DATABASE, "SMENA_AMQP_PREFIX")}
        told = " ".join(f"{variable}={value}" for variable, value in settings.items())
        looks = (f"{told} smena dead list",) if self.given else tuple(here + look for look in looks)
        ends = [f"{here}smena local down"] if len(self.given) < len(VARIABLES) else []
        if BROKER in self.given:
            ends.append(f"delete the broker's queues and exchanges {self.prefix}.… (management page, rabbitmqctl)")
        if self._own:
            ends.append(f"DROP DATABASE {self._own.name} WITH (FORCE);  (in psql, at SMENA_DATABASE_URL)")
        for name, lines in (("look", looks), ("end", ends)):
            yield from (f"{name if line is lines[0] else '':<10}{line}" for line in lines)

    @property
    def amqp_url(self) -> str:
        """Return the broker's address; of several, the first."""
        return self.services.env()[BROKER].partition(",")[0]

    def queues(self) -> QueueView:
        """Return a fresh look at the broker's queues; the caller closes it."""
        return QueueView(self.amqp_url, self.prefix, self._queues)

    def _delete_queues(self) -> None:
        view = self.queues()
        try:
            view.delete_all()
        finally:
            view.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        held = os.open(f"{self.folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise VenueTaken(f"another session is held in {self.folder}") from None
        else:
            yield
        finally:
            os.close(held)
