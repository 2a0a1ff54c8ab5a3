"""Describe one actor: a typed function, its name, its queue and its policy.

An `Actor` is made by `book.actor` and knows nothing of brokers. It can be sent to, asked for its checked
arguments, and called: a call is a plain call of the function, with the injected parameters given by hand.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from typing_extensions import ParamSpec

from smena.book.address import Address
from smena.book.arguments import Args, Arguments, Kwargs
from smena.book.injection import Injected, read_signature, split_injected
from smena.book.key_rule import KeyFunction, KeyRule
from smena.book.names import check_actor_name, check_queue_name
from smena.book.partitioning import Partitioning, PartitionRule
from smena.book.retry import Retry
from smena.book.schedule import Schedule, check_arguments, read_schedule
from smena.book.time_limit import TimeLimit, read_limit
from smena.errors import Misdeclared
from smena.job import Job
from smena.timetable import Misfire, Overlap, When

P = ParamSpec("P")
"""What is sent: the function's parameters without the injected ones."""
R = TypeVar("R")
Q = ParamSpec("Q", default=...)
"""What a plain call takes: all of the function's parameters."""


class Actor(Address[P], Generic[P, R, Q]):
    """A declared actor. All fields are read-only.

    ``place`` is ``file:line`` of the function. ``injects`` names what stands before the sent arguments.
    ``once`` gives the key for checked arguments, or is None. ``retry`` and ``time_limit`` hold what the author said;
    ``on_expired`` is called in the function's place for a job whose deadline has passed. ``partitions`` says where a
    job of an ordered actor goes, and is None for any other. ``schedule`` says when it runs by itself.
    """

    name: str
    queue: str
    fn: Callable[..., Any]
    aliases: tuple[str, ...]
    retry: Retry
    once: KeyRule | None
    is_async: bool
    injects: tuple[Injected, ...]
    time_limit: TimeLimit | None
    on_expired: ExpiryHandler | None
    partitions: PartitionRule | None
    schedule: Schedule | None
    place: str

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        book: str,
        queue: str,
        retry: Retry | None = None,
        once: KeyFunction | None = None,
        aliases: tuple[str, ...] = (),
        time_limit: TimeLimit | float | None = None,
        on_expired: Callable[..., Any] | None = None,
        partitioning: Partitioning | None = None,
        schedule: When | Schedule | None = None,
        misfire: Misfire | None = None,
        overlap: Overlap | None = None,
    ) -> None:
        self.place = check_function(fn)
        self.fn = fn
        self.name = check_actor_name(f"{book}.{fn.__name__}")
        self.queue = check_queue_name(queue)
        self.aliases = tuple(check_actor_name(alias) for alias in _several(aliases))
        self.retry = retry or Retry()
        self.is_async = inspect.iscoroutinefunction(fn)
        self.injects, signature = split_injected(
            read_signature(fn, self.place), is_async=self.is_async, place=self.place
        )
        self.arguments = Arguments(self.name, signature)
        self.accepts: Callable[[Args, Kwargs], tuple[Args, Kwargs]] = self.arguments.accept
        self.once = None if once is None else KeyRule("once", once, signature, self.place)
        self.time_limit = read_limit(time_limit, self.place)
        self.on_expired = None if on_expired is None else ExpiryHandler(on_expired, signature, is_async=self.is_async)
        self.partitions = None if partitioning is None else PartitionRule(partitioning, signature, self.place)
        told = read_schedule(schedule, misfire, overlap, self.place)
        if told is not None and self.partitions is not None:
            raise Misdeclared("an ordered actor has no schedule: let a scheduled one send to it", place=self.place)
        self.schedule = None if told is None else check_arguments(told, self.arguments, self.place)
        functools.update_wrapper(self, fn)

    def message(self, *args: P.args, **kwargs: P.kwargs) -> Job:
        """Make the job without sending it; that of an ordered actor knows its key and its partition."""
        job = super().message(*args, **kwargs)
        return job if self.partitions is None else self.partitions.placed(job, *self.accepts(args, kwargs))

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> R:
        """Call the function itself, here and now; nothing is checked, injected or sent."""
        result: R = self.fn(*args, **kwargs)
        return result

    def __repr__(self) -> str:
        return f"<actor {self.name} on queue {self.queue} at {self.place}>"

    def _travelling(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        return self.arguments.travelling(args, kwargs)


class ExpiryHandler:
    """The function that is called in an actor's place when a job's deadline has passed."""

    __slots__ = ("fn", "injects")

    def __init__(self, fn: Callable[..., Any], sent: inspect.Signature, *, is_async: bool) -> None:
        place = check_function(fn)
        if inspect.iscoroutinefunction(fn) is not is_async:
            raise Misdeclared("`on_expired` is async where its actor is, and plain where it is plain", place=place)
        self.fn = fn
        self.injects, signature = split_injected(read_signature(fn, place), is_async=is_async, place=place)
        if _shape(signature) != _shape(sent):
            told = "`on_expired` takes the arguments that its actor takes"
            raise Misdeclared(told, place=place, actor_takes=", ".join(sent.parameters) or "nothing")


def _shape(signature: inspect.Signature) -> list[tuple[str, object]]:
    return [(each.name, each.kind) for each in signature.parameters.values()]


def check_function(fn: object) -> str:
    """Return ``file:line`` of a function that can be an actor, or raise `Misdeclared` for anything else."""
    if isinstance(fn, Actor):
        raise Misdeclared("this function is an actor already; use aliases= for a second name", place=fn.place)
    if not inspect.isfunction(fn):
        raise Misdeclared("an actor is a function declared with `def` or `async def`", got=type(fn).__name__)
    code = inspect.unwrap(fn).__code__
    place = f"{code.co_filename}:{code.co_firstlineno}"
    if fn.__name__ == "<lambda>":
        raise Misdeclared("a lambda has no name to send to: declare the actor with `def`", place=place)
    if "." in fn.__qualname__.rpartition("<locals>.")[2]:
        raise Misdeclared("an actor is a function, not a method: declare it outside the class", place=place)
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise Misdeclared("an actor returns, it does not yield", place=place)
    if inspect.iscoroutinefunction(inspect.unwrap(fn)) and not inspect.iscoroutinefunction(fn):
        raise Misdeclared("a decorator round an async actor must be async itself", place=place)
    return place


def _several(aliases: object) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise Misdeclared("aliases is a tuple of names", aliases=aliases)
    return tuple(aliases)  # type: ignore[arg-type]  # what an untyped author may pass is checked name by name
