"""``python -m workers.drills.unguarded GUARD ROLES``: a fleet whose workers lack that guard."""

from __future__ import annotations

import sys

from smena.settings import Settings, load
from workers.drills.unguarded import GUARDS
from workers.supervisor.post import Role
from workers.wiring.supervisor import run_supervisor


def main(guard: str, names: str) -> int:
    """Supervise until a drain has ended."""
    settings = load()
    ending = run_supervisor([_role(name, guard, settings) for name in names.split(",")], settings, {})
    if ending.refusal:
        sys.stderr.write(f"{ending.refusal}\n")
    return ending.code


def _role(name: str, guard: str, settings: Settings) -> Role:
    if name != "worker":
        return Role(name, f"workers.wiring.{name}")
    worker = settings.worker
    return Role(name, GUARDS[guard], worker.processes, forked=True, most=worker.processes_max)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
