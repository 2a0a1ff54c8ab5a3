"""Without PostgreSQL, hosts tell each other of deaths through Redis, and do without while it is away."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from smena.guarantees.shared_strikes import SharedStrikes
from smena.records.strike import Strike
from smena.settings.groups import Redis as CacheSettings
from smena.store.cache import Cache
from tests.fixtures.fix_proxy import Proxied
from workers.execution.hearsay import Hearsay

Open = Callable[[str], SharedStrikes]


@pytest.fixture
def shared(redis_url: str) -> Iterator[Open]:
    """Give a function that opens the strikes of one host; without an address on the session's server."""
    with ExitStack() as ends:

        def opened(url: str = "") -> SharedStrikes:
            cache = Cache(CacheSettings.model_validate({"url": url or redis_url, "answer_timeout_s": 0.5}), "a host")
            ends.callback(cache.close)
            return SharedStrikes(cache)

        yield opened


def strike(job_id: str, life: str) -> Strike:
    return Strike(job_id=job_id, attempt=2, life=life, actor="a.b", how="SIGKILL", lines="last words", host="one")


def test_p21_a_strike_of_one_host_is_held_against_the_job_on_another_until_it_is_cleared(
    shared: Open, unique: str
) -> None:
    here, there = Hearsay(shared("")), Hearsay(shared(""))
    supervisor = shared("")
    supervisor.bury("l1", [strike(unique, "l1")])
    supervisor.bury("l1", [strike(unique, "l1")])
    there.bury("l2", [strike(unique, "l2")])
    asked = [(unique, 2), (unique, 1), (f"{unique}-other", 2)]
    for host in (here, there):
        assert dict(host.find(asked).strikes) == {(unique, 2): (strike(unique, "l1"), strike(unique, "l2"))}
    here.clear([(unique, 2)])
    assert not here.find(asked).strikes
    assert not shared("").find(asked)


def test_while_redis_is_away_each_host_goes_by_its_own_deaths(
    shared: Open, proxied: Callable[[str], Proxied], redis_url: str, unique: str
) -> None:
    proxy, address = proxied(redis_url)
    host = Hearsay(shared(address))
    proxy.refuse()
    host.hear([strike(unique, "l1")])
    assert list(host.find([(unique, 2)]).strikes) == [(unique, 2)]
    host.bury("l2", [strike(unique, "l2")])
    assert len(host.find([(unique, 2)]).strikes[unique, 2]) == 2
