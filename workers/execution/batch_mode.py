"""Say how a batch of each mode is worked: how its slices are taken, worked and finished, and what there is to wait for.

A batch has one mode for good. A shard job looks it up with the batch's recipe, and asks no more which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from sharding import batches, claims, keyed_claims, progress
from sharding.claims import Claim
from sharding.progress import Outlook
from workers.execution.claim_keeper import Take
from workers.execution.keyed_work import KeyedWork
from workers.execution.slice_work import Remains, SliceWork


@dataclass(frozen=True, slots=True)
class BatchMode:
    """What differs from mode to mode.

    ``take`` takes a claim, ``behind`` says from which item on to look for the next one. ``work`` works its items, and
    ``finish`` settles them: it returns how many it buried behind those that block. ``outlook``, by batch and epoch,
    is for where nothing could be taken.
    """

    take: Take
    behind: Callable[[Claim], int]
    work: type[SliceWork]
    finish: Callable[[sa.Connection, Claim, Remains], int]
    outlook: Callable[[sa.Connection, int, int], Outlook]


def _behind_its_last(claim: Claim) -> int:
    return claim.pieces[-1].last + 1


def _finish(connection: sa.Connection, claim: Claim, remains: Remains) -> int:
    claims.finish(connection, claim, remains.again, remains.dead)
    return 0


def _at_the_beginning(claim: Claim) -> int:  # noqa: ARG001 - partitions are taken as they come
    return 0


def _finish_keyed(connection: sa.Connection, claim: Claim, remains: Remains) -> int:
    return keyed_claims.finish(connection, claim, remains.again, remains.dead, remains.blocks)


MODES: Final[Mapping[batches.Mode, BatchMode]] = {
    "claim": BatchMode(claims.take, _behind_its_last, SliceWork, _finish, progress.outlook),
    "partition": BatchMode(keyed_claims.take, _at_the_beginning, KeyedWork, _finish_keyed, keyed_claims.outlook),
}
"""Each by the name that `batches.open` gives it."""
