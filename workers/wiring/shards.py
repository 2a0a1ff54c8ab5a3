"""Give a worker process the actor of shard jobs, where it has a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from smena.clock import SYSTEM
from smena.settings.groups import Batches
from smena.store.database import Database
from smena.telemetry.tally import Board
from workers.execution.claim_keeper import ClaimKeeper
from workers.execution.shard import Shards
from workers.middleware.bound import BoundActor
from workers.middleware.once import OnceRing
from workers.middleware.rings import Ring
from workers.middleware.tracing import MakeContext
from workers.middleware.verdict import Judge


def join(
    actors: Mapping[str, BoundActor],
    settings: Batches,
    database: Database,
    once: OnceRing,
    *,
    life: str,
    outer: Sequence[Ring],
    judge: Judge,
    make_context: MakeContext,
    board: Board,
    ending: Callable[[], bool],
) -> tuple[Mapping[str, BoundActor], ClaimKeeper]:
    """Return the actors with those of shard jobs, and the keeper of this process's claims: a service.

    ``life`` is what strikes call this process.
    """
    keeper = ClaimKeeper(database, life, settings.lease_s, SYSTEM)
    shards = Shards(
        database,
        keeper,
        actors,
        settings,
        once=once,
        judge=judge,
        make_context=make_context,
        board=board,
        clock=SYSTEM,
        ending=ending,
    )
    return {**actors, **shards.bound(list(outer))}, keeper
