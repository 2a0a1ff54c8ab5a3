"""The same world with RabbitMQ in it: real connections, whose link thread turns by itself.

What lies in the broker cannot be listed, so what must hold is looked at when the faults have ended.
"""

from __future__ import annotations

import threading
from typing import Any

import psycopg

from smena.amqp import names
from smena.amqp.link import Connection, LinkThread
from smena.amqp.outgoing import Outgoing
from smena.amqp.properties import Properties, encode_properties
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM, Deadline
from smena.lifecycle import Group
from smena.settings.groups import Amqp
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_broker import BrokerView
from tests.settling.broker import Kept
from tests.settling.fate import Fate
from tests.settling.machine import SettleMachine
from tests.settling.process import QUEUE, Process
from tests.settling.world import World


class RabbitLine:
    """A real connection in the place of `Line`: what the link thread does by itself is only waited for."""

    def __init__(self, amqp: Amqp) -> None:
        self.link = LinkThread("settling-link")
        self.connection = Connection(self.link, amqp, "settling")

    def up(self) -> None:
        """Connect."""
        self.link.start()
        self.connection.start()
        self.connection.wait_up(30)

    def turn(self) -> None:
        """Wait until the link has made what was posted."""
        turned = threading.Event()
        self.link.post(turned.set)
        turned.wait(30)

    def be_read(self) -> None:
        """Do nothing: the broker reads."""

    def take(self, most: int) -> None:
        """Do nothing: the broker delivers."""

    def block(self, *, blocked: bool) -> None:
        """Do nothing: an alarm is the whole broker's (see the drill `broker-alarm`)."""

    def cut(self, *, was_read: bool, for_ever: bool = False) -> None:  # noqa: ARG002 - what was read is not ours to say
        """Lose the connection; it comes up by itself."""
        if for_ever:
            self.connection.is_stopping = True
        self.link.post(self.connection.drop)

    def close(self) -> None:
        """End connection and thread."""
        deadline = Deadline.within(10, SYSTEM)
        self.connection.stop(deadline)
        self.link.stop(deadline)


class RabbitWorld(World):
    """See the module."""

    def __init__(self, amqp: Amqp, broker: BrokerView, database_url: str, view: psycopg.Connection[Any]) -> None:
        self._amqp = amqp
        self._rabbit = broker
        link = LinkThread("settling-sender")
        connection = Connection(link, amqp, "settling sender")
        self._sender = Publisher(connection, amqp, SYSTEM)
        self._sending = Group("sender", (link, connection, self._sender), lambda: Deadline.within(10, SYSTEM))
        self._sending.start()
        self._buried: dict[str, set[int | None]] = {}
        broker.knows(QUEUE)
        super().__init__(database_url, view)

    def new_lines(self, fate: Fate) -> Any:  # noqa: ARG002 - effects on real sockets are not seen
        """Make real connections."""
        return RabbitLine(self._amqp), RabbitLine(self._amqp)

    def new_process(self, post: Any) -> Process:
        """Join a process on them."""
        return Process(self._amqp, post.database, post.consuming.connection, post.publishing.connection, SYSTEM)

    def send(self, script: list[str], copies: int) -> str:
        """Have a job accepted; none that snoozes, for that takes seconds."""
        return super().send(["fail" if word == "later" else word for word in script], copies)

    def check(self) -> None:
        """Look at nothing yet."""

    def heal(self) -> None:
        """End the faults, and let the fleet work until each job has ended and no message is left."""
        for post in self.posts:
            post.fate.disarm()
            post.cable.mend()
        eventually(self._is_at_rest, pause_s=0.05)

    def dead_letters(self) -> dict[str, set[int | None]]:
        """Return the attempts that died, by job; what is in the queue of the dead is taken out."""
        for properties, body in self._rabbit.take(names.dead_queue(self._amqp.prefix, QUEUE)):
            kept = Kept(
                QUEUE, "", "", encode_properties(Properties(message_id=properties.message_id)).with_entry(b""), body
            )
            self._buried.setdefault(kept.job_id, set()).add(kept.attempt)
        return self._buried

    def close(self) -> None:
        """End the sender too."""
        super().close()
        self._sending.stop(Deadline.within(10, SYSTEM))

    def _put(self, job_id: str, body: bytes, properties: Properties, end: str, copies: int) -> None:
        self.scripts[job_id] = end
        queue = names.work_queue(self._amqp.prefix, QUEUE)
        outcomes = self._sender.publish_and_wait([Outgoing("", queue, body, properties, QUEUE)] * copies)
        assert outcomes == [None] * copies

    def _is_at_rest(self) -> bool:
        for number in range(2):
            self.cycle(number)
        dead = self.dead_letters()
        ended = all(job_id in dead or self._is_done(job_id) for job_id in self.scripts)
        return ended and not any(post.process.settler.waiting() for post in self.posts)


class RabbitMachine(SettleMachine):
    """The machine in that world; ``amqp`` and ``broker`` are set by the test."""

    amqp: Amqp
    broker: BrokerView

    def new_world(self) -> World:
        """Make it."""
        return RabbitWorld(self.amqp, self.broker, self.database_url, self.view)
