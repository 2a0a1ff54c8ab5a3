"""What may be declared as an actor, and how the author is told what may not."""

import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from smena.book import Book, Retry
from smena.context import Context
from smena.errors import DuplicateName, Misconfigured
from smena.job import Job


class OwnSession(Session):
    """A library's own kind of session."""


def declare(fn: Callable[..., Any], **policy: Any) -> Any:
    return Book("trade").actor(**policy)(fn)


def test_an_actor_is_named_by_book_and_function_and_knows_its_place() -> None:
    def charge(invoice: str) -> None:
        """Charge it."""

    actor = declare(charge, queue="payments", aliases=("old.charge",), retry=Retry(attempts=2))

    assert (actor.name, actor.queue, actor.aliases) == ("trade.charge", "payments", ("old.charge",))
    assert actor.place == f"{__file__}:{charge.__code__.co_firstlineno}"
    assert actor.retry == Retry(attempts=2)
    assert (actor.is_async, actor.injects, actor.once) == (False, (), None)
    assert actor.__doc__ == "Charge it."


def test_injected_parameters_are_stripped_from_what_is_sent() -> None:
    def nothing(n: int) -> None: ...
    def context(ctx: Context, /, n: int) -> None: ...
    def session(session: Session, /, n: int) -> None: ...
    def both(ctx: Context, session: Session, /, n: int) -> None: ...
    async def async_session(session: AsyncSession, /, n: int) -> None: ...
    async def async_both(ctx: Context, session: AsyncSession, /, n: int) -> None: ...

    declared = [declare(fn) for fn in (nothing, context, session, both, async_session, async_both)]

    assert [actor.injects for actor in declared] == [
        (),
        ("context",),
        ("session",),
        ("context", "session"),
        ("asession",),
        ("context", "asession"),
    ]
    assert all(actor.message(n=1).kwargs == {"n": 1} for actor in declared)


def test_a_call_is_a_plain_call_that_needs_no_broker() -> None:
    def double(ctx: Context, /, n: int) -> tuple[str, int]:
        return ctx.actor, 2 * n

    assert declare(double)(Context(Job(actor="any", queue="any")), 4) == ("any", 8)


async def test_a_call_of_an_async_actor_is_awaited() -> None:
    async def double(n: int) -> int:
        return 2 * n

    actor = declare(double)

    assert actor.is_async
    assert await actor(4) == 8


def test_actors_may_take_any_number_of_arguments() -> None:
    def total(first: int, *more: int, scale: float = 1.0, **labels: str) -> None: ...

    job = declare(total).message("1", 2, "3", scale=2, colour="red")

    assert (job.args, job.kwargs) == ((1, 2, 3), {"scale": 2.0, "colour": "red"})


def lambda_actor() -> Any:
    return declare(lambda n: n)


def method_actor() -> Any:
    class Shop:
        def charge(self, n: int) -> None: ...

    return declare(Shop.charge)


def bound_method_actor() -> Any:
    class Shop:
        def charge(self, n: int) -> None: ...

    return declare(Shop().charge)


def class_actor() -> Any:
    class Shop: ...

    return declare(Shop)


def partial_actor() -> Any:
    return declare(functools.partial(print, "x"))


def generator_actor() -> Any:
    def numbers() -> Iterator[int]:
        yield 1

    return declare(numbers)


def async_generator_actor() -> Any:
    async def numbers() -> AsyncIterator[int]:
        yield 1

    return declare(numbers)


def twice_declared_actor() -> Any:
    def charge(n: int) -> None: ...

    return declare(declare(charge))


def sync_wrapper_of_async_actor() -> Any:
    async def charge(n: int) -> None: ...

    @functools.wraps(charge)
    def logged(n: int) -> Coroutine[Any, Any, None]:
        return charge(n)

    return declare(logged)


def context_not_positional_only() -> Any:
    def charge(ctx: Context, n: int) -> None: ...

    return declare(charge)


def context_not_first() -> Any:
    def charge(n: int, ctx: Context, /) -> None: ...

    return declare(charge)


def session_before_context() -> Any:
    def charge(session: Session, ctx: Context, /) -> None: ...

    return declare(charge)


def session_in_an_async_actor() -> Any:
    async def charge(session: Session, /) -> None: ...

    return declare(charge)


def async_session_in_a_plain_actor() -> Any:
    def charge(session: AsyncSession, /) -> None: ...

    return declare(charge)


def both_sessions() -> Any:
    async def charge(session: Session, asession: AsyncSession, /) -> None: ...

    return declare(charge)


def subclassed_session() -> Any:
    def charge(session: OwnSession, /) -> None: ...

    return declare(charge)


def keyword_only_context() -> Any:
    def charge(*, ctx: Context) -> None: ...

    return declare(charge)


def unresolvable_annotation() -> Any:
    def charge(order: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    return declare(charge)


def uncheckable_annotation() -> Any:
    class Opaque: ...

    def charge(order: Opaque) -> None: ...

    return declare(charge)


def text_for_aliases() -> Any:
    def charge() -> None: ...

    return declare(charge, aliases="old.charge")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda_actor, "a lambda has no name"),
        (method_actor, "not a method"),
        (bound_method_actor, "is a function"),
        (class_actor, "is a function"),
        (partial_actor, "is a function"),
        (generator_actor, "does not yield"),
        (async_generator_actor, "does not yield"),
        (twice_declared_actor, "is an actor already"),
        (sync_wrapper_of_async_actor, "must be async itself"),
        (context_not_positional_only, "'ctx' is not positional-only: write `/` after it"),
        (context_not_first, "injected parameters stand first"),
        (session_before_context, "injected parameters stand first"),
        (both_sessions, "injected parameters stand first"),
        (session_in_an_async_actor, "an async actor asks for AsyncSession"),
        (async_session_in_a_plain_actor, "a plain actor asks for Session"),
        (subclassed_session, "ask for Session itself"),
        (keyword_only_context, "positional-only"),
        (unresolvable_annotation, "cannot be resolved"),
        (uncheckable_annotation, "cannot be checked"),
        (text_for_aliases, "aliases is a tuple"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_cannot_be_an_actor_is_refused_with_the_reason(wrong: Callable[[], Any], told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        wrong()


def test_a_refusal_names_file_and_line() -> None:
    with pytest.raises(Misconfigured, match=r"test_actor_declaration\.py:\d+"):
        context_not_first()


def test_one_name_twice_in_a_book_is_refused_with_both_places() -> None:
    book = Book("trade")

    def first() -> None: ...
    def second() -> None: ...

    second.__name__ = "first"
    book.actor()(first)
    with pytest.raises(DuplicateName) as refused:
        book.actor()(second)

    assert f"{__file__}:{first.__code__.co_firstlineno}" in str(refused.value)
    assert f"{__file__}:{second.__code__.co_firstlineno}" in str(refused.value)


@pytest.mark.parametrize(
    "queue", ["", "*", "a.*", "#", "a b", "a..b", ".a", "a.", "lost", "a.dead", "ü", "q" * 128, None]
)
def test_a_queue_name_that_the_broker_would_misread_is_refused(queue: Any) -> None:
    def charge() -> None: ...

    with pytest.raises(Misconfigured):
        declare(charge, queue=queue)


@pytest.mark.parametrize("name", ["", "a b", "1st", "pay.", "b" * 201, 7])
def test_a_book_needs_a_name_that_can_travel(name: Any) -> None:
    with pytest.raises(Misconfigured):
        Book(name)
