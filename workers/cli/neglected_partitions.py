"""What `smena doctor` says of partitions that nobody works, though no error tells of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Final

from sharding import neglect
from sharding.neglect import Deserted, Size, Unowned
from smena.amqp import names
from smena.settings import Settings
from smena.store.database import Database
from workers.broker.depths import depths_once
from workers.cli.complaint import Complaint

_LEASES: Final = 2
"""Leases that a partition may be without an owner: one that the dead one had, one for those who look."""


def neglected_partitions(database: Database, settings: Settings) -> Iterator[Complaint]:
    """Look into the groups' rows, and into the broker: for partitions of no member, and beyond the last."""
    silent_s = _LEASES * settings.partitions.lease_s
    with closing(database.connect()) as session:
        unowned = neglect.unowned(session, silent_s)
        deserted = neglect.deserted(session, silent_s)
        sizes = neglect.sizes(session)
    yield from (_unowned(one) for one in unowned)
    if deserted:
        yield from _waiting(deserted, settings)
    if sizes:
        yield from _stray(list(sizes.values()), settings)


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


def _stray(sizes: list[Size], settings: Settings) -> Iterator[Complaint]:
    """Tell of messages in partitions that their group has not."""
    prefix = settings.amqp.prefix
    places = {one: _queues(one.group, range(one.partitions, one.looked_at), prefix) for one in sizes}
    depths = depths_once(settings.amqp, [queue for queues in places.values() for queue in queues])
    for one, queues in places.items():
        found = {number: count for number, queue in enumerate(queues, one.partitions) if (count := depths.get(queue))}
        if found:
            yield beyond(one, found, prefix)


def beyond(one: Size, found: Mapping[int, int], prefix: str) -> Complaint:
    """Return the complaint of messages, by partition, that senders put beyond the group's last."""
    queues = _queues(one.group, found, prefix)
    told = ", ".join(f"{count} in {queue}" for queue, count in zip(queues, found.values(), strict=True))
    last = max(found)
    number, example = (one.once, one.once) if last < one.once else (f"that of those senders, at least {last + 1}", "N")
    return Complaint(
        "partitions",
        f"{one.group} has {one.partitions} partitions, and senders that declare more: nobody works {told}",
        f"give all senders {one.partitions} (`partitions=` of the actor, or of `keyed`); what lies there is worked "
        f"when the number of {one.group} is {number}: once the rest of it is empty, "
        f"`smena partition resize {one.group} {example}`",
    )


def _queues(group: str, partitions: Iterable[int], prefix: str) -> list[str]:
    return [names.work_queue(prefix, names.address(group, number)) for number in partitions]
