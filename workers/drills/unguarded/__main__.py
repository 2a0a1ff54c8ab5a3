"""``python -m workers.drills.unguarded GUARD ROLES``: a fleet whose workers lack that guard."""

from __future__ import annotations

import sys

from smena.settings import Settings, load
from workers.drills.unguarded import GUARDS, OF_THE_SCHEDULER
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
    unguarded = "scheduler" if guard in OF_THE_SCHEDULER else "worker"
    module = GUARDS[guard] if name == unguarded else f"workers.wiring.{name}"
    if name != "worker":
        return Role(name, module)
    worker = settings.worker
    return Role(name, module, worker.processes, forked=True, most=worker.processes_max)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
