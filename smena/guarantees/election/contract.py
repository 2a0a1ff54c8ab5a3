"""Say what a backend of an election must do.

A backend belongs to one thread. It keeps one seat, named by its lease (`leader:scheduler`), and hands out terms that
only grow: also when its store forgets everything, for the row of the lease in `smena.leases` is their floor.
"""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from typing import Final, Protocol

from smena.errors import TermLost

PREFIX: Final = "leader:"
"""What the name of every leadership's lease begins with; the rest is the duty."""


class Reason(StrEnum):
    """Why a leader leads no more."""

    RESIGNED = "resigned"
    """It gave the seat up itself, at its end or when asked."""
    TAKEN = "taken"
    """Another leads, or an operator took the seat away."""
    EXPIRED = "expired"
    """It could not renew in time, and must think that another leads."""
    SESSION_LOST = "session_lost"
    """The session that held the seat ended; another may lead from that moment."""


class Unseated(TermLost):
    """The leadership is over."""

    code = "unseated"

    def __init__(self, detail: str = "", *, reason: Reason, **facts: object) -> None:
        super().__init__(detail, reason=reason.value, **facts)
        self.reason = reason


class Election(Protocol):
    """One seat, as one candidate sees it."""

    lease_name: str
    """The lease's name, for the fence."""
    lease_s: float
    """How long a seat lasts without renewal."""

    def check(self) -> None:
        """Raise `Misconfigured` where no election can be held; for the boot."""

    def campaign(self, patience_s: float) -> int | None:
        """Try to take the seat, waiting up to ``patience_s`` for it to become free; return the new term, or None.

        A store that cannot be reached is an error of the branch `Transient`.
        """

    def renew(self, within_s: float) -> None:
        """Make the seat last from now; returns or raises within ``within_s``.

        Raises `Unseated` where it is over, and a `Transient` error where nobody knows: then it may be asked again.
        """

    def resign(self) -> None:
        """Give up the seat, or stop standing for it, so that another has it at once; never raises for a lost store."""

    def close(self) -> None:
        """Close what is open; a seat that was not given up ends by itself."""


def new_owner() -> str:
    """Return the id of a new candidacy: host and process, for people, and a random part by which it is told apart."""
    return f"{socket.gethostname()}:{os.getpid()}_{os.urandom(8).hex()}"


def lease_of(duty: str) -> str:
    """Return the name of the lease of a duty."""
    return PREFIX + duty
