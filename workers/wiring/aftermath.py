"""Build and join what looks after a death: the own life, the inquest over what came back, the quarantine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from smena.clock import SYSTEM
from smena.errors import TimeLimitExceeded
from smena.guarantees.life import Life
from smena.guarantees.shared_strikes import SharedStrikes
from smena.lifecycle import Service
from smena.records.strike import CONVICTING, Strike, Why
from smena.records.strikes import Strikes
from smena.store.database import Database
from smena.telemetry.metric import JOBS
from smena.telemetry.tally import Board
from workers.execution.cells import Cells
from workers.execution.hearsay import Hearsay
from workers.execution.inquest import SEEN_S, Inquest, Own
from workers.execution.quarantine import Quarantine
from workers.execution.verdicts import Settles, Verdicts
from workers.execution.worker import Runner
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Retry
from workers.middleware.verdict import Judge
from workers.process.orders import Orders
from workers.wiring import server

CELLS: Final = "workers.wiring.cell"

HEARD_S: Final = 0.5
"""Without a database: how soon the supervisor will have told of a death. It is told by nobody that there was one."""


class Told(Protocol):
    """A process that its supervisor tells of strikes."""

    @property
    def orders(self) -> Orders:
        """What the process is."""

    def on_struck(self, told: Callable[[Sequence[Strike]], object]) -> None:
        """Have ``told`` called with the strikes of this host."""


class Part(Service, Runner, Protocol):
    """A service that holds deliveries."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """The parts, each before those that need it, and where a delivery goes in.

    ``lives`` holds the own life, which ends in order only where nothing runs any more.
    """

    lives: Sequence[Service]
    services: Sequence[Service]
    runners: Sequence[Part]
    put: Callable[[Attempt], None]


def build(
    database: Database | None,
    child: Told,
    settler: Settles,
    board: Board,
    start: Callable[[Attempt], None],
    done: Callable[[Attempt], None],
    heartbeat_s: float,
    stopped_s: float,
    shared: SharedStrikes | None = None,
) -> Aftermath:
    """Return the parts for a worker process; ``start`` takes whoever is free of suspicion, ``done`` who is done.

    Without a database it goes by what the supervisor of this host tells, and by what is ``shared`` between hosts.
    """
    orders, lives = child.orders, list[Service]()
    own = Own(orders.life, orders.name(), socket.gethostname())
    register: Strikes | Hearsay
    if database is None:
        register, seen_s = Hearsay(shared), HEARD_S
        lives += [] if shared is None else [shared]
        child.on_struck(register.hear)
    else:
        register, seen_s = Strikes(database), SEEN_S
        lives.append(Life(database, own.life, own.worker, own.host))
    convict = partial(_convict, Judge(SYSTEM), settler, board)
    cells = Cells(lambda: server.launch(CELLS, orders), orders, heartbeat_s, stopped_s)
    quarantine = Quarantine(cells, Verdicts(own, settler, convict, register, board, SYSTEM, done), SYSTEM)

    def suspect(attempt: Attempt, strikes: Sequence[Strike]) -> None:
        over = [strike.why for strike in strikes if strike.why in CONVICTING]
        if over:
            convict(attempt, over[-1])
        else:
            quarantine.put(attempt, strikes)

    inquest = Inquest(register, own, suspect, start, SYSTEM, seen_s, quarantine.expect)
    return Aftermath(lives, [quarantine, inquest], [inquest, quarantine], inquest.put)


def _convict(judge: Judge, settler: Settles, board: Board, attempt: Attempt, why: Why) -> None:
    """Settle an attempt whose process had to be killed for its sake: it ran out of time, and does not run again."""
    outcome = judge.judge(TimeLimitExceeded(why=why), attempt.job, attempt.actor.policy)
    if isinstance(outcome, Retry | Dead):
        board.add(JOBS, attempt.actor.name, type(outcome).__name__.lower())
        settler.settle(attempt, outcome)
    else:
        attempt.delivery.give_back()
