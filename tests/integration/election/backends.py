"""Open each backend of an election on real services, for the suite that all must pass."""

from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from smena.clock import Clock
from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.guarantees.election.contract import Election
from smena.guarantees.election.kubernetes_seat import KubernetesElection
from smena.guarantees.election.lease_api import LeaseApi
from smena.guarantees.election.redis_seat import RedisElection
from smena.guarantees.election.timing import Timing
from smena.settings.groups import Database as DatabaseSettings
from smena.settings.groups import Redis as CacheSettings
from smena.store.cache import Cache
from smena.store.database import Database

BACKENDS = ("postgresql", "redis", "kubernetes")
LEASE_S = 2.0


def election(
    ends: ExitStack, backend: str, address: str, database_url: str, duty: str, lease_s: float, clock: Clock
) -> Election:
    """Make a candidate's backend; ``address`` leads to its store, perhaps through a proxy.

    That of Kubernetes has the folder of the service account behind a `#`.
    """
    if backend == "postgresql":
        return AdvisoryLockElection(_closed_by(ends, address), duty, lease_s, clock)
    if backend == "kubernetes":
        api = LeaseApi(address, Path(urlsplit(address).fragment))
        database = _closed_by(ends, database_url)
        return KubernetesElection(api, database, duty, lease_s, clock, identity="pod", prefix="smena")
    settings = CacheSettings.model_validate({"url": address, "answer_timeout_s": 0.3, "connect_timeout_s": 0.3})
    cache = Cache(settings, "election test")
    ends.callback(cache.close)
    return RedisElection(cache, _closed_by(ends, database_url), duty, lease_s, clock)


def opened(url: str) -> Database:
    """Open the database of an address with limits that are short beside the lease."""
    settings = DatabaseSettings.model_validate({"url": url, "idle_in_transaction_s": 1.0, "connect_timeout_s": 2})
    return Database(settings, "election test", 4)


def timing(lease_s: float, retry_s: float | None = None) -> Timing:
    """Give the times of a leadership."""
    return Timing(lease_s, retry_s or lease_s / 8)


def _closed_by(ends: ExitStack, url: str) -> Database:
    database = opened(url)
    ends.callback(database.close)
    return database
