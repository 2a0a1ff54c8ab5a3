"""Stand for a leadership, in the fleet or in a program of one's own: as the settings say where elections are held."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from smena.clock import SYSTEM, Deadline
from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.guarantees.election.contract import Election
from smena.guarantees.election.kubernetes_seat import KubernetesElection
from smena.guarantees.election.leadership import Leadership
from smena.guarantees.election.lease_api import LeaseApi
from smena.guarantees.election.timing import Timing
from smena.settings import Settings
from smena.store.database import Database

_CONNECTIONS: Final = 1
"""Of a database that is opened for the candidate alone; its session has one beside the pool."""

_RESIGN_S: Final = 10.0


@contextmanager
def standing(duty: str, settings: Settings, database: Database) -> Iterator[Leadership]:
    """Stand for a duty for the block, and resign at its end: whoever stands for the same one leads then.

    ``database`` holds the terms, so it is the one that the leader writes to. Raises `Misconfigured` where no election
    can be held.
    """
    with ExitStack() as ends:
        leadership = leadership_of(settings, duty, database, f"{duty}-{socket.gethostname()}", ends)
        leadership.check()
        leadership.start()
        ends.callback(lambda: leadership.stop(Deadline.within(_RESIGN_S, SYSTEM)))
        yield leadership


def leadership_of(settings: Settings, duty: str, database: Database, name: str, ends: ExitStack) -> Leadership:
    """Return the service that stands for a duty; what it opens is closed by ``ends``.

    ``database`` holds the terms; of its pool `redis` and `kubernetes` use one connection. Raises `Misconfigured`.
    """
    wanted = settings.leadership
    timing = Timing(wanted.lease_s, wanted.retry_s)
    return Leadership(_election(settings, duty, database, name, ends), timing, SYSTEM)


def _election(settings: Settings, duty: str, database: Database, name: str, ends: ExitStack) -> Election:
    wanted, lease_s = settings.leadership, settings.leadership.lease_s
    if wanted.backend == "kubernetes":
        api = LeaseApi(wanted.kubernetes_url, wanted.kubernetes_account)
        who = {"identity": f"{socket.gethostname()}_{name}", "prefix": wanted.kubernetes_prefix}
        return KubernetesElection(api, database, duty, lease_s, SYSTEM, **who)
    if wanted.backend == "redis":
        from smena.guarantees.election.redis_seat import RedisElection  # here, for few speak to Redis at all
        from smena.store.cache import Cache

        cache = Cache(settings.redis, name)
        ends.callback(cache.close)
        return RedisElection(cache, database, duty, lease_s, SYSTEM)
    return AdvisoryLockElection(_server_itself(settings, database, name, ends), duty, lease_s, SYSTEM)


def _server_itself(settings: Settings, database: Database, name: str, ends: ExitStack) -> Database:
    """Return the database by an address that leads past a pooler, where one is given."""
    if settings.leadership.database_url is None:
        return database
    given = settings.database.model_copy(update={"url": settings.leadership.database_url})
    past = Database(given, name, _CONNECTIONS)
    ends.callback(past.close)
    return past
