"""Say how the jobs of an ordered actor are cut into partitions.

The author writes ``partition_by=lambda move: move.sku``. Jobs of one key run one after the other, in the order of their
sending; those of different keys know no order. The sender computes key and partition, so that the broker never has to.
"""

from __future__ import annotations

from dataclasses import dataclass
from inspect import Signature
from typing import Any, Final, Literal, TypeAlias, get_args

from smena.book import values
from smena.book.key_rule import KeyFunction, KeyRule
from smena.errors import InvalidArguments, Misdeclared, Misused, Unsendable
from smena.job import Job
from smena.keyspace import MOST_PARTITIONS, partition_of

OnDead: TypeAlias = Literal["block", "skip"]
"""What follows the death of a key's job: its key waits for an operator, or goes on without it."""

LONGEST_KEY: Final = 255
"""Characters; the key travels in a header, and names a row."""


@dataclass(frozen=True, slots=True)
class Partitioning:
    """What the author said. ``partitions`` is fixed for the queue's life, but for the command that changes it."""

    key: KeyFunction
    partitions: int = 32
    on_dead: OnDead = "block"


def read_partitioning(
    partition_by: KeyFunction | None, partitions: int | None, on_dead: OnDead | None
) -> Partitioning | None:
    """Return what an author said, None where nothing; raise `Misdeclared` for half of it."""
    if partition_by is None:
        if partitions is not None or on_dead is not None:
            raise Misdeclared("`partitions` and `on_dead` say how `partition_by` works, which is not given")
        return None
    said = {name: value for name, value in (("partitions", partitions), ("on_dead", on_dead)) if value is not None}
    return Partitioning(partition_by, **said)  # type: ignore[arg-type]  # what they may be is checked with the function


class PartitionRule:
    """Place jobs by their key."""

    __slots__ = ("_key", "actor_place", "count", "on_dead")

    def __init__(self, said: Partitioning, signature: Signature, place: str) -> None:
        if type(said.partitions) is not int or not 1 <= said.partitions <= MOST_PARTITIONS:
            raise Misdeclared(f"`partitions` is a number from 1 to {MOST_PARTITIONS}", place=place)
        if said.on_dead not in get_args(OnDead):
            raise Misdeclared("`on_dead` is 'block' or 'skip'", place=place)
        self._key = KeyRule("partition_by", said.key, signature, place)
        self.count = said.partitions
        self.on_dead = said.on_dead
        self.actor_place = place

    def placed(self, job: Job, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job:
        """Return the job with key and partition; raises `InvalidArguments` where checked arguments give no key."""
        try:
            key = self._key(*args, **kwargs)
        except TypeError as error:
            raise InvalidArguments(str(error), actor=job.actor) from error
        if key is None:
            raise InvalidArguments("`partition_by` gave no key for these arguments", actor=job.actor)
        return in_partition(job, key, self.count)


def in_partition(job: Job, key: str | int, partitions: int) -> Job:
    """Return the job as one of this key; raises `Unsendable` for a key that cannot travel."""
    try:
        text = text_of(key)
    except Unsendable as error:
        raise Unsendable(error.detail, **error.facts, actor=job.actor) from error
    return job.replace(partition_key=text, partition=partition_of(text, partitions))


def text_of(key: object) -> str:
    """Return a key as it travels; raises `Unsendable` for what is none: a float or a bool has no one spelling."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise Unsendable(f"a key is text or a whole number, not {type(key).__name__}")
    try:
        text = str(key)
    except ValueError:  # Python's own bound on digits
        text = ""
    if not 0 < len(text) <= LONGEST_KEY:
        raise Unsendable(f"a partition key has 1 to {LONGEST_KEY} characters")
    values.check(text, "the partition key")
    return text


def refuse_count(partitions: object) -> None:
    """Raise `Misused` unless that is a number of partitions."""
    if type(partitions) is not int or not 1 <= partitions <= MOST_PARTITIONS:
        raise Misused(f"`partitions` is a number from 1 to {MOST_PARTITIONS}", partitions=partitions)
