"""Name every way a job can fail, sorted by who acts next.

There is one root and a closed set of branches. The branch of an error decides the outcome of the
delivery (`workers/middleware/settle.py` holds that table); a leaf only adds facts. An error that is
of none of these branches is a bug or unknown, and is retried a few times before it ends as a dead
letter with the code `unexpected`.

The message of an error is the first line of its class's docstring followed by the facts it was
raised with, so `raise ClaimLost(item=7, term=3)` reads `The claim is no longer ours: item=7 term=3`.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SmenaError(Exception):
    """Something went wrong in Smena."""

    code: ClassVar[str] = "error"

    def __init__(self, detail: str = "", **facts: Any) -> None:
        self.detail = detail
        self.facts = facts
        super().__init__(detail, facts)

    def __str__(self) -> str:
        """Join the class's sentence, the detail and the facts."""
        sentence = (type(self).__doc__ or type(self).__name__).splitlines()[0].rstrip(".")
        facts = " ".join(f"{name}={value}" for name, value in self.facts.items())
        return ": ".join(part for part in (sentence, self.detail, facts) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        """Cross a process border with everything it holds, whatever a subclass's constructor asks for."""
        return (_rebuild, (type(self), self.args, self.__dict__.copy()))


def _rebuild(kind: type[SmenaError], args: tuple[Any, ...], state: dict[str, Any]) -> SmenaError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


# --- The fleet acts, later -------------------------------------------------------------------


class Transient(SmenaError):
    """A passing failure; the job is tried again later.

    Raise it (or a subclass) from an actor with ``retry_after_s`` to say when a retry makes sense;
    the retry policy never comes back sooner than that.
    """

    code = "transient"

    def __init__(self, detail: str = "", *, retry_after_s: float | None = None, **facts: Any) -> None:
        super().__init__(detail, **facts)
        self.retry_after_s = retry_after_s


class BrokerLost(Transient):
    """The connection to RabbitMQ was lost or refused."""

    code = "broker_lost"


class BrokerBlocked(Transient):
    """RabbitMQ does not take messages now (memory or disk alarm)."""

    code = "broker_blocked"


class PublishTimeout(Transient):
    """RabbitMQ did not confirm the message before its deadline; it may or may not have it."""

    code = "publish_timeout"


class PublishRefused(Transient):
    """RabbitMQ answered a publish with a nack."""

    code = "publish_refused"


class OrderBroken(Transient):
    """An earlier message of the same partition was not taken over; send both again, in their order."""

    code = "order_broken"


class DatabaseLost(Transient):
    """The connection to PostgreSQL was lost or refused."""

    code = "database_lost"


class DatabaseBusy(Transient):
    """PostgreSQL gave up a statement: lock timeout, deadlock, serialization or statement timeout."""

    code = "database_busy"


class CacheLost(Transient):
    """The connection to Redis was lost or refused."""

    code = "cache_lost"


class TimedOut(Transient):
    """A time limit ran out."""

    code = "timed_out"


class TimeLimitExceeded(TimedOut):
    """The attempt ran longer than its actor's time limit."""

    code = "time_limit"


class PoolBusy(Transient):
    """No process of the pool was free for a CPU step; the job comes back and its attempt is not spent."""

    code = "pool_busy"


class PoolBroken(Transient):
    """The process pool cannot run CPU steps now; the job waits for it and its attempt is not spent."""

    code = "pool_broken"


class StepDied(Transient):
    """The process of a CPU step died while the step ran."""

    code = "step_died"


class OutOfMemory(Transient):
    """A CPU step needed more memory than a pool process may have."""

    code = "out_of_memory"


# --- The operator acts -----------------------------------------------------------------------


class Permanent(SmenaError):
    """A failure that no retry can cure; the job becomes a dead letter at once.

    Give a domain error its own subclass with a stable ``code`` (lower case, underscores): it is
    the reason that dead letters, logs and HTTP answers carry.
    """

    code = "permanent"


class Undecodable(Permanent):
    """The message is not a Dramatiq message."""

    code = "undecodable"


class InvalidArguments(Permanent):
    """The arguments do not fit the actor's annotations."""

    code = "invalid_arguments"


class UnknownActor(Permanent):
    """No loaded book has an actor of this name."""

    code = "unknown_actor"


class NoQueue(Permanent):
    """The message's queue does not exist and cannot be declared."""

    code = "no_queue"


class IdReused(Permanent):
    """Another job was settled under the same id; give each job an id of its own."""

    code = "id_reused"


class Misplaced(Permanent):
    """The job of an ordered actor lies in no partition, or in another than its key's."""

    code = "misplaced"


class Crashed(Permanent):
    """The job killed its process while it ran there alone, apart from others."""

    code = "crashed"


class NotPicklable(Permanent):
    """A CPU step's function, arguments or result cannot cross to another process."""

    code = "not_picklable"


class StepTooLarge(Permanent):
    """A CPU step's arguments or result are larger than they may be."""

    code = "step_too_large"


class Unsendable(Permanent):
    """The job cannot be sent as it is."""

    code = "unsendable"


class TooLarge(Unsendable):
    """The job is larger than a message may be."""

    code = "too_large"


class DelayTooLong(Unsendable):
    """The delay is longer than the delay levels can hold and there is no database to keep it."""

    code = "delay_too_long"


class Unroutable(Unsendable):
    """RabbitMQ has no queue for the message."""

    code = "unroutable"


# --- Nobody knows: tried a few times -------------------------------------------------------------


class StepFailed(SmenaError):
    """A CPU step raised an error that cannot cross to another process, or asked to exit."""

    code = "step_failed"


# --- Nobody acts: drop and count -------------------------------------------------------------


class Lost(SmenaError):
    """The work is not ours any more; what it wrote is not committed."""

    code = "lost"


class ClaimLost(Lost):
    """The claim is no longer ours."""

    code = "claim_lost"


class TermLost(Lost):
    """A newer term has begun."""

    code = "term_lost"


class SecondCopy(Lost):
    """Another copy of the same attempt was settled first."""

    code = "second_copy"


# --- Time is up ------------------------------------------------------------------------------


class Overdue(SmenaError):
    """The job's deadline has passed."""

    code = "expired"


# --- The caller acts -------------------------------------------------------------------------


class Refused(SmenaError):
    """The request is refused; the caller must change it or come back later."""

    code = "refused"


# --- The deployer acts -----------------------------------------------------------------------


class Misconfigured(SmenaError):
    """The process cannot run as it is configured."""

    code = "misconfigured"


class Misdeclared(Misconfigured):
    """What the code declares cannot work."""

    code = "misdeclared"


class Misused(Misconfigured):
    """The call cannot work where it is made."""

    code = "misused"


class TopologyMismatch(Misconfigured):
    """A queue or exchange on the broker differs from what Smena declares."""

    code = "topology_mismatch"


class SchemaTooOld(Misconfigured):
    """The database schema is older than this build needs; run `smena db upgrade`."""

    code = "schema_too_old"


class DuplicateName(Misconfigured):
    """Two actors carry one name."""

    code = "duplicate_name"


# --- What interrupts a job -------------------------------------------------------------------


class TimeUp(BaseException):
    """The job's time is up; raised once in its thread, at whatever line it stands.

    A ``BaseException``, so that an actor's ``except Exception`` does not swallow it. Clean up and let it go on: the
    attempt then ends as `TimeLimitExceeded`, or as `Overdue` where it was the job's deadline.
    """

    code: ClassVar[str] = "time_up"


class Shutdown(BaseException):
    """The process is ending; the job goes back to its queue and its attempt is not spent.

    A ``BaseException``, so that an actor's ``except Exception`` does not swallow it.
    """

    code: ClassVar[str] = "shutdown"
