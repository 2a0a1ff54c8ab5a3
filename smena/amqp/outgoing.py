"""Hold a message on its way to the broker, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from smena.amqp.properties import Encoded, Properties
from smena.errors import SmenaError

Outcomes = list[SmenaError | None]
"""One for each message, in order; None means confirmed."""


class Outgoing(msgspec.Struct, frozen=True):
    """A message with its address.

    ``declare`` is the logical queue (or partition) that is declared before the message is sent. ``any_size`` lifts the
    limit on the body, for what a broker has already held. An ``ordered`` one that is not taken over takes all behind
    it with it that are for the same queue: so the sender can send again from the first on.
    """

    exchange: str
    routing_key: str
    body: bytes
    properties: Properties
    declare: str | None = None
    any_size: bool = False
    ordered: bool = False


class Batch:
    """Messages that were handed over together; tells once, when each has its outcome.

    ``broken`` are the queues of which an ordered message was not taken; batches of one call share it.
    """

    __slots__ = ("_done", "_left", "broken", "outcomes")

    def __init__(self, size: int, done: Callable[[Outcomes], object], broken: set[str] | None = None) -> None:
        self.outcomes: Outcomes = [None] * size
        self.broken = set() if broken is None else broken
        self._left = size
        self._done = done

    def settled(self, index: int, error: SmenaError | None) -> None:
        """Note the outcome of one."""
        if error is not None:
            self.outcomes[index] = error
        self._left -= 1
        if not self._left:
            self._done(self.outcomes)

    def refused(self, errors: Iterable[tuple[int, SmenaError]]) -> None:
        """Note those that never left."""
        for index, error in errors:
            self.settled(index, error)


class Pending:
    """A message that was handed over and has no outcome yet; ``batch`` is None once it has."""

    __slots__ = ("batch", "deadline_s", "encoded", "index", "outgoing", "redeclared", "refused", "returned", "sent")

    def __init__(self, outgoing: Outgoing, encoded: Encoded, batch: Batch, index: int, deadline_s: float) -> None:
        self.outgoing = outgoing
        self.encoded = encoded
        self.batch: Batch | None = batch
        self.index = index
        self.deadline_s = deadline_s
        self.sent = False
        self.redeclared = False
        self.refused = False
        self.returned: SmenaError | None = None


class Unconfirmed:
    """What was sent on one channel and not answered, by the number the broker knows it by."""

    def __init__(self) -> None:
        self._by_tag: dict[int, Pending] = {}
        self._lowest = 1
        self._next = 1

    def __len__(self) -> int:
        return len(self._by_tag)

    def sent(self, pending: Pending) -> int:
        """Count the message as sent; return the number that the broker will know it by."""
        tag = self._next
        self._by_tag[tag] = pending
        self._next = tag + 1
        return tag

    def get(self, tag: int) -> Pending | None:
        """Return the message sent under that number."""
        return self._by_tag.get(tag)

    def answered(self, tag: int, *, multiple: bool) -> list[Pending]:
        """Take out what the broker's answer is about."""
        if not multiple:
            one = self._by_tag.pop(tag, None)
            return [] if one is None else [one]
        pop = self._by_tag.pop
        found = [pop(each) for each in range(self._lowest, tag + 1) if each in self._by_tag]
        self._lowest = tag + 1
        return found

    def take_all(self) -> list[Pending]:
        """Take out everything, in the order of sending."""
        left = list(self._by_tag.values())
        self._by_tag.clear()
        return left
