"""What `smena doctor` says of partitions that nobody works, though no error tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

from sharding import neglect
from sharding.neglect import Deserted, Outgrown, Unowned
from smena.amqp import names
from smena.settings import Settings
from smena.store.database import Database
from workers.broker.depths import depths_once
from workers.cli.complaint import Complaint

_LEASES: Final = 2
"""Leases that a partition may be without an owner: one that the dead one had, one for those who look."""


def neglected_partitions(database: Database, settings: Settings) -> Iterator[Complaint]:
    """Look into the groups' rows, and into the broker where a group has no member, or had more partitions once."""
    silent_s = _LEASES * settings.partitions.lease_s
    with closing(database.connect()) as session:
        unowned = neglect.unowned(session, silent_s)
        deserted = neglect.deserted(session, silent_s)
        outgrown = neglect.outgrown(session)
    yield from (_unowned(one) for one in unowned)
    if deserted:
        yield from _waiting(deserted, settings)
    if outgrown:
        yield from _stray(outgrown, settings)


def _unowned(one: Unowned) -> Complaint:
    found = (
        f"{one.unowned} of the {one.partitions} partitions of {one.group} have no owner, though it has {one.members} "
        "member(s)"
    )
    way = (
        f"see in its workers' logs why they take nothing (event loop.failed); `smena partition owners {one.group}` "
        "shows which have no owner"
    )
    return Complaint("partitions", found, way)


def _waiting(deserted: list[Deserted], settings: Settings) -> Iterator[Complaint]:
    """Tell of messages in groups that have no member; one that declares another number is none."""
    prefix = settings.amqp.prefix
    places = {one: _queues(one.group, range(one.partitions), prefix) for one in deserted}
    depths = depths_once(settings.amqp, [queue for queues in places.values() for queue in queues])
    for one, queues in places.items():
        count = sum(depths.get(queue, 0) for queue in queues)
        if count:
            yield Complaint(
                "partitions",
                f"{count} messages wait in the partitions of {one.group}, and no worker is a member",
                f"start workers that declare {one.partitions} partitions; one that declares another number does not "
                "join (event partition.count_differs)",
            )


def _stray(outgrown: list[Outgrown], settings: Settings) -> Iterator[Complaint]:
    """Tell of messages in partitions that their group has no more."""
    places = {one: _queues(one.group, range(one.partitions, one.once), settings.amqp.prefix) for one in outgrown}
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


def _queues(group: str, partitions: range, prefix: str) -> list[str]:
    return [names.work_queue(prefix, names.address(group, number)) for number in partitions]
