"""What PostgreSQL's election promises beyond the suite: fast takeovers, and no pooler (P41)."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg
import pytest

from smena.clock import SYSTEM
from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.guarantees.election.contract import Reason, Unseated
from smena.store.pooler import PoolerBetween
from tests.fixtures.eventually import eventually
from workers.local.services import LocalServices

from .backends import opened
from .conftest import Ground, led
from .test_conformance import LONG_S

Stand = Callable[..., AdvisoryLockElection]


@pytest.fixture
def stand(database_url: str) -> Iterator[Stand]:
    """Give a function that makes a candidate without a thread, at an address."""
    with ExitStack() as ends:

        def standing(url: str = "", lease_s: float = LONG_S, duty: str = "drill") -> AdvisoryLockElection:
            election = AdvisoryLockElection(opened(url or database_url), duty, lease_s, SYSTEM)
            ends.callback(election.close)
            return election

        yield standing


@pytest.fixture
def ask(database_url: str) -> Iterator[Callable[[str], object]]:
    """Give a function that runs a statement on the test's database."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield lambda statement: connection.execute(statement)


def test_p41_a_pooler_that_announces_itself_is_refused(stand: Stand, pooled: Callable[..., str]) -> None:
    with pytest.raises(PoolerBetween, match="database_url"):
        stand(pooled()).campaign(0.1)
    assert stand().campaign(0.1) == 1, "nothing was left behind in the pooler's session"


def test_p41_a_pooler_that_hides_is_found_when_it_lends_the_session_to_another(
    stand: Stand, pooled: Callable[..., str]
) -> None:
    address = pooled(honest=True)
    one, other = stand(address), stand(address, duty="another")
    assert one.campaign(0.1) == 1
    one.renew(10)
    other.campaign(0.1)
    with pytest.raises(Unseated) as over:
        one.renew(10)
    assert over.value.reason is Reason.SESSION_LOST


def test_p41_a_server_session_of_somebody_else_is_not_taken_for_ours(
    stand: Stand, ask: Callable[[str], object]
) -> None:
    leader = stand()
    leader.campaign(0.1)
    ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%smena%' AND pid <> pg_backend_pid()")
    with pytest.raises(Unseated) as over:
        leader.renew(10)
    assert over.value.reason is Reason.SESSION_LOST


def test_p32_a_killed_leader_is_followed_at_once_without_waiting_for_its_lease(
    services: LocalServices, database_url: str
) -> None:
    with ExitStack() as ends:
        ground = Ground("postgresql", services, database_url, "drill", ends)
        holder = ground.holder(LONG_S)
        term = holder.leads()
        candidate = ground.candidate(lease_s=LONG_S, retry_s=LONG_S / 3)
        holder.kill()
        assert led(candidate) == term + 1


def test_a_database_clock_that_is_set_back_prolongs_no_lease(stand: Stand, ask: Callable[[str], object]) -> None:
    silent, candidate = stand(lease_s=1.0), stand(lease_s=1.0)
    assert silent.campaign(0.1) == 1
    ask("UPDATE smena.leases SET expires_at = expires_at + interval '1 day'")
    assert candidate.campaign(0.1) is None
    assert eventually(lambda: candidate.campaign(0.2)) == 2


def test_two_that_find_a_holder_gone_do_not_both_follow_it(stand: Stand) -> None:
    gone, one, other = stand(), stand(), stand()
    assert gone.campaign(0.1) == 1
    gone.close()
    assert {one.campaign(0.1), other.campaign(0.1)} == {2, None}
