"""Open what a process's jobs share, once, and close it at the end.

A resource is a function that yields one value: a generator, an async generator, or a function that
returns a context manager. It is declared with `book.resource` and fetched with ``ctx.resource(function)``.
A worker opens all of them, in the order of their declaration, before its first job, and closes them in
reverse in the drain; async ones live in the worker's event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, TypeAlias, cast

from smena.errors import Misdeclared

Provider: TypeAlias = Callable[[], Any]
InLoop: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]
"""Run a coroutine in the process's event loop and wait for what it returns."""
OnError: TypeAlias = Callable[[str, BaseException], None]
"""Hear that closing the named resource failed."""

_Manager: TypeAlias = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


class Resources(Mapping[Provider, Any]):
    """The open resources of one process, by their functions."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        self._providers = tuple(providers)
        self._managers: list[tuple[Provider, _Manager]] = []
        self._values: dict[Provider, Any] = {}

    def __getitem__(self, provider: Provider) -> Any:
        return self._values[provider]

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def open_all(self, in_loop: InLoop, on_error: OnError) -> None:
        """Open all in order; if one fails, close those before it and let its error rise."""
        for provider in self._providers:
            try:
                self._open(provider, in_loop)
            except BaseException:
                self.close_all(in_loop, on_error)
                raise

    def close_all(self, in_loop: InLoop, on_error: OnError) -> None:
        """Close all that are open, the last first; one that fails does not keep the others open."""
        while self._managers:
            provider, manager = self._managers.pop()
            self._values.pop(provider, None)
            try:
                if isinstance(manager, AbstractAsyncContextManager):
                    in_loop(_leave(manager))
                else:
                    manager.__exit__(None, None, None)
            except Exception as error:  # noqa: BLE001 - the seam: a user's clean-up may fail, the drain goes on
                on_error(name_of(provider), error)

    def _open(self, provider: Provider, in_loop: InLoop) -> None:
        manager = _manager(provider)
        value = in_loop(_enter(manager)) if isinstance(manager, AbstractAsyncContextManager) else manager.__enter__()
        self._managers.append((provider, manager))
        self._values[provider] = value


def name_of(provider: Provider) -> str:
    """Return ``module.function`` of a provider."""
    return f"{getattr(provider, '__module__', '?')}.{getattr(provider, '__qualname__', repr(provider))}"


def check_provider(provider: Provider) -> None:
    """Raise `Misdeclared` unless ``provider`` is a function that can be called without arguments."""
    if not inspect.isfunction(provider):
        raise Misdeclared("a resource is a function that yields its value", got=type(provider).__name__)
    if any(each.default is each.empty and each.kind not in _VARIADIC for each in _parameters(provider)):
        raise Misdeclared("a resource's function takes no arguments", resource=name_of(provider))
    if inspect.iscoroutinefunction(provider):
        raise Misdeclared("an async resource yields its value instead of returning it", resource=name_of(provider))


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _parameters(provider: Provider) -> list[inspect.Parameter]:
    return list(inspect.signature(provider).parameters.values())


def _manager(provider: Provider) -> _Manager:
    if inspect.isasyncgenfunction(provider):
        return asynccontextmanager(provider)()
    if inspect.isgeneratorfunction(provider):
        return contextmanager(provider)()
    manager = provider()
    if not isinstance(manager, AbstractContextManager | AbstractAsyncContextManager):
        raise Misdeclared("a resource's function yields, or returns a context manager", resource=name_of(provider))
    return cast("_Manager", manager)


async def _enter(manager: AbstractAsyncContextManager[Any]) -> Any:
    return await manager.__aenter__()


async def _leave(manager: AbstractAsyncContextManager[Any]) -> None:
    await manager.__aexit__(None, None, None)
