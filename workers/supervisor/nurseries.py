"""Keep the nurseries of all forked roles: the one in use, a fresh one on trial, and those whose children still live.

A nursery that was followed by another lives as long as a child that it forked: it ends what that child's jobs have
started, should the supervisor be killed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from workers.supervisor.nursery import NurseryHandle


class Nurseries:
    """At most one nursery in use for each role; a role without one has its children started by command line."""

    def __init__(self, in_use: dict[str, NurseryHandle]) -> None:
        self._in_use = in_use
        self._on_trial: dict[str, NurseryHandle] = {}
        self._followed: list[NurseryHandle] = []

    def __iter__(self) -> Iterator[NurseryHandle]:
        """Yield every nursery there is."""
        yield from (*self._in_use.values(), *self._on_trial.values(), *self._followed)

    def in_use(self) -> Iterator[NurseryHandle]:
        """Yield those that new children come from."""
        yield from self._in_use.values()

    def of(self, role: str) -> NurseryHandle | None:
        """Return the nursery that the role's next child comes from."""
        return self._in_use.get(role)

    def pids(self) -> dict[str, int]:
        """Return role to process id of the nurseries in use that run."""
        return {role: nursery.pid for role, nursery in self._in_use.items() if nursery.pid}

    def try_fresh(self, now_s: float) -> dict[str, NurseryHandle]:
        """Start a fresh nursery beside each one in use, with the code as it is now; `OSError` if one cannot start."""
        for role, nursery in self._in_use.items():
            fresh = nursery.successor()
            fresh.start(now_s)
            self._on_trial[role] = fresh
        return dict(self._on_trial)

    def take_over(self, role: str) -> None:
        """Let the role's fresh nursery follow the one in use."""
        fresh = self._on_trial.pop(role, None)
        if fresh is not None:
            self._followed.append(self._in_use[role])
            self._in_use[role] = fresh

    def give_up_trial(self) -> None:
        """Let the fresh ones that have not taken over go."""
        self._followed += self._on_trial.values()
        self._on_trial.clear()

    def clear(self, parents: Collection[int]) -> None:
        """End the followed ones that are the parent of no child any more, given by process id."""
        for nursery in self._followed:
            if nursery.pid not in parents:
                nursery.kill()

    def bury(self, nursery: NurseryHandle, now_s: float) -> bool:
        """Note that one has ended; return whether it was in use, and so is missed."""
        nursery.bury(now_s)
        if nursery in self._followed:
            self._followed.remove(nursery)
        return any(nursery is one for one in self._in_use.values())
