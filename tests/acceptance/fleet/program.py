"""``python -m tests.acceptance.fleet.program FORKED PLAIN``: supervise so many pretenders of either birth."""

import sys

from smena.errors import Misconfigured
from smena.settings import load
from workers.process.exits import Exit
from workers.supervisor.post import Role
from workers.wiring.supervisor import run_supervisor

MODULE = "tests.acceptance.fleet.pretender"


def main(forked: int, plain: int) -> int:
    """Run the supervisor; say a refusal as the command line does."""
    roles = [Role("forked", MODULE, forked, forked=True), Role("plain", MODULE, plain)]
    try:
        return run_supervisor([role for role in roles if role.count], load(), {})
    except Misconfigured as refusal:
        sys.stderr.write(f"smena: {refusal}\n")
        return Exit.MISCONFIGURED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
