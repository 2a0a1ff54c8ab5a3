"""Hold one job of a key in this process: lent by the broker, or read from the row in which it waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec

from smena.amqp import codec, names
from smena.amqp.properties import Properties, encode_properties
from smena.job import Job
from smena.records.held_keys import Message, Parked
from workers.broker.delivery import Delivery


class Owner(Protocol):
    """Who gave an item to be run."""

    @property
    def alive(self) -> bool:
        """Whether its settle still means anything: its partition is still ours."""

    def settled(self, item: Item, tag: int) -> None:
        """Hear of an ack, or of a return if the number is negative; on any thread."""


@dataclass(eq=False, slots=True)
class Item:
    """A job with what carries it: exactly one of ``lent`` and ``parked``.

    ``may_have_run`` says that some process may have had it running before. Told from others by identity.
    """

    key: str
    job: Job
    lent: Delivery | None = None
    parked: Parked | None = None
    may_have_run: bool = False

    @property
    def comes_again(self) -> bool:
        """Whether the broker hands it out again, for its channel is gone."""
        return self.lent is not None and not self.lent.alive()

    def again(self) -> Item:
        """Return it as it is to be run once more."""
        return Item(self.key, self.job, self.lent, self.parked, may_have_run=True)

    def ack(self) -> None:
        """Tell the broker that it is settled, if it is the broker's."""
        if self.lent is not None:
            self.lent.ack()

    def delivery(self, owner: Owner, now_s: float) -> Delivery:
        """Return what the rings are to settle; the owner hears of it.

        It is as good when the channel is lost: nobody else runs the job while the partition is ours, so it may end
        here, and its copy finds that it has.
        """
        ledger = Ledger(self, owner)
        if self.lent is not None:
            lent = self.lent
            return Delivery(lent.queue, lent.body, self.may_have_run, lent.received_at, lent.header, b"\0\0", ledger, 1)
        assert self.parked is not None, "an item is lent or parked"  # noqa: S101
        message = self.parked.message
        queue = names.address(self.job.queue, self.job.partition)
        return Delivery(queue, message.body, self.may_have_run, now_s, header_of(message), b"\0\0", ledger, 1)


class Ledger:
    """Where an item's settle is noted."""

    __slots__ = ("_item", "_owner")

    def __init__(self, item: Item, owner: Owner) -> None:
        self._item = item
        self._owner = owner

    @property
    def alive(self) -> bool:
        """Whether a settle still means anything."""
        return self._owner.alive

    def settle(self, tag: int) -> None:
        """Note an ack, or a return if the number is negative."""
        self._owner.settled(self._item, tag)


def lent_item(delivery: Delivery, job: Job, key: str) -> Item:
    """Return the item of a delivery."""
    return Item(key, job, lent=delivery, may_have_run=delivery.redelivered)


def parked_item(parked: Parked, queue: str, partition: int, *, may_have_run: bool) -> Item:
    """Return the item of a parked row."""
    message = parked.message
    properties = msgspec.convert(message.properties, Properties)
    job = codec.decode(message.body, properties, names.address(queue, partition))
    return Item(message.key, job, parked=parked, may_have_run=may_have_run)


def message_of(job: Job) -> Message:
    """Return a job as its row keeps it; raises `Unsendable` for what cannot travel."""
    wire = codec.encode(job)
    encode_properties(wire.properties)
    properties = msgspec.to_builtins(wire.properties)
    key = job.partition_key or ""
    return Message(key, job.id, job.actor, job.attempt, job.snoozes, wire.body, properties)


def header_of(message: Message) -> bytes:
    """Return a row's properties as they lie on the wire."""
    return encode_properties(msgspec.convert(message.properties, Properties)).with_entry(b"")
