"""Declare actors and resources, bound to nothing.

A `Book` is a list that a module fills while it is imported: no broker, no connection. A process that
loads the module binds what the book holds; a service that only sends needs no more than the book.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, TypeVar, cast

from smena.book.actor import Actor
from smena.book.declaration import Declaration
from smena.book.key_rule import KeyFunction
from smena.book.names import check_actor_name
from smena.book.partitioning import OnDead, read_partitioning
from smena.book.resources import check_provider
from smena.book.retry import Retry
from smena.book.schedule import Schedule
from smena.book.time_limit import TimeLimit
from smena.errors import DuplicateName
from smena.timetable import Misfire, Overlap, When
from smena.timetable.errand import Errand

Opens = Iterator[Any] | AsyncIterator[Any] | AbstractContextManager[Any, Any] | AbstractAsyncContextManager[Any, Any]
ProviderT = TypeVar("ProviderT", bound=Callable[[], Opens])


class Book:
    """A named set of actors; an actor's full name is ``book.function``."""

    def __init__(self, name: str) -> None:
        self.name = check_actor_name(name)
        self.place = _callers_place()
        self._actors: dict[str, Actor[..., Any]] = {}
        self._providers: list[Callable[[], Any]] = []

    @property
    def actors(self) -> tuple[Actor[..., Any], ...]:
        """Return the declared actors, in order."""
        return tuple(self._actors.values())

    @property
    def providers(self) -> tuple[Callable[[], Any], ...]:
        """Return the functions of the declared resources, in order."""
        return tuple(self._providers)

    def actor(
        self,
        *,
        queue: str = "default",
        retry: Retry | None = None,
        once: KeyFunction | None = None,
        aliases: tuple[str, ...] = (),
        time_limit: TimeLimit | float | None = None,
        on_expired: Callable[..., Any] | None = None,
        schedule: When | Schedule | None = None,
        misfire: Misfire | None = None,
        overlap: Overlap | None = None,
        partition_by: KeyFunction | None = None,
        partitions: int | None = None,
        on_dead: OnDead | None = None,
    ) -> Declaration:
        """Declare the decorated function as an actor.

        ``retry`` overrides the settings' policy. ``once`` gives a key from the arguments: of all jobs of
        this actor with one key, one takes effect (needs PostgreSQL). ``aliases`` are full names under
        which jobs may still arrive after a rename. ``time_limit`` (seconds, or a `TimeLimit`) bounds one attempt.
        ``on_expired`` takes the actor's arguments and is called in its place when the job's deadline has passed;
        without it the job is dead. ``schedule`` (`cron`, `every`, or a `Schedule` with arguments) makes it run by
        itself, ``misfire`` and ``overlap`` say what becomes of ticks that were missed or come too soon.

        ``partition_by`` gives a key from the arguments: jobs of one key run one after the other, in the order of their
        sending, and never twice (it implies ``once``, by the job's id, and needs PostgreSQL). The queue is cut into
        so many ``partitions`` (32), for all its actors alike. ``on_dead`` says what follows when a job of a key
        dies: ``"block"`` (its key waits for an operator, the default) or ``"skip"`` (its key goes on).

        Raises `Misdeclared` with the place of what does not fit.
        """
        partitioning = read_partitioning(partition_by, partitions, on_dead)

        def declare(fn: Callable[..., Any], /) -> Actor[..., Any]:
            made: Actor[..., Any] = Actor(
                fn,
                book=self.name,
                queue=queue,
                retry=retry,
                once=once,
                aliases=aliases,
                time_limit=time_limit,
                on_expired=on_expired,
                schedule=schedule,
                misfire=misfire,
                overlap=overlap,
                partitioning=partitioning,
            )
            return self._listed(made)

        return cast("Declaration", declare)

    def once_per_deploy(
        self,
        key: str,
        *,
        queue: str = "default",
        retry: Retry | None = None,
        time_limit: TimeLimit | float | None = None,
    ) -> Declaration:
        """Declare work that a fleet does once in its life, after the first deploy that has it: a backfill, say.

        It runs as a job without arguments, until it is done or dead; only `smena once KEY` runs it again. With a
        session it takes effect as a whole; without one it may work piece by piece (`smena.schedules.leave_off`).
        Needs PostgreSQL and a scheduler.
        """
        errand = Schedule(Errand(check_actor_name(key)))

        def declare(fn: Callable[..., Any], /) -> Actor[..., Any]:
            def made(once: KeyFunction | None = None) -> Actor[..., Any]:
                return Actor(
                    fn, book=self.name, queue=queue, retry=retry, once=once, time_limit=time_limit, schedule=errand
                )

            plain = made()
            has_session = any(injected != "context" for injected in plain.injects)
            return self._listed(made(lambda: key) if has_session else plain)

        return cast("Declaration", declare)

    def _listed(self, made: Actor[..., Any]) -> Actor[..., Any]:
        earlier = self._actors.setdefault(made.name, made)
        if earlier is not made:
            raise DuplicateName(name=made.name, first=earlier.place, second=made.place)
        return made

    def resource(self, provider: ProviderT) -> ProviderT:
        """Declare the decorated function as a resource; it stays the plain function that it was."""
        check_provider(provider)
        self._providers.append(provider)
        return provider

    def __repr__(self) -> str:
        return f"Book({self.name!r})"


def _callers_place() -> str:
    """Return ``file:line`` of the code that makes a book."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_back if frame is not None and frame.f_back is not None else None
    return f"{caller.f_code.co_filename}:{caller.f_lineno}" if caller is not None else "?"
