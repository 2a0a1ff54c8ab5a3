"""What `smena doctor` says of queues with messages that nobody consumes.

The queues of the loaded books and `worker.queues` are known, and where the management API answers all others of the
prefix. How they stand the broker is asked over AMQP: the API's figures are some seconds old. Partitions of a group
are left to `neglected_partitions`: there a member consumes what it owns, and a hand-over takes a moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from time import sleep
from typing import Final, NamedTuple

import click

from sharding import neglect
from sharding.neglect import Size
from smena.amqp import names
from smena.book import load_books
from smena.errors import Misconfigured
from smena.settings import Settings
from smena.settings.groups import Amqp
from smena.store.database import Database
from workers.broker import management as api
from workers.broker.depths import stands_once
from workers.broker.topology_check import vhost_of
from workers.cli.complaint import Complaint
from workers.cli.neglected_partitions import beyond

_AGAIN_S: Final = 2.0
"""Consumers come and go when a prefetch changes or a fleet is reloaded: only who has none twice has none."""


class _Known(NamedTuple):
    """The logical queues that workers and archivists of these settings take, and all places beside them."""

    queues: frozenset[str]
    places: frozenset[str]


def unserved_queues(database: Database, settings: Settings, management: str | None) -> Iterator[Complaint]:
    """Look at the known queues, and at those that only the broker knows; raise `BrokerLost` and `Misconfigured`."""
    prefix = settings.amqp.prefix
    known = _known(settings, management)
    work = {names.work_queue(prefix, place): names.parts(place)[0] for place in known.places}
    dead = {names.dead_queue(prefix, place): names.parts(place)[0] for place in known.places}
    lost = names.lost_queue(prefix)
    sizes = _sizes(database)
    for queue in _left_to_its_group(sizes, prefix, known.places):
        work.pop(queue, None)
    waiting = _unserved(settings.amqp, [*work, *dead, lost])
    for size in sizes.values():
        far = {number: waiting.pop(name) for number, name in _far(size, prefix, known.places) if name in waiting}
        if far:
            yield beyond(size, far, prefix)
    for queue in sorted(set(work.values())):
        found = {name: ready for name, ready in waiting.items() if work.get(name) == queue}
        if found:
            way = _to_workers(queue) if queue in known.queues else _to_senders(queue)
            yield Complaint("queue", _has_no_consumer(found), way)
    for name, queue in dead.items():
        if name in waiting:
            yield Complaint("dead letters", _has_no_consumer({name: waiting[name]}), _to_archivists(queue, known))
    if lost in waiting:
        way = "start an archivist (`smena archivist`, or `smena up`): it sends on what ended its delay without a target"
        yield Complaint("lost messages", _has_no_consumer({lost: waiting[lost]}), way)


def _known(settings: Settings, management: str | None) -> _Known:
    registry = load_books(settings.books)
    queues = {*registry.queues(), *settings.worker.queues}
    places = names.addresses(sorted(queues), registry.partitions)
    return _Known(frozenset(queues), frozenset([*places, *_on_broker(settings.amqp, management)]))


def _on_broker(settings: Amqp, management: str | None) -> Iterator[str]:
    """Yield the queues and partitions of the prefix that the broker has, by the management API's word."""
    address = management or api.address_of(settings)
    found = api.queue_names(address, vhost_of(settings))
    if found is None:
        told = f"no management API answers at {api.place(address)}, or not this login: only the books' queues were seen"
        click.echo(f"{told}; --management, or amqp.management_url, names another", err=True)
    first = f"{settings.prefix}."
    for name in found or ():
        if name.startswith(first):
            place = name.removeprefix(first).removesuffix(".dead")
            try:
                yield names.check_address(place)
            except Misconfigured:
                continue  # a delay level, or one of Smena's own


def _sizes(database: Database) -> dict[str, Size]:
    with closing(database.connect()) as session:
        return neglect.sizes(session)


def _left_to_its_group(sizes: Mapping[str, Size], prefix: str, places: Iterable[str]) -> set[str]:
    """Return the partitions of which `neglected_partitions` speaks where something is amiss."""
    return {
        names.work_queue(prefix, place)
        for place in places
        if (number := names.parts(place)[1]) is not None
        and (size := sizes.get(names.parts(place)[0])) is not None
        and number < size.looked_at
    }


def _far(size: Size, prefix: str, places: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield number and queue of the group's partitions that are too far from its last for a look by name."""
    for place in sorted(places):
        queue, number = names.parts(place)
        if queue == size.group and number is not None and number >= size.looked_at:
            yield number, names.work_queue(prefix, place)


def _unserved(settings: Amqp, queues: Iterable[str]) -> dict[str, int]:
    """Return the ready messages of each queue that has some and no consumer, now and a moment later."""
    found = _without_consumer(settings, queues)
    if not found:
        return found
    sleep(_AGAIN_S)
    return _without_consumer(settings, found)


def _without_consumer(settings: Amqp, queues: Iterable[str]) -> dict[str, int]:
    stands = stands_once(settings, list(queues))
    return {queue: stand.ready for queue, stand in stands.items() if stand.ready and not stand.consumers}


def _has_no_consumer(waiting: Mapping[str, int]) -> str:
    told = ", ".join(f"{name} holds {ready}" for name, ready in sorted(waiting.items()))
    return f"{told} message{'' if list(waiting.values()) == [1] else 's'}, and has no consumer"


def _to_workers(queue: str) -> str:
    return (
        f"start workers that take {queue} (`smena worker`, or `smena up`; SMENA_WORKER_QUEUES, if set, must name it), "
        "or resume those that are paused"
    )


def _to_senders(queue: str) -> str:
    return (
        f"no book that is loaded here has {queue}: if a sender mistyped it (`by_name(…, queue=…)`), put it right "
        "there; what lies there is worked by workers that load a book with an actor on that queue"
    )


def _to_archivists(queue: str, known: _Known) -> str:
    if queue in known.queues:
        return "start an archivist (`smena archivist`, or `smena up`); it makes rows of them for `smena dead list`"
    return f"no archivist with these books takes them: start one with SMENA_WORKER_QUEUES={queue}, or with its book"
