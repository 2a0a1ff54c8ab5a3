"""The world that the machine acts on: two processes, broker and database, and what must hold of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import psycopg

from smena.amqp import codec, names
from smena.amqp.properties import Properties, decode_properties, encode_properties
from smena.clock import MovedClock
from smena.settings.groups import Amqp
from tests.settling.book import follow
from tests.settling.broker import Broker, Kept
from tests.settling.fate import Death, Fate, Record
from tests.settling.line import Line
from tests.settling.process import QUEUE, Cable, CabledDatabase, Process

PREFIX = "settle"
ENDS = ("done", "dead")

STEP_S = 60.0
"""How long one step may take on a busy machine; most take a millisecond."""


class Broken(AssertionError):
    """What must hold does not."""


class Post:
    """A process and its ties to the world, which end with it."""

    def __init__(self, world: World) -> None:
        self.fate = Fate(world.record)
        self.cable = Cable(self.fate.effect)
        self.database = CabledDatabase(world.database_url, self.cable)
        self.consuming, self.publishing = self.lines = world.new_lines(self.fate)
        self.process = world.new_process(self)
        self.is_dead = False
        for line in self.lines:
            line.up()
            line.turn()

    def die(self, *, was_read: bool) -> None:
        """End at once: what was written may still reach the broker, nothing later does."""
        self.is_dead = self.cable.is_severed = True
        for line in self.lines:
            line.cut(was_read=was_read, for_ever=True)

    def close(self) -> None:
        """Let go of what the dead process held."""
        self.database.close()
        for line in self.lines:
            line.close()


class World:
    """See the module."""

    def __init__(self, database_url: str, view: psycopg.Connection[Any]) -> None:
        self.database_url = database_url
        self.clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.record = Record()
        self.broker = Broker(PREFIX, self.clock)
        self.broker.on_settled = self._judge_ack
        self.scripts: dict[str, str] = {}
        """Job id to what it must end in."""
        self.broken: list[str] = []
        self._done: set[str] = set()
        self._view = view
        self.posts = [Post(self) for _ in range(2)]

    def new_lines(self, fate: Fate) -> tuple[Line, Line]:
        """Make a process's connections: to consume, and to publish."""
        return Line(self.broker, self.clock, fate.effect), Line(self.broker, self.clock, fate.effect)

    def new_process(self, post: Post) -> Process:
        """Join a process on its ties."""
        return Process(Amqp(prefix=PREFIX), post.database, post.consuming, post.publishing, self.clock)

    # --- acting -----------------------------------------------------------------------------------

    def send(self, script: list[str], copies: int) -> str:
        """Have a job accepted; a sender that never saw the confirm has sent it twice."""
        job = follow.message("", script)
        job = job.replace(args=(job.id, script), timestamp_ms=self.clock.now_ms())
        wire = codec.encode(job)
        self._put(job.id, wire.body, wire.properties, script[-1], copies)
        return job.id

    def send_raw(self, number: int, copies: int = 1) -> None:
        """Have something accepted that is no job, or one that nobody knows."""
        job = follow.message("", ["done"]).replace(actor="settling.nobody", timestamp_ms=self.clock.now_ms())
        wire = codec.encode(job)
        body = wire.body if number else b"{" * 8
        self._put(job.id, body, wire.properties, "dead", copies)

    def _put(self, job_id: str, body: bytes, properties: Properties, end: str, copies: int) -> None:
        self.scripts[job_id] = end
        for _ in range(copies):
            queue = names.work_queue(PREFIX, QUEUE)
            self.broker.put(queue, encode_properties(properties).with_entry(b""), body)

    def step(self, number: int, act: Callable[[Post], object]) -> None:
        """Let a process make a step, and look whether all that must hold does; one that died is filled again."""
        post = self.posts[number]
        _on_a_thread_of_its_own(partial(_live, post, act))
        if post.is_dead:
            post.close()
            self.posts[number] = Post(self)
        self.check()

    def cycle(self, number: int) -> None:
        """Let a process do all there is for it to do now."""
        post = self.posts[number]
        post.consuming.take(16)
        self.step(number, lambda post: post.consuming.turn())
        self.step(number, lambda post: post.process.look_up())
        for _ in range(len(post.process.waiting)):
            self.step(number, lambda post: post.process.run(0))
        self.step(number, lambda post: post.process.settle())
        for _ in range(3):
            self.turn(number)

    def turn(self, number: int) -> None:
        """Let the link of a process turn, the broker read what was written, and the link read the answer."""
        for side in (1, 0):
            self.step(number, lambda post: post.lines[side].turn())  # noqa: B023 - called before the next round
            self.posts[number].lines[side].be_read()

    def pass_time(self, seconds: float) -> None:
        """Move the clock, and let go of what is due."""
        self.clock.advance(seconds)
        self.broker.wake()

    # --- judging ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `Broken` where a job is nowhere, was acked too early, or one attempt was settled in two ways."""
        held = Counter(message.job_id for message in self.broker.all())
        for job_id in self.scripts:
            if not held[job_id] and not self._is_done(job_id):
                self.broken.append(f"{job_id} is lost: neither with the broker nor done")
        if self.broken or self.record.gaps:
            raise Broken("; ".join((*self.broken, *sorted(self.record.gaps))))

    def check_end(self) -> None:
        """Raise `Broken` unless each job came to the one end it had to, and each attempt to one message."""
        self.check()
        dead = self.dead_letters()
        for job_id, end in self.scripts.items():
            ended = (self.effects(job_id), self.sent_on(job_id), len(dead.get(job_id, ())))
            if ended != ((1, 1, 0) if end == "done" else (0, 0, 1)):
                self.broken.append(f"{job_id} should be {end}; (effects, messages sent on, dead letters) are {ended}")
        self._check_successors()
        if self.broken:
            raise Broken("; ".join(self.broken))

    def dead_letters(self) -> dict[str, set[int | None]]:
        """Return the attempts that died, by job: one, however often its letter was sent."""
        dead: dict[str, set[int | None]] = {}
        for message in self.broker.dead():
            dead.setdefault(message.job_id, set()).add(message.attempt)
        return dead

    def _is_done(self, job_id: str) -> bool:
        """Say whether the job has taken effect; what is committed stays, so it is asked once."""
        if job_id not in self._done and self.effects(job_id):
            self._done.add(job_id)
        return job_id in self._done

    def effects(self, job_id: str) -> int:
        """Return how often the job took effect."""
        return self._count("SELECT count(*) FROM settled_effects WHERE key = %s", job_id)

    def sent_on(self, job_id: str) -> int:
        """Return how many messages it has sent on."""
        return self._count("SELECT count(*) FROM smena.outbox WHERE position(%s IN body) > 0", job_id.encode())

    def _count(self, query: str, value: object) -> int:
        row = self._view.execute(query.encode(), (value,)).fetchone()
        assert row is not None
        return int(row[0])

    def _judge_ack(self, message: Kept) -> None:
        """Know that a process acks a message now: what follows from it must be durable by now."""
        job_id = message.job_id
        is_kept = any(each.job_id == job_id and each is not message for each in self.broker.all())
        if not is_kept and not self._is_done(job_id):
            self.broken.append(f"{job_id} was acked in {message.queue} before its next state was durable")

    def _check_successors(self) -> None:
        """See that an attempt is followed by one message, sent again or not: a second copy of it was dropped."""
        retries: dict[tuple[str, int | None], set[str]] = {}
        for message in self.broker.taken:
            if message.exchange and not _snoozes(message):
                retries.setdefault((message.job_id, message.attempt), set()).add(message.routing_key)
        for (job_id, attempt), ways in retries.items():
            if len(ways) > 1:
                self.broken.append(f"{job_id}: attempt {attempt} was made {len(ways)} times, by {sorted(ways)}")

    def heal(self) -> None:
        """End all faults, and let the fleet work until nothing is left to do."""
        self.broker.refusals = 0
        for post in self.posts:
            post.fate.disarm()
            post.cable.mend()
            for line in post.lines:
                line.block(blocked=False)
        for _ in range(200):
            self.pass_time(3.0)
            for number in range(2):
                self.cycle(number)
            if self._is_idle():
                return
        raise Broken("the fleet does not come to rest")

    def _is_idle(self) -> bool:
        open_ = [message for message in self.broker.all() if not message.queue.endswith(".dead")]
        return not open_ and not any(post.process.settler.waiting() for post in self.posts)

    def close(self) -> None:
        """End both processes."""
        for post in self.posts:
            post.die(was_read=False)
            post.close()


def _live(post: Post, act: Callable[[Post], object]) -> None:
    """Let a process act while faults may strike."""
    with suppress(Death), post.fate.watching():
        act(post)


def _on_a_thread_of_its_own(act: Callable[[], object]) -> None:
    """Act, and raise what comes of it.

    An exception that a trace raises in the middle of a handler can stay behind as the one that is being handled. It
    ends with the thread: so nothing of a process that died is seen by the next, or by the tests' own process.
    """
    failed: list[BaseException] = []

    def body() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    thread = threading.Thread(target=body, name="settling-process", daemon=True)
    thread.start()
    thread.join(STEP_S)
    if thread.is_alive():
        raise Broken(f"a step did not end within {STEP_S} s")
    if failed:
        raise failed[0]


def _snoozes(message: Kept) -> int:
    headers = decode_properties(message.header).headers or {}
    return int(headers.get("smena-snoozes", 0))
