"""Let one archivist of the fleet keep the canaries: it alone sends them, and it alone takes them in.

Were another to take one in, its sender would call it late. While nothing can come home (no subscription)
nobody is called late either.
"""

from __future__ import annotations

from typing import Protocol

from smena.clock import Deadline
from smena.guarantees.solo import Solo


class Home(Protocol):
    """The consumer of the queue to which canaries come."""

    def pause(self) -> None:
        """Take nothing more for now."""

    def resume(self) -> None:
        """Take messages again."""

    def is_subscribed(self) -> bool:
        """Say whether messages can come now."""


class CanaryDuty:
    """Who may send canaries. A service, so that the duty is left at the end; asked by the canaries' own loop."""

    name = "canary-duty"

    def __init__(self, solo: Solo) -> None:
        self._solo = solo
        self._home: Home | None = None
        self._ours = False

    def live_in(self, home: Home) -> None:
        """Take canaries in by that consumer, while the duty is ours; before it starts."""
        self._home = home
        home.pause()

    def is_ours(self) -> bool:
        """Say whether canaries may fly; raise `DatabaseLost` where nobody can tell."""
        ours = self._solo.held()
        if self._home is None:
            return False
        if ours != self._ours:
            self._ours = ours
            if ours:
                self._home.resume()
            else:
                self._home.pause()
        return ours and self._home.is_subscribed()

    def start(self) -> None:
        """Do nothing: the duty is taken when it is asked for."""

    def stop(self, deadline: Deadline) -> bool:
        """Leave the duty to another; after the canaries' loop has ended."""
        self._solo.leave()
        return not deadline.passed()
