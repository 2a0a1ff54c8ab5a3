"""Every partition has one owner at a time, and never none for long: joins, leaves, deaths, and slow answers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sharding.partitions import Partitions
from smena.clock import SYSTEM, Deadline
from smena.store.database import Database
from smena.telemetry import events
from tests.fixtures.eventually import eventually

Done = Callable[[], None]
COUNT = 8


class Shop:
    """A tenant that writes down what it is told, and may have a key in hand that it does not finish yet."""

    def __init__(self) -> None:
        self.works: dict[int, int] = {}
        self.lost_ones: list[int] = []
        self.asked: dict[int, Done] = {}
        self.busy = False
        self._telling = threading.Lock()

    def begin(self, partition: int, term: int) -> None:
        with self._telling:
            assert partition not in self.works
            self.works[partition] = term

    def give_up(self, partition: int, done: Done) -> None:
        with self._telling:
            self.asked[partition] = done
        if not self.busy:
            self.finish(partition)

    def finish(self, partition: int) -> None:
        with self._telling:
            self.works.pop(partition)
            done = self.asked.pop(partition)
        done()

    def lost(self, partition: int) -> None:
        with self._telling:
            self.works.pop(partition)
            self.asked.pop(partition, None)
            self.lost_ones.append(partition)


class Member:
    """One member of the group `stock`, in this process."""

    def __init__(self, database: Database, owner: str, *, count: int = COUNT, lease_s: float = 20) -> None:
        self.shop = Shop()
        self.partitions = Partitions(
            database, "stock", count, self.shop, lease_s=lease_s, clock=SYSTEM, owner=owner, worker=f"worker {owner}"
        )

    def owns(self) -> set[int]:
        return set(self.partitions.owned())

    def leave(self) -> bool:
        return self.partitions.stop(Deadline.within(20, SYSTEM))


Join = Callable[..., Member]


@pytest.fixture(autouse=True)
def failures() -> Iterator[list[str]]:
    """No round of a loop may fail unless a test says so: it clears this list."""
    told: list[str] = []
    off = events.subscribe(lambda one: told.append(str(one.fields)), only=[events.LOOP_FAILED])
    yield told
    off()
    assert not told


@pytest.fixture
def join(database: Database) -> Iterator[Join]:
    """Give a function that starts a member; all leave with the test."""
    with ExitStack() as ends:

        def start(owner: str, **how: float) -> Member:
            member = Member(database, owner, **how)  # type: ignore[arg-type]
            member.partitions.start()
            ends.callback(member.leave)
            return member

        yield start


def all_owned(*members: Member) -> Callable[[], bool]:
    def owned() -> bool:
        shares = [member.owns() for member in members]
        return sum(map(len, shares)) == COUNT == len(set().union(*shares))

    return owned


def test_one_member_owns_all_and_a_second_takes_its_half_and_gives_it_back(join: Join) -> None:
    first = join("a")
    eventually(all_owned(first))
    assert first.shop.works == dict.fromkeys(range(COUNT), 1)
    second = join("b")
    eventually(lambda: len(second.owns()) == COUNT // 2 and all_owned(first, second)())
    assert second.shop.works == dict.fromkeys(second.owns(), 2)
    assert second.leave()
    eventually(all_owned(first))
    assert not first.shop.lost_ones + second.shop.lost_ones
