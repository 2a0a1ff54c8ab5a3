"""Of each key of a partition one job runs, in order, and held keys hold up nobody else (guarantee 5)."""

from __future__ import annotations

import random
from collections import defaultdict, deque

import pytest

from smena.job import Job
from smena.records.held_keys import Message, Parked, Waiting
from tests.fixtures.noted_delivery import NotedDelivery
from workers.execution.ordered.item import Item
from workers.execution.ordered.lines import Lines


def lent(key: str, number: int) -> Item:
    job = Job(actor="a.b", queue="q", id=f"{key}-{number}", partition_key=key)
    return Item(key, job, lent=NotedDelivery())


def parked(item: Item, seq: int) -> Item:
    row = Parked(seq, Message(item.key, item.job.id, "a.b", 1, 0, b"", {}))
    return Item(item.key, item.job, parked=row)


def test_keys_run_side_by_side_and_jobs_of_one_key_one_by_one() -> None:
    lines = Lines()
    first, second, other = lent("k", 1), lent("k", 2), lent("x", 1)
    assert lines.arrive(first) is first
    assert lines.arrive(second) is None
    assert lines.arrive(other) is other
    assert lines.is_over(first) is second
    assert lines.is_over(second) is None
    assert lines.running("k") is None


def test_a_held_key_takes_all_that_follows_into_rows_and_other_keys_go_on() -> None:
    lines = Lines()
    first, second, third = (lent("k", number) for number in (1, 2, 3))
    lines.arrive(first)
    lines.arrive(second)
    assert lines.hold(first)
    assert lines.arrive(third) is None
    assert lines.behind == [second, third]
    lines.held(first, due_s=10.0)
    assert lines.due(9.9) == ([], [])
    assert lines.due(10.0) == (["k"], [])
    other = lent("x", 1)
    assert lines.arrive(other) is other


def test_a_key_that_waits_for_a_time_is_not_blocked_and_one_that_waits_for_an_operator_is() -> None:
    lines = Lines()
    lines.load([Waiting("retries", 5.0), Waiting("blocked", None)], now_s=0.0)
    assert (lines.count_held(), lines.count_blocked()) == (2, 1)
    lines.due(5.0)  # the first row of the other is being read
    assert lines.count_blocked() == 1
    lines.release("blocked", 6.0)
    assert (lines.count_held(), lines.count_blocked()) == (2, 0)


def test_what_waits_is_handed_over_in_the_order_of_each_key_and_what_runs_is_not() -> None:
    lines = Lines()
    items = [lent(key, number) for number in (1, 2, 3) for key in "ab"]
    for item in items:
        lines.arrive(item)
    lines.is_closing = True
    assert [item.job.id for item in lines.hand_over()] == ["a-2", "a-3", "b-2", "b-3"]
    assert (lines.count_running(), lines.count_waiting()) == (2, 0)
    assert lines.is_over(items[0]) is None
    assert lines.running("a") is None


def test_a_key_is_free_again_when_its_last_row_is_over() -> None:
    lines = Lines()
    first, late = lent("k", 1), lent("k", 2)
    lines.arrive(first)
    lines.hold(first)
    lines.held(first, due_s=0.0)
    lines.due(0.0)
    head = parked(first, 1)
    assert lines.found("k", head) is head
    lines.is_over(head)
    assert [row.seq for row in lines.over] == [1]
    lines.arrive(late)  # it came before it was known that no row is left
    assert lines.found("k", None) is late
    assert lines.behind == []
    assert lines.is_over(late) is None
    assert lines.count_held() == 0


def test_a_returned_job_stays_the_first_of_its_key() -> None:
    lines = Lines()
    first, second = lent("k", 1), lent("k", 2)
    lines.arrive(first)
    lines.arrive(second)
    lines.returned(first, due_s=5.0)
    assert lines.arrive(lent("k", 3)) is None
    keys, (again,) = lines.due(5.0)
    assert keys == []
    assert (again.job.id, again.may_have_run) == ("k-1", True)


def test_what_runs_when_the_channel_is_lost_is_waited_for_by_its_own_copy() -> None:
    lines = Lines()
    first, second = lent("k", 1), lent("k", 2)
    lines.arrive(first)
    lines.arrive(second)
    lines.forget_lent()
    copy, copy_of_second = lent("k", 1), lent("k", 2)
    assert lines.arrive(copy) is None
    assert lines.arrive(copy_of_second) is None
    assert lines.is_over(first) is copy
    assert lines.is_over(copy) is copy_of_second


def test_nothing_starts_any_more_once_the_partition_is_given_up() -> None:
    lines = Lines()
    first, second = lent("k", 1), lent("k", 2)
    lines.arrive(first)
    lines.arrive(second)
    lines.is_closing = True
    assert lines.is_over(first) is None
    assert lines.arrive(lent("x", 1)) is None
    assert lines.count_running() == 0


def test_keys_of_a_former_owner_wait_as_they_did_and_blocked_ones_for_an_operator() -> None:
    lines = Lines()
    lines.load([Waiting("due", 3.0), Waiting("blocked", None)], now_s=100.0)
    assert lines.arrive(lent("due", 2)) is None
    assert lines.next_due_s() == 103.0
    assert lines.due(200.0) == (["due"], [])
    assert lines.is_inherited("due")
    lines.release("blocked", 200.0)
    assert lines.due(200.0) == (["blocked"], [])


class Play:
    """A partition that is played at random: lost channels, retries, returns, slow writes."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.queue = deque((key, number) for number in range(12) for key in "abc")
        self.unacked = deque[tuple[str, int]]()
        self.rows: dict[str, deque[tuple[str, int]]] = defaultdict(deque)
        self.effects: dict[str, list[int]] = defaultdict(list)
        self.lines = Lines()
        self.running: list[Item] = []
        self.now_s = 0.0

    @property
    def is_over(self) -> bool:
        return not (self.queue or self.unacked or self.running or any(self.rows.values()))

    def step(self) -> None:
        self.now_s += 1.0
        moves = [self.deliver, self.finish, self.finish, self.retry, self.lose_channel, self.give_back, self.write]
        self.draw.choice(moves)()

    def deliver(self) -> None:
        if self.queue and len(self.unacked) < 6:
            self.unacked.append(self.queue.popleft())
            self.start(self.lines.arrive(lent(*self.unacked[-1])))

    def finish(self) -> None:
        if self.running:
            item = self.running.pop(self.draw.randrange(len(self.running)))
            key, number = pair(item)
            if number not in self.effects[key]:
                self.effects[key].append(number)
            self.end(item)

    def retry(self) -> None:
        if not self.running:
            return
        item = self.running.pop(self.draw.randrange(len(self.running)))
        key, number = pair(item)
        if number in self.effects[key]:  # a copy: its key is found
            self.end(item)
        elif self.lines.hold(item):
            if item.parked is None:
                self.park(item)
            self.lines.held(item, self.now_s + self.draw.randrange(5))

    def lose_channel(self) -> None:
        if self.draw.random() < 0.1:
            self.lines.forget_lent()
            self.queue.extendleft(reversed(self.unacked))
            self.unacked.clear()

    def give_back(self) -> None:
        if self.running:
            self.lines.returned(self.running.pop(), self.now_s + 2)

    def write(self) -> None:
        """Be the keeper's round."""
        for item in self.lines.behind:
            self.park(item)
        self.lines.behind.clear()
        keys, ready = self.lines.due(self.now_s)
        for item in ready:
            self.start(item)
        looks = {*keys, *(row.message.key for row in self.lines.over)}
        self.lines.over.clear()
        for key in sorted(looks):
            rows = self.rows[key]
            self.start(self.lines.found(key, parked(lent(*rows[0]), rows[0][1]) if rows else None))

    def start(self, item: Item | None) -> None:
        if item is not None:
            self.running.append(item)

    def park(self, item: Item) -> None:
        if pair(item) not in self.rows[item.key] and pair(item)[1] not in self.effects[item.key]:
            self.rows[item.key].append(pair(item))
        self.ack(item)

    def end(self, item: Item) -> None:
        if item.parked is None:
            self.ack(item)
        elif self.rows[item.key] and self.rows[item.key][0] == pair(item):
            self.rows[item.key].popleft()
        self.start(self.lines.is_over(item))

    def ack(self, item: Item) -> None:
        if pair(item) in self.unacked:
            self.unacked.remove(pair(item))


def pair(item: Item) -> tuple[str, int]:
    return item.key, int(item.job.id.split("-")[1])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_each_key_keeps_its_order_and_nothing_is_left(seed: int) -> None:
    play = Play(seed)
    for _ in range(5000):
        play.step()
        if play.is_over:
            break
    assert play.effects == {key: list(range(12)) for key in "abc"}
