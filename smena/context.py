"""Give an actor what it may know and use while it does one job.

The rings make one `Context` for every delivery and hand it to an actor that asks for it. While the job
runs it is also the *current* context of its thread or task: what is sent from there carries its request
id and trace on, and joins its transaction when there is one. A thread that the actor starts by itself
does not inherit it; its messages start a new trace and go straight to the broker.

A service that has a request id of its own says so with `following`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, cast, overload

import structlog
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.clock import SYSTEM, Clock
from smena.errors import Misconfigured, Misused, Overdue, TimedOut
from smena.job import Job, Tick
from smena.step import Step, Watch

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NO_RESOURCES: Final[Mapping[Callable[..., Any], Any]] = MappingProxyType({})


class CpuSteps(Protocol):
    """The worker's process pool, as a context uses it."""

    def run(
        self, fn: Callable[..., T], args: tuple[Any, ...], timeout_s: float | None, within_s: float | None = None
    ) -> T:
        """Run the step in a pool process and return its result, ``within_s`` from now if at all; for a thread."""

    async def arun(
        self, fn: Callable[..., T], args: tuple[Any, ...], timeout_s: float | None, within_s: float | None = None
    ) -> T:
        """Run the step in a pool process; for a coroutine."""


class Context:
    """What one job in one attempt may know and use.

    ``transaction`` and ``atransaction`` open a new transaction of the process's database; without a
    database they are left out. ``resources`` maps a provider's function to its open value. ``steps`` is the process
    pool; without it a CPU step runs where it is called.
    ``watch`` is what interrupts the job. ``due_s`` is when its time is up, on the clock's monotonic side, or None.
    In a unit test ``Context(Job(actor="mail.confirm", queue="mail"))`` is a whole context.
    """

    __slots__ = (
        "_atransaction", "_log", "_resources", "_steps", "_transaction", "_watch", "actor", "clock", "due_s", "effect",
        "job",
    )  # fmt: skip

    effect: Session | AsyncSession | None
    """The session whose commit makes this job's effect durable, while such a transaction is open."""

    def __init__(
        self,
        job: Job,
        *,
        actor: str | None = None,
        clock: Clock = SYSTEM,
        transaction: Callable[[], AbstractContextManager[Session]] | None = None,
        atransaction: Callable[[], AbstractAsyncContextManager[AsyncSession]] | None = None,
        resources: Mapping[Callable[..., Any], Any] = _NO_RESOURCES,
        steps: CpuSteps | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.job = job
        self.actor = actor or job.actor
        self.clock = clock
        self.effect = None
        self.due_s: float | None = None
        self._watch = watch
        self._transaction = transaction
        self._atransaction = atransaction
        self._resources = resources
        self._steps = steps
        self._log: structlog.typing.FilteringBoundLogger | None = None

    @property
    def attempt(self) -> int:
        """Return which attempt this is, from 1."""
        return self.job.attempt

    @property
    def tick(self) -> Tick | None:
        """Return the schedule and the planned time that this job is for; None where no schedule sent it."""
        return self.job.tick

    @property
    def request_id(self) -> str | None:
        """Return the id of the request that this job follows from."""
        return self.job.request_id

    @property
    def traceparent(self) -> str | None:
        """Return the job's W3C trace context."""
        return self.job.traceparent

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """Return a logger that knows the job, its actor, its attempt and its request."""
        if self._log is None:
            self._log = structlog.get_logger().bind(
                job=self.job.id, actor=self.actor, attempt=self.attempt, request_id=self.request_id
            )
        return self._log

    def deadline_s(self) -> float | None:
        """Return the seconds left until the job's deadline (below zero when passed), or None without one."""
        if self.job.deadline_ms is None:
            return None
        return (self.job.deadline_ms - self.clock.now_ms()) / 1000

    def left_s(self) -> float | None:
        """Return the seconds left until this attempt's time is up (its limit, its step's or the job's deadline).

        None means without end, below zero that the time is up. Hand it to what has a timeout of its own.
        """
        if self.due_s is None:
            return self.deadline_s()
        return self.due_s - self.clock.monotonic()

    def step(self, name: str, *, timeout_s: float) -> Step:
        """Return a block with a time of its own: ``with ctx.step("provider", timeout_s=5):``.

        A coroutine writes ``async with``.
        When it is up the block raises `TimedOut`. How long each step of that name took is a metric.
        """
        return Step(name, timeout_s, self, self._watch)

    def cpu(self, fn: Callable[[*Ts], T], *args: *Ts, timeout_s: float | None = None) -> T:
        """Run a CPU step in the worker's process pool and return its result.

        ``fn`` is a function of a module, its arguments and result can be pickled; it computes, and sends and stores
        nothing. It ends within ``timeout_s`` (default: the setting `pool.timeout_s`) and the job's own time, or is
        killed with all it has started: `TimedOut`. Also raises `StepDied`, `OutOfMemory`, `NotPicklable`,
        `StepTooLarge`, and what the step itself raises.
        """
        if self._steps is None:
            return fn(*args)
        return self._steps.run(fn, args, timeout_s, self._time_for_step_s())

    async def acpu(self, fn: Callable[[*Ts], T], *args: *Ts, timeout_s: float | None = None) -> T:
        """Run a CPU step in the worker's process pool without holding the event loop; the twin of `cpu`."""
        if self._steps is None:
            return fn(*args)
        return await self._steps.arun(fn, args, timeout_s, self._time_for_step_s())

    def _time_for_step_s(self) -> float | None:
        left_s = self.left_s()
        if left_s is not None and left_s <= 0:
            overdue = self.deadline_s()
            raise Overdue(actor=self.actor) if overdue is not None and overdue <= 0 else TimedOut(actor=self.actor)
        return left_s

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Open a transaction for the block: commit at its end, roll back when it raises.

        While the job's own transaction is open (it declares ``once``, or asked for a session) this is
        a savepoint in it, so that everything commits together.
        """
        effect = self.plain_effect()
        if effect is not None:
            with effect.begin_nested():
                yield effect
            return
        if self._transaction is None:
            raise Misconfigured("ctx.transaction() needs PostgreSQL: set SMENA_DATABASE_URL", actor=self.actor)
        with self._transaction() as session:
            yield session

    @asynccontextmanager
    async def atransaction(self) -> AsyncIterator[AsyncSession]:
        """Open a transaction for the block of an async job; the twin of `transaction`."""
        effect = self.async_effect()
        if effect is not None:
            async with effect.begin_nested():
                yield effect
            return
        if self._atransaction is None:
            raise Misconfigured("ctx.atransaction() needs PostgreSQL: set SMENA_DATABASE_URL", actor=self.actor)
        async with self._atransaction() as session:
            yield session

    def plain_effect(self) -> Session | None:
        """Return `effect` for a plain call; raise `Misconfigured` when the job is async and must await."""
        if isinstance(self.effect, AsyncSession):
            raise Misused("an async job awaits: `ctx.atransaction()`, `asend`", actor=self.actor)
        return self.effect

    def async_effect(self) -> AsyncSession | None:
        """Return `effect` for an awaited call; raise `Misconfigured` when the job is plain and cannot await."""
        if isinstance(self.effect, Session):
            raise Misused("a plain job does not await: `ctx.transaction()`, `send`", actor=self.actor)
        return self.effect

    @contextmanager
    def committing_with(self, session: Session | AsyncSession) -> Iterator[None]:
        """Let the block's transactions and messages join ``session``; for the ring that owns and commits it."""
        self.effect = session
        try:
            yield
        finally:
            self.effect = None

    @overload
    def resource(self, provider: Callable[[], Generator[T, Any, Any]]) -> T: ...
    @overload
    def resource(self, provider: Callable[[], Iterator[T]]) -> T: ...
    @overload
    def resource(self, provider: Callable[[], AsyncIterator[T]]) -> T: ...
    @overload
    def resource(self, provider: Callable[[], AbstractContextManager[T, Any]]) -> T: ...
    @overload
    def resource(self, provider: Callable[[], AbstractAsyncContextManager[T, Any]]) -> T: ...
    def resource(self, provider: Callable[[], Any]) -> Any:
        """Return the process's open value of a `book.resource` function."""
        try:
            return self._resources[provider]
        except KeyError:
            name = getattr(provider, "__qualname__", repr(provider))
            raise Misused("not a resource of a loaded book", resource=name, actor=self.actor) from None


@dataclass(frozen=True, slots=True)
class Trail:
    """Where a message comes from: a request and a place in its trace."""

    request_id: str | None = None
    traceparent: str | None = None


_NOWHERE: Final = Trail()
_CURRENT: ContextVar[Context | Trail] = ContextVar("smena_context", default=_NOWHERE)


def current() -> Context | None:
    """Return the context of the job that runs here, or None outside a job."""
    here = _CURRENT.get()
    return here if type(here) is Context else None


def time_left_s() -> float | None:
    """Return the seconds left to the job that runs here; None where nothing limits it, or none runs."""
    here = _CURRENT.get()
    return here.left_s() if type(here) is Context else None


def origin() -> Context | Trail:
    """Return what gives new messages their request id and trace: the running job or the request followed."""
    return _CURRENT.get()


class Running:
    """A block in which one context is current (a class, for it stands on the path of every job)."""

    __slots__ = ("_here", "_token")

    def __init__(self, here: Context | Trail) -> None:
        self._here = here
        self._token: Token[Context | Trail] | None = None

    def __enter__(self) -> None:
        self._token = _CURRENT.set(self._here)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _CURRENT.reset(cast("Token[Context | Trail]", self._token))


def running(context: Context) -> Running:
    """Make ``context`` the current one inside a ``with`` block."""
    return Running(context)


def following(*, request_id: str | None = None, traceparent: str | None = None) -> Running:
    """Let what is sent inside a ``with`` block carry this request id and continue this trace."""
    return Running(Trail(request_id, traceparent))
