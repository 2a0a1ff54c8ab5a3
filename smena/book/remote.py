"""Send to an actor by its name, without its code."""

from __future__ import annotations

from typing import Any

from smena.book import values
from smena.book.address import Address
from smena.book.names import check_actor_name, check_queue_name
from smena.book.partitioning import in_partition, refuse_count
from smena.job import Job


class RemoteActor(Address[...]):
    """An actor whose code lives elsewhere; its arguments are checked only where it runs."""

    def __init__(self, name: str, queue: str) -> None:
        self.name = check_actor_name(name)
        self.queue = check_queue_name(queue)

    def keyed(self, key: str | int, *, partitions: int) -> KeyedActor:
        """Return where to send jobs of one key to, if the actor is an ordered one with so many partitions.

        >>> by_name("stock.move", queue="stock").keyed("85123A", partitions=32).message(7).partition_key
        '85123A'
        """
        return KeyedActor(self.name, self.queue, key, partitions)

    def __repr__(self) -> str:
        return f"by_name({self.name!r}, queue={self.queue!r})"

    def _travelling(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return plain_arguments(args, kwargs)


class KeyedActor(RemoteActor):
    """One key of an ordered actor whose code lives elsewhere."""

    def __init__(self, name: str, queue: str, key: str | int, partitions: int) -> None:
        super().__init__(name, queue)
        self._key = key
        refuse_count(partitions)
        self._partitions = partitions

    def message(self, *args: Any, **kwargs: Any) -> Job:
        """Make a job of this key without sending it."""
        return in_partition(super().message(*args, **kwargs), self._key, self._partitions)


def plain_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments as JSON values, by what they are; raise `Unsendable` with the path of what is none."""
    for name in kwargs:
        values.check(name, "a name")
    return (
        tuple(values.plain(value, f"argument {position}") for position, value in enumerate(args, 1)),
        {name: values.plain(value, name) for name, value in kwargs.items()},
    )


def by_name(name: str, *, queue: str = "default") -> RemoteActor:
    """Return where to send to an actor that this process does not import.

    >>> by_name("payments.charge", queue="payments").message(7).args
    (7,)
    """
    return RemoteActor(name, queue)
