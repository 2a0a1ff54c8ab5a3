"""A lease is counted from before the question: an answer that takes long lengthens nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from sharding import leases, members, plans
from sharding.heart import Heart, Membership
from sharding.line import Line
from sharding.resize import resize
from sharding.steward import Steward
from sharding.tenures import Tenure, Tenures
from smena.clock import MovedClock
from smena.store.database import Database
from smena.store.held import HoldableConnection
from smena.telemetry import events
from tests.fixtures.fix_events import Listen

LEASE_S = 60.0
US = Membership("stock", 1, "us", "worker", LEASE_S)


class SlowLine(Line):
    """A line on which every answer takes ``slow_s`` of the clock; questions and answers are real."""

    def __init__(self, database: Database, clock: MovedClock) -> None:
        super().__init__(database, 10)
        self.slow_s = 0.0
        self._clock = clock

    @contextmanager
    def open(self) -> Iterator[HoldableConnection]:
        with super().open() as connection:
            ask = connection.execute

            def ask_slowly(*question: Any) -> Any:
                answer = ask(*question)
                self._clock.advance(self.slow_s)
                return answer

            connection.execute = ask_slowly  # type: ignore[method-assign,assignment]
            try:
                yield connection
            finally:
                del connection.execute


class Stand:
    """A heart and a steward that are worked by hand."""

    def __init__(self, database: Database) -> None:
        self.clock = MovedClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.line = SlowLine(database, self.clock)
        self.tenures = Tenures(self.clock)
        self.begun: list[Tenure] = []
        self.asked: list[Tenure] = []
        self.heart = Heart(self.line, US, self.tenures, self.clock, lambda: None)
        self.steward = Steward(self.line, US, self.tenures, self.clock, self.begun.append, self.asked.append)

    def look(self) -> None:
        self.steward.look()

    def ours(self) -> bool:
        return self.tenures.term_of(0) is not None


@pytest.fixture
def stand(database: Database) -> Iterator[Stand]:
    """Give a member that is alive, in a group whose plan gives it the only partition."""
    made = Stand(database)
    try:
        made.heart.beat()
        with database.connect(autocommit=True) as connection:
            plans.begin(connection, "stock", 1)
            view = plans.look(connection, "stock")
            assert view is not None
            assert plans.settle(connection, view) == 0
        yield made
    finally:
        made.line.close()


def test_a_claim_counts_from_its_question(stand: Stand) -> None:
    stand.line.slow_s = LEASE_S - 1
    stand.look()
    assert len(stand.begun) == 1
    assert stand.ours()
    stand.clock.advance(1)
    assert not stand.ours()


def test_a_renewal_counts_from_its_question(stand: Stand) -> None:
    stand.look()
    stand.clock.advance(30)
    stand.line.slow_s = 20
    stand.heart.beat()  # the renewal, and the sign of life
    stand.clock.advance(19)
    assert stand.ours()
    stand.clock.advance(1)
    assert not stand.ours()


def test_p32_a_member_that_came_back_is_another_and_takes_nothing_over_by_its_name(
    stand: Stand, database: Database
) -> None:
    stand.look()
    assert stand.ours()
    with database.connect(autocommit=True) as connection:
        members.beat(connection, "stock", 1, "us again", "worker", LEASE_S)
        assert leases.claim(connection, [leases.lease_name("stock", 0)], "us again", LEASE_S) == []
        seen: list[Any] = [(one.member, one.worker, one.alive) for one in members.everybody(connection)]
    assert seen == [("us", "worker", True), ("us again", "worker", True)]


def test_a_heartbeat_that_was_under_way_does_not_bring_back_who_left(stand: Stand, database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        members.leave(connection, "stock", "us")
        stand.heart.beat()
        view = plans.look(connection, "stock")
        assert view is not None
        assert not view.live
        members.forget(connection, "stock", "us")
        assert members.everybody(connection) == []


def test_who_declares_another_number_does_not_join(stand: Stand, database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        members.beat(connection, "stock", 2, "other", "worker", LEASE_S)
        members.beat(connection, "not begun", 2, "other", "worker", LEASE_S)
        assert [(one.group, one.member) for one in members.everybody(connection)] == [
            ("not begun", "other"),
            ("stock", "us"),
        ]


def test_who_finds_another_number_leaves_hands_over_and_joins_again_when_they_agree(
    stand: Stand, database: Database, listen: Listen
) -> None:
    told = listen(events.PARTITION_COUNT_DIFFERS)
    stand.look()
    assert stand.ours()
    with database.connect(autocommit=True) as connection:
        for times in (1, 2):
            resize(connection, "stock", 2)  # which its command would not do while a member lives
            stand.look()
            assert members.everybody(connection) == []
            stand.heart.beat()
            assert members.everybody(connection) == []
            stand.look()
            assert [tenure.partition for tenure in stand.asked] == [0]
            resize(connection, "stock", 1)
            stand.look()
            stand.heart.beat()
            assert [one.member for one in members.everybody(connection)] == ["us"]
            stand.look()
            assert [one.fields["found"] for one in told] == [2] * times


def test_members_that_were_silent_for_long_are_buried(stand: Stand, database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        members.beat(connection, "stock", 1, "gone", "worker", 0.0)
        connection.execute("UPDATE smena.members SET expires_at = now() - interval '1 h' WHERE member = 'gone'")
        assert members.bury(connection, "stock", 3601) == 0
        assert members.bury(connection, "stock", 3599) == 1
        assert [one.member for one in members.everybody(connection)] == ["us"]


def test_a_plan_is_written_over_the_one_that_it_was_made_from_only(stand: Stand, database: Database) -> None:
    with database.connect(autocommit=True) as connection:
        members.beat(connection, "stock", 1, "other", "worker", LEASE_S)
        first = second = plans.look(connection, "stock")
        assert first is not None
        assert second is not None
        assert not first.is_settled
        assert plans.settle(connection, first) is not None
        assert plans.settle(connection, second) is None
        now = plans.look(connection, "stock", first.plan)
        assert now is not None
        assert now.is_settled
        assert now.plan.generation == first.plan.generation + 1
