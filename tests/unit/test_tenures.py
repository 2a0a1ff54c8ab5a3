"""A tenure lasts as long as its lease, counted from before the question, and never comes back once it is over."""

from datetime import UTC, datetime

import pytest

from sharding.leases import lease_name, partition_in
from sharding.tenures import Tenure, Tenures
from smena.clock import MovedClock
from smena.store.terms import Term

LEASE_S = 10.0


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def tenures(clock: MovedClock) -> Tenures:
    return Tenures(clock)


def term(partition: int = 7, number: int = 1) -> Term:
    return Term(lease_name("stock", partition), "us", number)


def claimed(tenures: Tenures, clock: MovedClock, partition: int = 7, number: int = 1) -> Tenure:
    tenure = tenures.claim(term(partition, number), clock.monotonic() + LEASE_S)
    assert tenure is not None
    return tenure


def test_it_is_ours_until_the_lease_is_over_and_no_longer(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    clock.advance(9.9)
    assert tenures.term_of(7) == term()
    clock.advance(0.1)
    assert tenures.term_of(7) is None
    assert tenures.term_of(8) is None


def test_a_slow_answer_lengthens_nothing(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    asked_s = clock.monotonic()
    clock.advance(9)
    tenures.hear([term()], {term()}, asked_s + LEASE_S)
    clock.advance(1)
    assert tenures.term_of(7) is None


def test_a_renewal_lengthens_it_from_the_question_on(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    clock.advance(5)
    asked_s = clock.monotonic()
    clock.advance(3)
    tenures.hear([term()], {term()}, asked_s + LEASE_S)
    clock.advance(6.9)
    assert tenures.term_of(7) == term()
    clock.advance(0.1)
    assert tenures.term_of(7) is None


def test_answers_that_overtake_each_other_shorten_nothing(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    tenures.hear([term()], {term()}, 20.0)
    tenures.hear([term()], {term()}, 15.0)
    clock.advance(19)
    assert tenures.term_of(7) == term()


def test_what_was_not_renewed_is_over_at_once(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    claimed(tenures, clock, 8)
    tenures.hear([term(7), term(8)], {term(8)}, 99.0)
    assert tenures.term_of(7) is None
    assert tenures.term_of(8) == term(8)
    (over,) = tenures.lapse()
    assert over.is_over
    assert tenures.let_go(over)
    assert tenures.unreleased() == [term(7)]


def test_an_answer_about_an_earlier_term_says_nothing_of_this_one(tenures: Tenures, clock: MovedClock) -> None:
    assert tenures.let_go(claimed(tenures, clock, number=1))
    claimed(tenures, clock, number=3)
    tenures.hear([term(number=1)], set(), 99.0)
    assert tenures.term_of(7) == term(number=3)


def test_what_has_lapsed_is_not_brought_back_by_a_late_renewal(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    clock.advance(10)
    assert tenures.renewable() == []
    assert [one.partition for one in tenures.lapse()] == [7]
    tenures.hear([term()], {term()}, 99.0)
    assert tenures.term_of(7) is None


def test_it_is_asked_back_once_and_stays_ours_until_it_is_let_go(tenures: Tenures, clock: MovedClock) -> None:
    tenure = claimed(tenures, clock)
    assert tenures.ask(7) is not None
    assert tenures.ask(7) is None
    assert tenures.ask(8) is None
    assert tenures.term_of(7) == term()
    assert tenures.let_go(tenure)
    assert not tenures.let_go(tenure)
    assert tenures.term_of(7) is None


def test_who_lets_go_late_does_not_end_the_next_tenure(tenures: Tenures, clock: MovedClock) -> None:
    first = claimed(tenures, clock, number=1)
    assert tenures.let_go(first)
    tenures.release([first.term])
    claimed(tenures, clock, number=2)
    assert not tenures.let_go(first)
    assert tenures.term_of(7) == term(number=2)
    assert tenures.unreleased() == []


def test_the_next_to_run_out_is_known(tenures: Tenures, clock: MovedClock) -> None:
    assert tenures.next_lapse_s() is None
    claimed(tenures, clock)
    clock.advance(2)
    claimed(tenures, clock, 8)
    assert tenures.next_lapse_s() == LEASE_S


def test_when_it_closes_all_tenures_end_and_none_begins(tenures: Tenures, clock: MovedClock) -> None:
    claimed(tenures, clock)
    claimed(tenures, clock, 8)
    assert len(tenures.lapse(close=True)) == 2
    assert tenures.term_of(7) is None
    assert tenures.claim(term(9), 99.0) is None
    assert tenures.unreleased() == [term(9)]


@pytest.mark.parametrize(("group", "partition"), [("stock", 0), ("a:b", 7), ("stock", 4095)])
def test_a_lease_s_name_says_its_partition(group: str, partition: int) -> None:
    assert partition_in(lease_name(group, partition)) == partition
