"""Open each backend of an election on real services, for the suite that all must pass."""

from smena.clock import Clock
from smena.guarantees.election.advisory_lock import AdvisoryLockElection
from smena.guarantees.election.contract import Election
from smena.guarantees.election.timing import Timing
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database

BACKENDS = ("postgresql",)
DUTY = "drill"
LEASE_S = 2.0


def election(backend: str, address: str, database_url: str, lease_s: float, clock: Clock) -> Election:
    """Make a candidate's backend; ``address`` leads to its store, perhaps through a proxy."""
    assert backend == "postgresql"
    return AdvisoryLockElection(opened(address), DUTY, lease_s, clock)


def opened(url: str) -> Database:
    """Open the database of an address with limits that are short beside the lease."""
    settings = DatabaseSettings.model_validate({"url": url, "idle_in_transaction_s": 1.0, "connect_timeout_s": 2})
    return Database(settings, "election test", 4)


def timing(lease_s: float, retry_s: float | None = None) -> Timing:
    """Give the times of a leadership."""
    return Timing(lease_s, retry_s or lease_s / 8)
