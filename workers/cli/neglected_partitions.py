"""What `smena doctor` says of partitions that nobody works, though no error tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from sharding import neglect
from sharding.neglect import Outgrown, Unowned
from smena.amqp import names
from smena.settings import Settings
from smena.store.database import Database
from workers.broker.depths import depths_once
from workers.cli.complaint import Complaint

_LEASES: Final = 2
"""Leases that a partition may be without an owner: one that the dead one had, one for those who look."""


def neglected_partitions(database: Database, settings: Settings) -> Iterator[Complaint]:
    """Look into the groups' rows, and into the broker where a group has fewer partitions than it had."""
    with closing(database.connect()) as session:
        unowned = neglect.unowned(session, _LEASES * settings.partitions.lease_s)
        outgrown = neglect.outgrown(session)
    yield from (_unowned(one) for one in unowned)
    if outgrown:
        yield from _stray(outgrown, settings)


def _unowned(one: Unowned) -> Complaint:
    found = (
        f"{one.unowned} of the {one.partitions} partitions of {one.group} have no owner, though it has {one.members} "
        "member(s)"
    )
    way = (
        f"see that its workers declare {one.partitions} partitions as the group does, else they work nothing of it "
        f"(event partition.count_differs); `smena partition owners {one.group}` shows which have no owner"
    )
    return Complaint("partitions", found, way)


def _stray(outgrown: list[Outgrown], settings: Settings) -> Iterator[Complaint]:
    """Tell of messages in partitions that their group has no more."""
    places = {one: _beyond(one, settings.amqp.prefix) for one in outgrown}
    depths = depths_once(settings.amqp, [queue for queues in places.values() for queue in queues])
    for one, queues in places.items():
        found = {queue: depths[queue] for queue in queues if depths.get(queue)}
        if found:
            told = ", ".join(f"{count} in {queue}" for queue, count in found.items())
            yield Complaint(
                "partitions",
                f"{one.group} has {one.partitions} partitions, and senders that declare more: nobody works {told}",
                f"give all senders {one.partitions}; what lies there is worked when the group has {one.once} again: "
                f"once the rest of {one.group} is empty, `smena partition resize {one.group} {one.once}`",
            )


def _beyond(one: Outgrown, prefix: str) -> list[str]:
    return [names.work_queue(prefix, names.address(one.group, number)) for number in range(one.partitions, one.once)]
