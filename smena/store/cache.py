"""Open Redis (or Valkey): one `Cache` per process; the only place that does.

It holds only what may be lost. Nothing is opened before the first use; every wait is bounded; nothing is asked twice
behind the caller's back, for an answer that was lost does not say that nothing was done. What passes by itself comes
out as `CacheLost`. What must be one step is a script of `smena/store/lua`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any, Final, Protocol

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError
from redis.retry import Retry

from smena.errors import Misconfigured
from smena.store.faults import translated

_SCRIPTS: Final = "smena.store.lua"


class Secret(Protocol):
    """A value that is not printed."""

    def get_secret_value(self) -> str:
        """Return it."""


class CacheSettings(Protocol):
    """What `Cache` wants of the settings."""

    @property
    def url(self) -> Secret | None: ...
    @property
    def pool_size(self) -> int: ...
    @property
    def connect_timeout_s(self) -> float: ...
    @property
    def answer_timeout_s(self) -> float: ...


class Cache:
    """Redis, as one process sees it; safe from all threads."""

    def __init__(self, settings: CacheSettings, name: str) -> None:
        if settings.url is None:
            raise Misconfigured("this feature needs Redis; set redis.url (SMENA_REDIS_URL)")
        self._url = settings.url.get_secret_value()
        self._settings = settings
        self._name = name.replace(" ", "-")  # the server refuses a name with spaces
        self._opening = threading.Lock()
        self._client: redis.Redis | None = None

    @property
    def client(self) -> redis.Redis:
        """The client, whose errors come out as they are: wrap its calls in `smena.store.faults.translated`."""
        with self._opening:
            if self._client is None:
                self._client = self._opened(self._settings.pool_size, self._settings.answer_timeout_s)
            return self._client

    def alone(self, answer_timeout_s: float) -> redis.Redis:
        """Return a client with one connection of its own, for calls that wait (BLPOP); the caller closes it."""
        return self._opened(1, answer_timeout_s)

    def run(self, script: str, keys: Sequence[str], arguments: Sequence[str | bytes | int | float]) -> Any:
        """Run a script as one step and return its answer; raises `CacheLost`."""
        text, digest = _read(script)
        with translated():
            try:
                return self.client.evalsha(digest, len(keys), *keys, *arguments)
            except NoScriptError:  # a server that was restarted, or never asked: it keeps it from now on
                return self.client.eval(text, len(keys), *keys, *arguments)

    def ping(self) -> None:
        """Ask the server for an answer; raises `CacheLost` where none comes."""
        with translated():
            self.client.ping()

    def close(self) -> None:
        """Close what is open."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()
            client.connection_pool.disconnect()

    def _opened(self, connections: int, answer_timeout_s: float) -> redis.Redis:
        pool = redis.BlockingConnectionPool.from_url(
            self._url,
            max_connections=connections,
            timeout=self._settings.connect_timeout_s,
            socket_connect_timeout=self._settings.connect_timeout_s,
            socket_timeout=answer_timeout_s,
            socket_keepalive=True,
            client_name=self._name,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
        )
        return redis.Redis(connection_pool=pool)


@cache
def _read(name: str) -> tuple[str, str]:
    """Return a script by the name of its file, and the digest by which a server knows it."""
    text = (files(_SCRIPTS) / f"{name}.lua").read_text(encoding="ascii")
    return text, sha1(text.encode(), usedforsecurity=False).hexdigest()
