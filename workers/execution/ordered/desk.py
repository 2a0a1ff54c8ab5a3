"""Work one partition while it is ours.

What comes from the broker is sorted into lines (`lines.py`), what may run is handed to the rings, and what they decide
is collected here until the keeper has written it (`keeper.py`). Only then is a message acked; so whatever is not acked
when this process ends is decided anew by the next owner.

A partition is given up in steps: nothing starts any more, what runs is finished, the broker sends nothing more, and
what is in hand is written into rows, from which the next owner goes on. It does not go back to the broker, which may
hand out later messages before it has them again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from smena.amqp import codec
from smena.errors import IdReused, Misplaced, SmenaError, Undecodable
from smena.keyspace import partition_of
from smena.records.held_keys import Message, Parked, Place, Waiting, Written
from smena.records.turns import Turn
from workers.broker.delivery import Delivery
from workers.execution.intake import stranger
from workers.execution.ordered.draft import Draft
from workers.execution.ordered.floor import Floor
from workers.execution.ordered.item import Item, lent_item, message_of, parked_item
from workers.execution.ordered.lines import NEVER, Lines
from workers.execution.pending import Pending
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import Dead, Retry, Snooze

RETURNED_PAUSE_S: Final = 1.0
"""How long a job waits that was given back while the partition stays ours."""


class Desk:
    """One partition; for all threads."""

    def __init__(self, place: Place, partitions: int, floor: Floor) -> None:
        self.place = place
        self.alive = True
        self._partitions = partitions
        self._floor = floor
        self._lock = threading.Lock()
        self._lines = Lines()
        self._draft = Draft()
        self._is_writing = False
        self._parked = 0
        self._is_full = False
        self._closed: Callable[[], None] | None = None
        self._is_silencing = self._is_silent = False

    # --- from the broker, on the link thread ----------------------------------------------------

    def deliver(self, deliveries: list[Delivery]) -> None:
        """Take messages, in the order of the queue."""
        for delivery in deliveries:
            item = self._item(delivery)
            if item is None:
                continue
            with self._lock:
                ready = self._lines.arrive(item) if self.alive else None
                is_behind = bool(self._lines.behind)
            if ready is not None:
                self._start(ready)
            if is_behind:
                self._floor.cue()

    def channel_lost(self) -> None:
        """Forget what has not started: it comes again, on the next channel.

        That of a partition that is given up is kept: it goes to the next owner in rows; what comes again is a copy.
        """
        with self._lock:
            if self._closed is None:
                self._lines.forget_lent()

    def _item(self, delivery: Delivery) -> Item | None:
        """Return what lies in its key's partition; settle what does not belong here."""
        try:
            job = codec.decode(delivery.body, delivery.properties, delivery.queue)
        except Undecodable as error:
            self._floor.settles.settle_raw(delivery, Dead(error.code, error))
            return None
        key, actor = job.partition_key, self._floor.actors.get(job.actor)
        is_ours = key is not None and partition_of(key, self._partitions) == self.place.partition
        if key is None or not is_ours or (actor is not None and actor.partitions is None):
            misplaced = Misplaced(actor=job.actor, queue=delivery.queue)
            self._floor.settles.settle_job(delivery, job, Dead(Misplaced.code, misplaced))
            return None
        return lent_item(delivery, job, key)

    # --- from the rings, on any thread ----------------------------------------------------------

    def settle(self, attempt: Attempt, outcome: Retry | Snooze | Dead) -> None:
        """Take over a job that did not take effect."""
        with self._lock:
            item = self._lines.running(attempt.job.partition_key or "")
        if item is not None and item.job.id == attempt.job.id:
            self._decide(item, attempt.delivery, outcome)

    def settled(self, item: Item, tag: int) -> None:
        """Hear of an item's ack, or of its return."""
        if tag > 0:
            item.ack()
        with self._lock:
            ready = None
            if tag > 0:
                ready = self._lines.is_over(item)
            else:
                self._lines.returned(item, self._floor.clock.monotonic() + RETURNED_PAUSE_S)
            must_wake = bool(self._lines.over) or tag < 0 or self._closed is not None
        if ready is not None:
            self._start(ready)
        if must_wake:
            self._floor.cue()

    def _start(self, item: Item) -> None:
        job, actor = item.job, self._floor.actors.get(item.job.actor)
        delivery = item.delivery(self, self._floor.clock.monotonic())
        if actor is None:
            self._decide(item, delivery, stranger(job, self._floor.most_snoozes))
            return
        row = None if item.parked is None else item.parked.seq
        self._floor.admit(Attempt(delivery, job, actor, Turn(self.place.term, row, self._floor.idle_s)))

    def _decide(self, item: Item, delivery: Delivery, outcome: Retry | Snooze | Dead) -> None:
        actor = self._floor.actors.get(item.job.actor)
        on_dead = "block" if actor is None or actor.partitions is None else actor.partitions.on_dead
        decided = self._floor.decisions.of(item, delivery, outcome, on_dead)
        with self._lock:
            if not self.alive:
                return
            if isinstance(decided, Pending):
                self._draft.deaths.append((item, decided))
            elif self._lines.hold(item):
                self._draft.holds.append((item, decided))
        self._floor.cue()

    # --- for the keeper -------------------------------------------------------------------------

    def load(self, waiting: Sequence[Waiting], parked: int) -> None:
        """Take over what a former owner left."""
        with self._lock:
            self._parked = parked
            self._lines.load(waiting, self._floor.clock.monotonic())

    def take(self) -> Draft:
        """Return what is to be written now, and start what was returned and is due; `written` or `failed` follows."""
        with self._lock:
            draft, self._draft = self._draft, Draft()
            looks, ready = self._lines.due(self._floor.clock.monotonic())
            draft.looks += looks
            behind, self._lines.behind = self._lines.behind, []
            draft.over, self._lines.over = [*draft.over, *self._lines.over], []
            handed_over = self._hand_over()
            self._is_writing = bool(draft or behind or handed_over)
        for item in ready:
            self._start(item)
        for item in behind:
            self._park(item, draft)
        for item in handed_over:
            if (message := self._park(item, draft)) is not None:
                draft.handed_over.setdefault(item.key, message)
        return draft

    def _hand_over(self) -> list[Item]:
        """Return what the next owner is to go on with, when nothing runs here and nothing more can come."""
        if self._closed is None or not self._is_silent or self._lines.count_running():
            return []
        return self._lines.hand_over()

    def _park(self, item: Item, draft: Draft) -> Message | None:
        try:
            message = message_of(item.job)
        except SmenaError as error:
            if item.lent is not None:
                self._floor.settles.settle_job(item.lent, item.job, Dead(error.code, error))
            return None
        draft.behind.append((item, message))
        return message

    def written(self, draft: Draft, written: Written) -> None:
        """Go on from what is durable now."""
        now_s = self._floor.clock.monotonic()
        ready: list[Item] = []
        with self._lock:
            for item, hold in draft.holds:
                self._lines.held(item, NEVER if hold.wait_s is None else now_s + hold.wait_s)
            for key, parked in written.heads.items():
                head = None if parked is None else self._head(parked)
                found = self._lines.found(key, head)
                if found is not None:
                    ready.append(found)
            self._parked += written.parked - len(draft.over)
            self._is_writing = False
        for item, _hold in draft.holds:
            item.ack()
        for item, _message in draft.behind:
            self._ack_parked(item, written.copies.get(item.job.id))
        for _item, pending in draft.deaths:
            pending.written = True
            self._floor.publish(pending)
        for item in ready:
            self._start(item)
        self.hold_when_full()

    def failed(self, draft: Draft) -> None:
        """Keep what could not be written for the next time."""
        with self._lock:
            self._draft = draft.then(self._draft)
            self._is_writing = False

    def release(self, keys: Sequence[str]) -> bool:
        """Let those of these keys go on that are held here; say whether any is."""
        with self._lock:
            now_s = self._floor.clock.monotonic()
            return bool([key for key in keys if self._lines.release(key, now_s)])

    def recount(self, parked: int) -> None:
        """Know how many jobs are parked: an operator may have taken some away."""
        with self._lock:
            self._parked = parked
        self.hold_when_full()

    def _head(self, parked: Parked) -> Item:
        key, place = parked.message.key, self.place
        return parked_item(parked, place.queue, place.partition, may_have_run=self._lines.is_inherited(key))

    def _ack_parked(self, item: Item, kept: bytes | None) -> None:
        if kept is not None and codec.holds_another_job(kept, item.job) and item.lent is not None:
            self._floor.settles.settle_job(item.lent, item.job, Dead(IdReused.code, IdReused(job=item.job.id)))
        else:
            item.ack()

    def hold_when_full(self) -> None:
        """Stop consuming at the bound of parked jobs, go on at half of it."""
        place = self.place
        with self._lock:
            was_full = self._is_full
            most = self._floor.most_parked
            self._is_full = self._parked > most // 2 if was_full else self._parked >= most
            changed = self._is_full != was_full
        if changed:
            self._floor.consumer.hold(place.queue, place.partition, holding=self._is_full)

    # --- the end --------------------------------------------------------------------------------

    def stop_starting(self) -> int:
        """Let nothing start any more; return how many jobs in hand have not."""
        with self._lock:
            self._lines.is_closing = True
            return self._lines.count_waiting()

    def close(self, done: Callable[[], None]) -> None:
        """Let go of the partition when what runs is settled and the rest is in rows; then call ``done``."""
        with self._lock:
            self._lines.is_closing = True
            self._closed = done
        self._floor.cue()

    def silence(self) -> None:
        """Have nothing more come once the partition is to be let go; for the keeper, so that it follows the opening."""
        with self._lock:
            if self._closed is None or self._is_silencing:
                return
            self._is_silencing = True
        self._floor.consumer.silence(self.place.queue, self.place.partition, self._hear_silence)

    def _hear_silence(self) -> None:
        with self._lock:
            self._is_silent = True
        self._floor.cue()

    def leaves(self) -> Callable[[], None] | None:
        """Return what to call when the channel is closed, once and as soon as nothing is to be done any more."""
        with self._lock:
            busy = self._lines.count_running() or self._is_writing or self._draft or self._lines.over
            if self._closed is None or not self._is_silent or busy or self._lines.count_waiting():
                return None
            done, self._closed = self._closed, None
            return done

    def lose(self) -> None:
        """Stop at once: the partition may be another's."""
        with self._lock:
            self.alive = False
            self._lines.clear()
            self._draft = Draft()

    # --- to be looked at ------------------------------------------------------------------------

    def next_due_s(self) -> float:
        """Return when the next key is due."""
        with self._lock:
            return NEVER if self._lines.is_closing else self._lines.next_due_s()

    def look(self, crowd: int) -> tuple[int, int, dict[str, int]]:
        """Return held keys, parked jobs, and crowded keys with their jobs in hand."""
        with self._lock:
            return self._lines.count_held(), self._parked, self._lines.crowded(crowd)

    def blocked(self) -> int:
        """Return how many keys only an operator lets go on."""
        with self._lock:
            return self._lines.count_blocked()

    def waiting(self) -> int:
        """Return how many jobs in hand have not started."""
        with self._lock:
            return self._lines.count_waiting()
