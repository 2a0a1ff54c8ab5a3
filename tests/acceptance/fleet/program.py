"""``python -m tests.acceptance.fleet.program FORKED PLAIN``: supervise so many pretenders of either birth."""

import sys

from smena.errors import Misconfigured
from smena.settings import load
from workers.process.exits import Exit
from workers.supervisor.lifespan import Lifespan
from workers.supervisor.post import Role
from workers.wiring.supervisor import Ending, run_supervisor

MODULE = "tests.acceptance.fleet.pretender"


def main(forked: int, plain: int) -> int:
    """Run the supervisor; say a refusal as the command line does."""
    try:
        settings = load()
        worker = settings.worker
        lifespan = Lifespan(worker.max_jobs, worker.max_memory_mib, worker.max_age_s)
        roles = [
            Role("forked", MODULE, forked, forked=True, most=worker.processes_max, lifespan=lifespan),
            Role("plain", MODULE, plain),
        ]
        ending = run_supervisor([role for role in roles if role.count], settings, {})
    except Misconfigured as refusal:
        ending = Ending(Exit.MISCONFIGURED, str(refusal))
    if ending.refusal:
        sys.stderr.write(f"smena: {ending.refusal}\n")
    return ending.code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
