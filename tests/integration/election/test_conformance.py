"""Every backend of an election keeps the same promises (guarantee 3)."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from operator import ne

import pytest

from smena.clock import SYSTEM
from smena.errors import TermLost
from smena.guarantees.election.contract import Reason
from smena.guarantees.election.figures import show
from smena.guarantees.election.leadership import Leadership, NotLeading
from smena.store import terms
from smena.telemetry import events
from smena.telemetry.tally import Board, merge
from tests.fixtures.eventually import PATIENCE_S, eventually
from tests.fixtures.fix_events import Listen
from tests.fixtures.fix_proxy import Proxied

from .backends import LEASE_S
from .conftest import Ground, SteppedClock, led, stopped

LONG_S = 120.0
"""A lease, with tries far apart, that no test outlasts: who leads within it was told, and did not wait for its end."""


def test_one_of_many_leads_and_each_next_one_under_a_greater_term(
    ground: Ground, leader_of: Callable[..., Leadership]
) -> None:
    candidates = [ground.candidate() for _ in range(3)]
    seen = 0
    for _ in range(3):
        leader = leader_of(*candidates)
        term = leader.term()
        assert term is not None
        assert term > seen
        assert ground.term_in_row() == term
        seen = term
        leader.resign()
        eventually(leader.term, until=partial(ne, term))


def test_a_leader_goes_on_under_one_term_beyond_its_lease(ground: Ground, listen: Listen) -> None:
    leader, other = ground.candidate(), ground.candidate()
    first = eventually(lambda: leader.term() or other.term())
    began_s = SYSTEM.monotonic()
    renewed = listen(events.LEADER_RENEWED)
    eventually(lambda: len(renewed) >= 6 and SYSTEM.monotonic() - began_s > LEASE_S)
    assert {leader.term(), other.term()} == {first, None}


def test_p32_the_seat_of_a_killed_leader_is_taken_by_another(ground: Ground) -> None:
    holder = ground.holder()
    term = holder.leads()
    candidate = ground.candidate()
    holder.kill()
    assert led(candidate) > term


def test_p37_a_leader_that_was_frozen_past_its_lease_writes_nothing_more(ground: Ground) -> None:
    holder = ground.holder()
    term = holder.leads()
    eventually(lambda: ground.written(term))
    candidate = ground.candidate()
    holder.freeze()
    assert led(candidate) > term
    written = ground.written(term)
    holder.thaw()
    eventually(lambda: any(line.startswith(f"lost {term}") for line in holder.said))
    eventually(lambda: f"refused {term}" in holder.said)
    assert ground.written(term) == written
    assert led(candidate) > term


def test_a_leader_that_is_cut_off_stops_by_itself_and_another_leads(
    ground: Ground, proxied: Callable[[str], Proxied]
) -> None:
    proxy, address = proxied(ground.address)
    holder = ground.candidate(address)
    term = led(holder)
    candidate = ground.candidate()
    proxy.refuse()
    try:
        assert led(candidate) > term
        eventually(lambda: holder.term() is None)
    finally:
        proxy.heal()
        stopped(holder)  # before its proxy goes


def test_a_silent_leader_has_stopped_before_another_leads(ground: Ground, proxied: Callable[[str], Proxied]) -> None:
    proxy, address = proxied(ground.address)
    holder = ground.candidate(address)
    led(holder)
    candidate = ground.candidate()
    proxy.deafen()
    try:
        at_once = eventually(lambda: (candidate.term(), holder.term()), until=lambda both: both[0] is not None)
        assert at_once[1] is None
    finally:
        proxy.heal()
        stopped(holder)  # before its proxy goes


def test_wall_clocks_that_step_change_nothing(ground: Ground, listen: Listen) -> None:
    leaders_clock, others_clock = SteppedClock(), SteppedClock()
    leader = ground.candidate(clock=leaders_clock)
    term = led(leader)
    other = ground.candidate(clock=others_clock)
    renewed = listen(events.LEADER_RENEWED)
    for step in (timedelta(days=1), timedelta(days=-1)):
        before = len(renewed)
        leaders_clock.ahead, others_clock.ahead = step, -step
        eventually(lambda before=before: len(renewed) >= before + 2)  # type: ignore[misc]
    assert (leader.term(), other.term()) == (term, None)


def test_after_a_restart_of_the_store_somebody_leads_and_terms_go_on(
    ground: Ground, leader_of: Callable[..., Leadership]
) -> None:
    candidates = [ground.candidate(), ground.candidate()]
    term = leader_of(*candidates).term() or 0
    ground.restart_store()
    # Who led before may believe so for a moment yet, and lead no more in the next.
    eventually(lambda: leader_of(*candidates).term() == ground.term_in_row())
    assert ground.term_in_row() >= term


def test_who_resigns_is_followed_at_once_without_waiting_for_a_lease_or_a_try(ground: Ground) -> None:
    leader = ground.candidate(lease_s=LONG_S, retry_s=LONG_S / 3)
    led(leader)
    other = ground.candidate(lease_s=LONG_S, retry_s=LONG_S / 3)
    leader.resign()
    assert led(other)


def test_what_is_led_is_told_to_end_when_the_leadership_is_over(ground: Ground) -> None:
    leader = ground.candidate()
    seen: list[Reason | None] = []

    def work() -> None:
        with leader.lead() as tenure:
            tenure.check()
            leader.resign()
            assert tenure.lost.wait(PATIENCE_S)
            seen.append(tenure.reason)

    with pytest.raises(TermLost):
        work()
    assert seen == [Reason.RESIGNED]


async def test_a_coroutine_that_leads_is_cancelled_when_the_leadership_is_over(ground: Ground) -> None:
    leader = ground.candidate()

    async def work() -> None:
        async with leader.alead():
            leader.resign()
            await asyncio.sleep(60)

    with pytest.raises(TermLost):
        await work()


def test_what_a_process_leads_is_seen_from_outside(ground: Ground) -> None:
    leader, other = ground.candidate(), ground.candidate()
    boards = [Board(), Board()]
    leave = [show(board, [one]) for board, one in zip(boards, (leader, other), strict=True)]
    eventually(
        lambda: merge(boards[0].snapshot(), boards[1].snapshot())["gauges"]["smena_leader"] == {ground.duty: 1.0}
    )
    first = boards[0] if leader.term() else boards[1]
    eventually(lambda: first.snapshot()["gauges"]["smena_leader_held_seconds"][ground.duty] > LEASE_S / 3)
    eventually(lambda: first.snapshot()["gauges"]["smena_leader_renewed_age_seconds"][ground.duty] < LEASE_S / 3)
    (leader if leader.term() else other).resign()
    eventually(lambda: first.snapshot()["counters"].get("smena_leader_losses_total") == {f"{ground.duty}|resigned": 1})
    for out in leave:
        out()


def test_who_does_not_lead_leads_no_block(ground: Ground) -> None:
    led(ground.candidate())
    other = ground.candidate()
    with pytest.raises(NotLeading), other.lead(0.1):
        raise AssertionError("it does not lead")


def test_a_leader_that_was_relieved_and_does_not_know_it_yet_cannot_commit(ground: Ground) -> None:
    leader = ground.candidate(lease_s=LONG_S)
    led(leader)
    tenure = leader.tenure
    assert tenure is not None
    leader.resign()
    led(ground.candidate(lease_s=LONG_S))
    with pytest.raises(TermLost), ground.database.transaction() as connection:
        terms.fence(connection, tenure.term)


def test_a_leaders_lease_is_the_longest_it_believes(ground: Ground) -> None:
    leader = ground.candidate()
    led(leader)
    tenure = leader.tenure
    assert tenure is not None
    assert tenure.left_s() <= LEASE_S * 0.9
