"""Take the deliveries of one channel out of the stream and hand them over, read by read.

A reception is of one channel and ends with it, as its tags do: nothing of an older channel is carried on.
"""

from __future__ import annotations

from collections.abc import Callable

from smena.clock import Clock
from smena.telemetry import events
from workers.broker.delivery import Delivery, Tags

Deliver = Callable[[list[Delivery]], object]


class Reception:
    """A sink of the tap. All methods belong to the link thread."""

    def __init__(self, tags: Tags, deliver: Deliver, clock: Clock) -> None:
        self.tags = tags
        self._deliver = deliver
        self._now = clock.monotonic
        self._names: dict[bytes, str] = {}
        self._batch: list[Delivery] = []
        self._read_at_s = 0.0

    def expect(self, consumer_tag: str, name: str) -> None:
        """Know under which name the deliveries of a subscription go."""
        self._names[consumer_tag.encode()] = name

    def expect_no_more(self, consumer_tag: str) -> None:
        """Know that a subscription has ended; until now what was under way had a name."""
        self._names.pop(consumer_tag.encode(), None)

    def expects_any(self) -> bool:
        """Say whether deliveries may still come."""
        return bool(self._names)

    def delivered(
        self, consumer_tag: bytes, tag: int, redelivered: bool, address: bytes, header: bytes, body: bytes
    ) -> None:
        """Note a message until the read ends."""
        tags = self.tags
        tags.lent(tag)
        name = self._names.get(consumer_tag)
        if name is None:
            tags.settle(-tag)
            return
        if not self._batch:
            self._read_at_s = self._now()
        self._batch.append(Delivery(name, body, redelivered, self._read_at_s, header, address, tags, tag))

    def confirmed(self, tag: int, multiple: bool, positive: bool) -> None:
        """Never called: nothing is published on this channel."""

    def read_ends(self) -> None:
        """Hand over what the read gave."""
        if self._batch:
            batch, self._batch = self._batch, []
            try:
                self._deliver(batch)
            except Exception as error:  # noqa: BLE001  (the seam: a bug must not cost the connection all it holds)
                events.loop_failed("consumer", error)  # the batch stays unacked: no loss, and no hot loop
