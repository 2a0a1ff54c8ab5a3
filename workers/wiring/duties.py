"""List what the janitor does for the fleet, whatever books are loaded."""

from __future__ import annotations

from typing import Final

from sharding import members
from sharding import upkeep as batch_upkeep
from smena.clock import SYSTEM
from smena.outbox import upkeep
from smena.records import once_keys, ticks
from smena.records.dead_letters import DeadLetters
from smena.records.settlements import Settlements
from smena.records.strikes import Strikes
from smena.settings import Settings
from smena.store.database import Database
from smena.telemetry import events
from workers.roles.dead_digest import DeadDigest
from workers.roles.janitor import Duty

_SILENT_S: Final = 3600.0
_SILENT_LEASES: Final = 30
"""A member is taken for dead for good after both; one that comes back all the same joins again."""


def duties_of(settings: Settings, database: Database) -> list[Duty]:
    """Return what is kept small or woken; dead letters go only where an operator wrote down how long they stay."""

    def outbox(limit: int) -> int:
        with database.transaction() as connection:
            return upkeep.prune(connection, settings.outbox.keep_s, limit)

    def keys(limit: int) -> int:
        with database.transaction() as connection:
            return once_keys.prune(connection, limit)

    def old_batches(limit: int) -> int:
        with database.transaction() as connection:
            return batch_upkeep.prune(connection, settings.batches.keep_s, limit)

    def shard_jobs(_limit: int) -> int:
        with database.transaction() as connection:
            batch_upkeep.see(connection, settings.batches.stalled_s)
            for woken in batch_upkeep.wake(connection, settings.batches.stalled_s):
                events.emit(events.BATCH_WOKEN, batch=woken.batch, shards=woken.shards, queue=woken.queue)
        return 0

    def old_ticks(limit: int) -> int:
        with database.transaction() as connection:
            return ticks.prune(connection, settings.schedule.keep_s, limit)

    def silent_members(limit: int) -> int:
        with database.transaction() as connection:
            return members.prune(connection, max(_SILENT_S, _SILENT_LEASES * settings.partitions.lease_s), limit)

    settlements, strikes, letters = Settlements(database), Strikes(database), DeadLetters(database)
    keep_letters_s, digest_s = settings.dead_letters.keep_s, settings.dead_letters.digest_s
    duties = [
        Duty("outbox", outbox, "outbox rows that were sent long ago go"),
        Duty(
            "settlements",
            lambda limit: settlements.prune(settings.settlements.keep_s, limit),
            "settled attempts of which no copy comes any more go",
        ),
        Duty("once_keys", keys, "`once` keys that have expired go"),
        Duty("strikes", lambda limit: strikes.prune(settings.evidence.keep_s, limit), "old crash evidence goes"),
        Duty("ticks", old_ticks, "what became of ticks long ago goes"),
        Duty("batches", old_batches, "batches that ended long ago go, with their items"),
        Duty("shard_jobs", shard_jobs, "batches whose shard jobs were lost get new ones"),
        Duty("members", silent_members, "members of partition groups that are long silent go"),
        Duty(
            "dead_digest",
            DeadDigest(database, digest_s, SYSTEM).tell_if_due,
            "it is told what has died and what lies",
            digest_s,
        ),
    ]
    if keep_letters_s is not None:
        duties.append(
            Duty("dead_letters", lambda limit: letters.prune(keep_letters_s, limit), "old dead letters go for good")
        )
    return duties
