"""A folder with services of its own, empty at the start, for one program at a time: what drills and the demo stand on.

Each session begins by clearing what an earlier one left, so none meets another's rows or messages. Services whose
addresses the environment gives are used instead; on a broker that others use too the session takes a queue prefix of
its own, and removes its queues at the end.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from smena.errors import Refused
from workers.drills.queues import QueueView
from workers.local.services import VARIABLES, LocalServices

BROKER: Final = VARIABLES["rabbitmq"]


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

    @contextmanager
    def open(self, *, keep: bool) -> Iterator[None]:
        """Have services and empty folders for the block; with ``keep`` they stay up after it."""
        with self._alone():
            self.services.down()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.runs.mkdir(parents=True)
            try:
                self.services.up()
                yield
            finally:
                if not keep:
                    self._clear()

    def addresses(self) -> dict[str, str]:
        """Return the environment with the addresses of these services, and the prefix."""
        return {**self._environ, **self.services.env(), "SMENA_AMQP_PREFIX": self.prefix}

    @property
    def amqp_url(self) -> str:
        """Return the broker's address; of several, the first."""
        return self.services.env()[BROKER].partition(",")[0]

    def queues(self) -> QueueView:
        """Return a fresh look at the broker's queues; the caller closes it."""
        return QueueView(self.amqp_url, self.prefix, self._queues)

    def _clear(self) -> None:
        if BROKER in self.given:
            view = self.queues()
            view.delete_all()
            view.close()
        self.services.down()

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
