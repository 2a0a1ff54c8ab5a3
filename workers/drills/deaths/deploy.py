"""A rolling reload while actors change: a new argument, a new actor, and jobs of both kinds all the time.

The book is a file in the fleet's own folder, as a release is. The publisher is ahead of the workers and behind them: it
sends what only the new code knows while old workers still run, and goes on sending what only the old code was written
for.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from workers.drills.drill import Drill
from workers.drills.ground import Ground

_LEAST = 12
_OLD = """
import time
from sqlalchemy.orm import Session
import smena
from workers.drills.book import QUEUE, RETRY, Piece, effect

book = smena.Book("deployed")


@book.actor(queue=QUEUE, retry=RETRY, once=lambda piece: piece.number)
def greet(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    session.execute(*effect(ctx, piece))
    time.sleep(piece.ms / 1000)
"""
_NEW = (
    _OLD.replace("piece: Piece)", 'piece: Piece, name: str = "nobody")').replace("lambda piece", "lambda piece, name")
    + """

@book.actor(queue=QUEUE, retry=RETRY, once=lambda piece: piece.number)
def part(ctx: smena.Context, session: Session, /, piece: Piece) -> None:
    session.execute(*effect(ctx, piece))
    time.sleep(piece.ms / 1000)
"""
)


@contextmanager
def around(ground: Ground) -> Iterator[Mapping[str, str]]:
    """Let the fleet load the deployed book too; the old one is there when it starts."""
    _release(ground, _OLD)
    yield {"SMENA_BOOKS": "workers.drills.book,deployed"}


def fault(ground: Ground) -> None:
    """Release the new book and reload, with jobs for the old one, for both, and for the new one alone."""
    ground.load.add("deployed.greet", ms=50, count=20)
    ground.full()
    old = set(ground.fleet.workers())
    _release(ground, _NEW)
    ground.strike(len(ground.sight.running()))
    ground.load.add("deployed.part", ms=50, count=20)  # unknown to the old workers: it waits for a new one
    ground.fleet.tell(signal.SIGHUP)
    ground.load.add("deployed.greet", ms=50, count=20)
    ground.recovered(lambda: _is_reloaded(ground, old), "every worker to be relieved")
    ground.load.add("deployed.greet", "everybody", ms=50, count=20)
    ground.load.add("deployed.greet", ms=50, count=20)


def _release(ground: Ground, code: str) -> None:
    (ground.folder / "deployed.py").write_text(code, encoding="utf-8")


def _is_reloaded(ground: Ground, old: set[int]) -> bool:
    now = set(ground.fleet.workers())
    return len(now) == ground.plan.processes and not now & (old | set(ground.fleet.leaving()))


DRILL = Drill(
    name="deploy",
    group="deaths",
    summary="a rolling reload while actors change their signatures",
    fault=fault,
    least_bite=_LEAST,
    around=around,
)
