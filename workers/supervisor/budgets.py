"""Hold the times that the supervisor gives its children."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budgets:
    """How long a drain may take, the grace after which what is left is killed, and how long a relief may boot.

    ``heartbeat_s`` is the silence after which the broker takes a child's connection for dead. ``stopped_s`` is
    the longest that a child may be stopped.
    """

    drain_s: float
    kill_grace_s: float
    ready_s: float = 60.0
    heartbeat_s: float = 20.0
    stopped_s: float = 60.0

    @property
    def leave_s(self) -> float:
        """What one child has from being asked to end until it is killed."""
        return self.drain_s + self.kill_grace_s
