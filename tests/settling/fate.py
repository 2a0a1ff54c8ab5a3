"""Strike between any two steps of the code that settles: the steps are found by a trace, not listed by hand.

While `Fate.watching`, every line of the files in `ROOM` is a fault point: an armed fault strikes before the line runs.
An *effect* is what the world outside the process sees: frames to the broker, a question to PostgreSQL. Two effects
without a fault point between them, or a file on the way that is neither in `ROOM` nor excused in `BESIDE`, end up in
`gaps`, and the tests fail.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]

ROOM: Final = frozenset(
    {
        "smena/amqp/lane.py",
        "smena/amqp/outgoing.py",
        "smena/amqp/publisher.py",
        "smena/amqp/publishing_channel.py",
        "smena/guarantees/once.py",
        "smena/outbox/adding.py",
        "smena/publishing.py",
        "smena/records/once_keys.py",
        "smena/records/settlements.py",
        "smena/store/database.py",
        "smena/store/held.py",
        "smena/store/lanes.py",
        "workers/broker/consumer.py",
        "workers/broker/delivery.py",
        "workers/broker/reception.py",
        "workers/execution/admission.py",
        "workers/execution/intake.py",
        "workers/execution/nextmessage.py",
        "workers/execution/pending.py",
        "workers/execution/recall.py",
        "workers/execution/seat.py",
        "workers/execution/settler.py",
        "workers/execution/waiting_room.py",
        "workers/middleware/actor.py",
        "workers/middleware/once.py",
        "workers/middleware/settle.py",
    }
)
"""Where the steps are: whatever makes something durable, or tells the broker of it, passes here."""

BESIDE: Final = {
    "smena/amqp/": "bytes and names, pure; the socket's side is the test's own",
    "smena/backoff.py": "pure",
    "smena/book/": "describes actors; sending from a job goes through smena/publishing.py",
    "smena/broker.py": "binds actors",
    "smena/clock.py": "pure",
    "smena/context.py": "holds the job's session; the once ring opens and commits it",
    "smena/delay.py": "pure",
    "smena/errors.py": "pure",
    "smena/job.py": "pure",
    "smena/lifecycle.py": "the loops' threads, which the test turns by hand",
    "smena/queue_name.py": "pure",
    "smena/records/asked.py": "words of a statement, pure",
    "smena/outbox/": "columns and words of a row; adding.py writes it",
    "smena/settings/": "values",
    "smena/store/": "translation and escapes, pure; the ways to the server are in the room",
    "smena/telemetry/": "observers, which fail open",
    "workers/broker/": "values; what settles is in the room",
    "workers/middleware/": "judging and arguments, pure; what settles is in the room",
}
"""The rest of the way, by what a path begins with, each with the reason why nothing in it is a step."""

Strike = Callable[[], None]


class Death(BaseException):
    """The process ends at this line."""


class Record:
    """What was seen on the way, by all processes of a world."""

    def __init__(self) -> None:
        self.gaps: set[str] = set()
        self.struck: set[str] = set()
        """Where faults struck, as ``file:line``."""


class Fate:
    """Count the fault points of one process down, and strike at the last."""

    def __init__(self, record: Record) -> None:
        self.points = 0
        """How many fault points were passed."""
        self.steps: dict[str, int] = {}
        """Each line that was passed, with the number of the point at which it was first."""
        self._record = record
        self._left = 0
        self._strike: Strike | None = None
        self._bare = ""
        self._kinds: dict[str, str | None] = {}

    def arm(self, after: int, strike: Strike) -> None:
        """Let ``strike`` be called at the fault point after so many more; it may raise."""
        self._left, self._strike = after, strike

    def disarm(self) -> None:
        """Let nothing strike."""
        self._strike = None

    def effect(self, name: str) -> None:
        """Know of an effect; from the test's own ends of the wires."""
        if sys.gettrace() is None:
            return
        if self._bare:
            self._record.gaps.add(f"no fault point between {self._bare!r} and {name!r}")
        self._bare = name

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch what this thread runs in the block."""
        before = sys.gettrace()
        self._bare = ""
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, _event: str, _arg: Any) -> Callable[..., Any] | None:
        try:
            kind = self._kinds[frame.f_code.co_filename]
        except KeyError:
            kind = self._kinds[frame.f_code.co_filename] = self._kind(frame.f_code.co_filename)
        return None if kind is None else self._line

    def _line(self, frame: FrameType, event: str, _arg: Any) -> Callable[..., Any]:
        if event == "line":
            place = f"{self._kinds[frame.f_code.co_filename]}:{frame.f_lineno}"
            self.steps.setdefault(place, self.points)
            self.points += 1
            self._bare = ""
            if self._strike is not None:
                self._left -= 1
                if self._left < 0:
                    self._record.struck.add(place)
                    strike, self._strike = self._strike, None
                    strike()
        return self._line

    def _kind(self, filename: str) -> str | None:
        """Return the file's place in the tree if its lines are fault points."""
        if not filename.startswith(f"{ROOT}/"):
            return None
        place = filename.removeprefix(f"{ROOT}/")
        if place in ROOM:
            return place
        if place.startswith(("smena/", "workers/")) and not any(place.startswith(one) for one in BESIDE):
            self._record.gaps.add(f"{place} takes part in settling, and is neither in ROOM nor in BESIDE")
        return None
