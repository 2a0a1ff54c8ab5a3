"""What an election in Redis promises although Redis may forget everything."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from smena.clock import SYSTEM
from smena.errors import CacheLost, TermLost
from smena.guarantees.election.contract import Reason, Unseated
from smena.guarantees.election.redis_seat import RedisElection
from smena.settings.groups import Redis as CacheSettings
from smena.store import terms
from smena.store.cache import Cache
from smena.store.database import Database
from smena.store.terms import Term
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_proxy import Proxied
from workers.drills.tcp_proxy import Way

from .backends import election, opened
from .test_conformance import LONG_S

Stand = Callable[..., RedisElection]


@pytest.fixture
def stand(database_url: str, redis_url: str, unique: str) -> Iterator[Stand]:
    """Give a function that makes a candidate without a thread, at an address."""
    with ExitStack() as ends:

        def standing(url: str = "", lease_s: float = LONG_S) -> RedisElection:
            one = election(ends, "redis", url or redis_url, database_url, unique, lease_s, SYSTEM)
            assert isinstance(one, RedisElection)
            ends.callback(one.close)
            return one

        yield standing


@pytest.fixture
def cache(redis_url: str) -> Iterator[Cache]:
    """Give the store, to do to it what happens to it."""
    cache = Cache(CacheSettings.model_validate({"url": redis_url}), "a test")
    yield cache
    cache.close()


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """Give the database that holds the row."""
    database = opened(database_url)
    yield database
    database.close()


def keys(duty: str) -> list[str]:
    return [f"smena:{{leader:{duty}}}:{part}" for part in ("seat", "term", "bell")]


def test_a_store_that_forgot_everything_goes_on_above_the_terms_that_were(
    stand: Stand, cache: Cache, database: Database, unique: str
) -> None:
    leader, other = stand(), stand()
    with database.transaction() as connection:
        assert terms.enter(connection, Term(leader.lease_name, "earlier", 50), 0)
    assert leader.campaign(0.1) == 51
    cache.client.delete(*keys(unique))
    assert other.campaign(0.1) == 52
    with pytest.raises(Unseated) as over:
        leader.renew(1)
    assert over.value.reason is Reason.TAKEN
    with pytest.raises(TermLost), database.transaction() as connection:
        terms.fence(connection, Term(leader.lease_name, "", 51))


def test_a_leader_whose_token_was_forgotten_does_not_make_itself_another(
    stand: Stand, cache: Cache, unique: str
) -> None:
    leader = stand()
    leader.campaign(0.1)
    cache.client.delete(*keys(unique))
    with pytest.raises(Unseated):
        leader.renew(1)


def test_a_term_that_is_not_the_greatest_in_the_row_does_not_count(
    stand: Stand, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = stand()
    with database.transaction() as connection:
        assert terms.enter(connection, Term(candidate.lease_name, "elsewhere", 7), 60)
    with monkeypatch.context() as late:
        late.setattr(candidate._row, "floor", lambda: 5)
        assert candidate.campaign(0.1) is None
    assert candidate.campaign(0.1) == 8


def test_a_server_clock_that_is_set_back_prolongs_no_lease(stand: Stand, cache: Cache, unique: str) -> None:
    silent, candidate = stand(lease_s=2), stand(lease_s=2)
    assert silent.campaign(0.1) == 1
    cache.client.pexpire(keys(unique)[0], 86_400_000)
    assert candidate.campaign(0.1) is None
    assert eventually(lambda: candidate.campaign(0.2)) == 2


def test_a_leader_that_goes_on_renewing_is_not_taken_for_silent(stand: Stand) -> None:
    leader, candidate = stand(lease_s=2), stand(lease_s=2)
    leader.campaign(0.1)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 2.5:
        leader.renew(1)
        assert candidate.campaign(0.1) is None


def test_a_former_leader_cannot_give_up_what_is_anothers(stand: Stand, cache: Cache, unique: str) -> None:
    former, leader = stand(), stand()
    former.campaign(0.1)
    cache.client.delete(keys(unique)[0])
    assert leader.campaign(0.1) == 2
    former.resign()
    leader.renew(1)


def test_who_won_and_did_not_hear_of_it_still_leads_once_it_asks_again(
    stand: Stand, proxied: Callable[[str], Proxied], redis_url: str
) -> None:
    proxy, address = proxied(redis_url)
    candidate = stand(address)
    proxy.deafen(Way.TO_CLIENT)
    with pytest.raises(CacheLost):
        candidate.campaign(0.1)
    proxy.heal()
    assert candidate.campaign(0.1) == 1
    candidate.close()


def test_an_operator_ends_a_leadership_by_the_row(stand: Stand, database: Database) -> None:
    leader = stand()
    assert leader.campaign(0.1) == 1
    with database.transaction() as connection:
        assert terms.depose(connection, leader.lease_name) == 2
    with pytest.raises(Unseated):
        leader.renew(1)
    assert stand().campaign(0.1) == 3
