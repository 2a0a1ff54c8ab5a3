"""``python -m tests.acceptance.fleet.program FORKED PLAIN``: supervise so many pretenders of either birth."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from smena.errors import Misconfigured
from smena.settings import load
from workers.process.exits import Exit
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.lifespan import Lifespan
from workers.supervisor.port import Board
from workers.supervisor.post import Role
from workers.wiring.supervisor import Ending, run_supervisor

MODULE = "tests.acceptance.fleet.pretender"


def break_on_cue(publish: Callable[[Board, FleetView], None]) -> Callable[[Board, FleetView], None]:
    """Let the supervisor's own loop raise when the file ``bug-supervisor`` is there, a thread with ``bug-port``."""

    def broken(board: Board, view: FleetView) -> None:
        folder = Path(os.environ["SMENA_SUPERVISOR_STATE_DIR"])
        for cue in folder.glob("bug-supervisor*"):
            cue.unlink()
            raise ZeroDivisionError("the supervisor's own")
        for cue in folder.glob("bug-port"):
            cue.unlink()
            threading.Thread(target=lambda: 1 // 0, name="port").start()
        publish(board, view)

    return broken


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
        with mock.patch.object(Board, "publish", break_on_cue(Board.publish)):
            ending = run_supervisor([role for role in roles if role.count], settings, {})
    except Misconfigured as refusal:
        ending = Ending(Exit.MISCONFIGURED, str(refusal))
    if ending.refusal:
        sys.stderr.write(f"smena: {ending.refusal}\n")
    return ending.code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
