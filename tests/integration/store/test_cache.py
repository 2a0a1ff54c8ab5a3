"""Redis as a process sees it: bounded, asked once, and lost in words of ours."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from redis.exceptions import AuthenticationError

from smena.errors import CacheLost, Misconfigured
from smena.settings.groups import Redis as CacheSettings
from smena.store.cache import Cache
from smena.store.faults import translated
from tests.fixtures.fix_proxy import Proxied
from workers.drills.tcp_proxy import Way

Open = Callable[..., Cache]


@pytest.fixture
def open_cache(redis_url: str) -> Iterator[Open]:
    """Give a function that opens a `Cache`; its arguments are settings."""
    with ExitStack() as ends:

        def opened(**settings: Any) -> Cache:
            cache = Cache(CacheSettings.model_validate({"url": redis_url} | settings), "a test")
            ends.callback(cache.close)
            return cache

        yield opened


def test_without_an_address_it_says_which_setting_is_missing() -> None:
    with pytest.raises(Misconfigured, match="SMENA_REDIS_URL"):
        Cache(CacheSettings(), "a test")


def test_a_script_runs_on_a_server_that_has_never_seen_it(open_cache: Open, unique: str) -> None:
    cache = open_cache()
    keys = [f"{{{unique}}}:{name}" for name in ("seat", "term", "bell")]
    assert cache.run("seat_take", keys, ["me", 1000, 0, "", ""])[0] == b"1"
    cache.client.script_flush()
    assert cache.run("seat_renew", keys[:1], ["me", 1000]) == 1


def test_a_server_that_refuses_or_resets_is_lost_and_then_found_again(
    open_cache: Open, proxied: Callable[[str], Proxied], redis_url: str
) -> None:
    proxy, address = proxied(redis_url)
    cache = open_cache(url=address)
    cache.ping()
    proxy.refuse()
    with pytest.raises(CacheLost):
        cache.ping()
    proxy.heal()
    cache.ping()


def test_a_silent_server_is_given_up_and_what_it_was_asked_is_not_asked_again(
    open_cache: Open, proxied: Callable[[str], Proxied], redis_url: str, unique: str
) -> None:
    proxy, address = proxied(redis_url)
    cache = open_cache(url=address, answer_timeout_s=1)
    cache.ping()
    proxy.deafen(Way.TO_CLIENT)
    with pytest.raises(CacheLost), translated():
        cache.client.incr(unique)
    proxy.heal()
    assert cache.client.get(unique) == b"1"


def test_a_wrong_password_is_not_taken_for_a_lost_connection(open_cache: Open, redis_url: str) -> None:
    _, _, place = redis_url.rpartition("@")
    with pytest.raises(AuthenticationError):
        open_cache(url=f"redis://:wrong@{place}").ping()


def test_connections_are_bounded_and_who_finds_none_free_waits_in_vain_for_a_bounded_time(open_cache: Open) -> None:
    cache = open_cache(pool_size=1, connect_timeout_s=0.5)
    connection = cache.client.connection_pool.get_connection()
    with pytest.raises(CacheLost):
        cache.ping()
    cache.client.connection_pool.release(connection)
    cache.ping()
