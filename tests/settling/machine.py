"""Settling as a state machine: whatever strikes, and between whichever two steps, no job is lost and none is doubled.

Two worker processes work on one queue. A fault may strike before any line of the code that settles (`fate.py`): the
process dies, a connection to the broker is lost with bytes under way in either direction, PostgreSQL's answer or the
question to it is lost; the broker refuses a publish, or raises an alarm. What must hold is looked at after each step
and at each single ack (`world.py`): a job is always done or with the broker, never acked before that; and when the
faults have ended, each came to the one end that its script says, its effect once, each attempt to one next message.

What is real: PostgreSQL; settler, recall, rings, once, intake, seat, consumer, delivery tags, publisher, codec. What is
not: threads (the machine turns each loop by hand, so that an interleaving can be repeated) and RabbitMQ (`broker.py`
speaks its frames; `test_settle_on_rabbitmq` runs the processes and rules below against the real one).
"""

from __future__ import annotations

from typing import Any

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.settling.fate import Death
from tests.settling.world import ENDS, Post, World

WORDS = st.lists(st.sampled_from(["fail", "bug", "exit", "later"]), max_size=3)
SCRIPTS = st.builds(lambda words, end: [*words, end], WORDS, st.sampled_from(ENDS))
NUMBERS = st.integers(0, 1)
MOST_JOBS = 10
POINTS = st.one_of(st.integers(0, 40), st.integers(0, 400))


class SettleMachine(RuleBasedStateMachine):
    """See the module; ``database_url`` and ``view`` are set by the test."""

    database_url: str
    view: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.world = self.new_world()

    def new_world(self) -> World:
        """Make the world that the machine acts on."""
        return World(self.database_url, self.view)

    def teardown(self) -> None:
        """End the faults: now each job must come to its end."""
        try:
            self.world.heal()
            self.world.check_end()
        finally:
            self.world.close()

    @initialize(scripts=st.lists(SCRIPTS, min_size=3, max_size=6), copies=st.integers(1, 2))
    def begin(self, scripts: list[list[str]], copies: int) -> None:
        """Some jobs are there."""
        for script in scripts:
            self.world.send(script, copies)

    # --- the work -------------------------------------------------------------------------------------

    @rule(script=SCRIPTS, copies=st.sampled_from([1, 1, 2]))
    def send(self, script: list[str], copies: int) -> None:
        """A job is accepted."""
        if len(self.world.scripts) < MOST_JOBS:
            self.world.send(script, copies)

    @rule(number=NUMBERS)
    def send_raw(self, number: int) -> None:
        """Something is accepted that cannot become a job here."""
        if len(self.world.scripts) < MOST_JOBS:
            self.world.send_raw(number)

    @rule(number=NUMBERS, most=st.integers(1, 8))
    def deliver(self, number: int, most: int) -> None:
        """The broker delivers, and the link sorts what came."""
        self.world.posts[number].consuming.take(most)
        self.world.step(number, lambda post: post.consuming.turn())

    @rule(number=NUMBERS, chosen=st.integers(0, 7))
    def run(self, number: int, chosen: int) -> None:
        """A thread runs a job."""
        self.world.step(number, lambda post: post.process.run(chosen))

    @rule(number=NUMBERS)
    def settle(self, number: int) -> None:
        """The settler and the recall make a round."""
        self.world.step(number, lambda post: post.process.look_up())
        self.world.step(number, lambda post: post.process.settle())

    @rule(number=NUMBERS)
    def turn(self, number: int) -> None:
        """The link writes, the broker reads and answers."""
        self.world.turn(number)

    @rule(number=NUMBERS)
    def cycle(self, number: int) -> None:
        """A process does all there is to do."""
        self.world.cycle(number)

    @rule(number=NUMBERS)
    def hand_back(self, number: int) -> None:
        """A process gives back what has not started."""
        self.world.step(number, lambda post: post.process.hand_back())

    @rule(seconds=st.sampled_from([0.1, 1.0, 11.0]))
    def pass_time(self, seconds: float) -> None:
        """Delays fall due, deadlines pass."""
        self.world.pass_time(seconds)

    # --- the faults -----------------------------------------------------------------------------------

    @rule(number=NUMBERS, after=POINTS, was_read=st.booleans())
    def die(self, number: int, after: int, was_read: bool) -> None:
        """A process dies at some line to come, of its own."""
        post = self.world.posts[number]
        post.fate.arm(after, lambda: death_of(post, was_read=was_read))

    @rule(number=NUMBERS, after=st.integers(0, 8), lost=st.sampled_from(["question", "answer"]))
    def lose_database(self, number: int, after: int, lost: str) -> None:
        """A question to PostgreSQL, or the answer to it, is lost with the connection."""
        self.world.posts[number].cable.lose(lost, after)

    @rule(number=NUMBERS, side=NUMBERS, was_read=st.booleans())
    def cut(self, number: int, side: int, was_read: bool) -> None:
        """A connection to the broker is lost."""
        self.world.posts[number].lines[side].cut(was_read=was_read)
        self.world.check()

    @rule(count=st.integers(1, 3))
    def refuse(self, count: int) -> None:
        """The broker refuses the next publishes."""
        self.world.broker.refusals = count

    @rule(number=NUMBERS, blocked=st.booleans())
    def alarm(self, number: int, blocked: bool) -> None:
        """The broker takes no publishes for a while."""
        self.world.posts[number].publishing.block(blocked=blocked)


def death_of(post: Post, *, was_read: bool) -> None:
    """End a process here and now; a strike of its fate."""
    post.die(was_read=was_read)
    raise Death
