"""Every partition has one owner at a time, and never none for long: joins, leaves, deaths, and slow answers."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from pydantic import SecretStr

from sharding import members, plans
from sharding.partitions import Partitions
from sharding.resize import at_work, resize
from smena.clock import SYSTEM, Deadline
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from smena.telemetry import events
from smena.telemetry.event import Occurrence
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_proxy import Proxied

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
def failures(listen: Listen) -> Iterator[list[Occurrence]]:
    """No round of a loop may fail unless a test says so: it clears this list."""
    told = listen(events.LOOP_FAILED)
    yield told
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
    """Say that each partition is one member's, and that its tenant has been told."""

    def owned() -> bool:
        shares = [member.owns() for member in members]
        are_worked = [set(member.shop.works) for member in members] == shares
        return are_worked and sum(map(len, shares)) == COUNT == len(set().union(*shares))

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


def test_a_partition_is_handed_over_only_when_its_key_in_hand_is_finished(join: Join) -> None:
    first = join("a")
    eventually(all_owned(first))
    first.shop.busy = True
    second = join("b")
    eventually(lambda: len(first.shop.asked) == COUNT // 2)
    asked = sorted(first.shop.asked)
    finished, *others = asked
    first.shop.finish(finished)
    eventually(lambda: second.owns() == {finished})
    assert first.owns() == set(range(COUNT)) - {finished}
    assert set(others) <= set(first.shop.works)
    first.shop.busy = False
    for partition in others:
        first.shop.finish(partition)
    eventually(lambda: second.owns() == set(asked))
    assert not first.shop.lost_ones


def test_who_leaves_hands_over_at_once_and_waits_for_the_key_in_hand(join: Join) -> None:
    first, second = join("a"), join("b")
    eventually(lambda: len(second.owns()) == COUNT // 2 and all_owned(first, second)())
    second.shop.busy = True
    in_hand = min(second.owns())
    with ThreadPoolExecutor(1) as other:
        left = other.submit(second.leave)
        eventually(lambda: len(second.shop.asked) == COUNT // 2)
        for partition in set(second.shop.asked) - {in_hand}:
            second.shop.finish(partition)
        eventually(lambda: first.owns() == set(range(COUNT)) - {in_hand})
        assert second.owns() == {in_hand}
        second.shop.finish(in_hand)
        assert left.result()
    eventually(all_owned(first))
    assert not second.shop.lost_ones


def test_what_is_not_finished_by_the_deadline_is_lost_and_runs_out(join: Join) -> None:
    first, second = join("a", lease_s=2), join("b", lease_s=2)
    eventually(lambda: len(second.owns()) == COUNT // 2 and all_owned(first, second)())
    second.shop.busy = True
    second.partitions.stop(Deadline.within(0.0, SYSTEM))
    assert len(second.shop.lost_ones) == COUNT // 2
    assert second.owns() == set()
    eventually(all_owned(first))


def test_a_member_that_is_cut_off_knows_that_its_partitions_are_lost_and_comes_back(
    database_url: str, join: Join, proxied: Callable[[str], Proxied], failures: list[Occurrence]
) -> None:
    proxy, url = proxied(database_url)
    with closing(Database(DatabaseSettings(url=SecretStr(url)), "cut off")) as database:
        member = Member(database, "a", lease_s=2)
        member.partitions.start()
        eventually(all_owned(member))
        proxy.deafen()
        eventually(lambda: sorted(member.shop.lost_ones) == list(range(COUNT)))
        assert member.owns() == set()
        other = join("b")
        eventually(all_owned(other))
        proxy.heal()
        proxy.cut()
        eventually(lambda: len(member.owns()) == COUNT // 2 and all_owned(member, other)())
        eventually(lambda: min(list(member.shop.works.values()), default=0) > 1)  # a slow machine may lose them again
        assert member.leave()
    failures.clear()


def test_a_group_that_is_cut_otherwise_is_not_worked(join: Join, listen: Listen) -> None:
    told = listen(events.PARTITION_COUNT_DIFFERS)
    first = join("a")
    eventually(all_owned(first))
    second = join("b", count=2 * COUNT)
    eventually(lambda: len(told) == 1)
    assert told[0].fields == {"group": "stock", "declared": 2 * COUNT, "found": COUNT}
    assert second.owns() == set()


@pytest.mark.parametrize("came_first", ["healthy", "wrong"])
def test_all_partitions_go_to_those_that_declare_the_group_s_number(
    join: Join, database: Database, listen: Listen, came_first: str
) -> None:
    told = listen(events.PARTITION_COUNT_DIFFERS, events.PARTITION_PLANNED)
    with closing(database.connect()) as connection, connection:
        plans.begin(connection, "stock", COUNT)
    counts = {"healthy": COUNT, "wrong": 2 * COUNT}
    fleet = {}
    for name in sorted(counts, key=came_first.__ne__):
        fleet[name] = join(name, count=counts[name], lease_s=2)
        if name == "wrong":
            eventually(lambda: "partition.count_differs" in [one.event.name for one in told])
        else:
            eventually(all_owned(fleet[name]))
    eventually(all_owned(*fleet.values()))
    with closing(database.connect()) as connection:
        assert [one.member for one in members.everybody(connection)] == ["healthy"]
    assert {one.fields["members"] for one in told if one.event is events.PARTITION_PLANNED} == {1}


def test_a_member_that_waits_for_another_number_joins_when_the_group_has_it(
    join: Join, database: Database, listen: Listen
) -> None:
    with closing(database.connect()) as connection, connection:
        plans.begin(connection, "stock", COUNT)
    told = listen(events.PARTITION_COUNT_DIFFERS)
    member = join("a", count=2 * COUNT, lease_s=2)
    eventually(lambda: len(told) == 1)
    with closing(database.connect()) as connection, connection:
        assert at_work(connection, "stock", silent_s=2) == 0
        resize(connection, "stock", 2 * COUNT)
    eventually(lambda: member.owns() == set(range(2 * COUNT)))


def test_a_group_that_comes_to_have_more_or_fewer_partitions_is_owned_whole(join: Join, database: Database) -> None:
    for owner, count in (("a", COUNT), ("b", 2 * COUNT), ("c", COUNT), ("d", 2 * COUNT)):
        with closing(database.connect()) as connection, connection:
            resize(connection, "stock", count)  # of the group that the first member begins, nothing
        member = join(owner, count=count)
        eventually(lambda: member.owns() == set(range(count)))  # noqa: B023 - it is called in this round
        assert member.leave()


def test_a_tenant_that_fails_gets_the_partition_anew(join: Join, failures: list[Occurrence]) -> None:
    member = join("a")
    eventually(all_owned(member))
    broken = member.shop.give_up

    def fail(partition: int, done: Done) -> None:
        member.shop.give_up = broken  # type: ignore[method-assign]
        raise RuntimeError("give_up")

    member.shop.give_up = fail  # type: ignore[method-assign]
    second = join("b")
    eventually(lambda: len(second.owns()) == COUNT // 2 and all_owned(member, second)())
    assert len(member.shop.lost_ones) == 1
    assert len(failures) == 1
    failures.clear()


def test_no_more_partitions_move_than_a_change_needs(join: Join, listen: Listen) -> None:
    told = listen(events.PARTITION_PLANNED)
    fleet = [join("a"), join("b")]
    eventually(lambda: len(fleet[1].owns()) == COUNT // 2 and all_owned(*fleet)())
    fleet.append(join("c"))
    eventually(lambda: len(fleet[2].owns()) == COUNT // 3 and all_owned(*fleet)())
    assert fleet[2].leave()
    eventually(all_owned(*fleet[:2]))
    plans = {one.fields["generation"]: one.fields for one in told}
    moved = {number: fields["moved"] for number, fields in plans.items() if fields["members"] != 1}
    assert list(moved.values()) in ([COUNT // 2, COUNT // 3, COUNT // 3], [0, COUNT // 3, COUNT // 3])
