"""How an actor's `once` key comes from its arguments."""

from collections.abc import Callable
from typing import Any

import pytest

from smena.book import Book
from smena.errors import Misconfigured


def key_of(fn: Callable[..., Any], once: Callable[..., Any], *args: Any, **kwargs: Any) -> str | None:
    actor: Any = Book("trade").actor(once=once)(fn)
    checked_args, checked_kwargs = actor.accepts(args, kwargs)
    found: str | None = actor.once(*checked_args, **checked_kwargs)
    return found


def pay(order: int, note: str = "none", *, part: int = 1) -> None: ...


def several(first: int, *more: int, part: int = 7) -> None: ...


def positional(order: int, /, **labels: str) -> None: ...


@pytest.mark.parametrize(
    ("fn", "once", "args", "kwargs", "key"),
    [
        (pay, lambda order: order, (5,), {}, "5"),
        (pay, lambda order: order, (), {"order": "5"}, "5"),
        (pay, lambda part, order: f"{order}/{part}", (5,), {}, "5/1"),
        (pay, lambda note: note, (5,), {}, "none"),
        (pay, lambda: "only one ever", (5,), {}, "only one ever"),
        (pay, lambda note: None if note == "none" else note, (5,), {}, None),
        (pay, lambda order, prefix="p": f"{prefix}{order}", (5,), {}, "p5"),
        (pay, lambda **everything: str(sorted(everything)), (), {"order": 5}, "['note', 'order', 'part']"),
        (several, lambda part: part, (1, 2, 3, 4), {}, "7"),
        (several, lambda *args, **kwargs: f"{len(args)}{len(kwargs)}", (1, 2, 3), {}, "31"),
        (positional, lambda order: order, (1,), {"order": "label"}, "1"),
    ],
)
def test_the_key_is_computed_from_checked_arguments_however_they_were_sent(
    fn: Callable[..., Any], once: Callable[..., Any], args: Any, kwargs: Any, key: str | None
) -> None:
    assert key_of(fn, once, *args, **kwargs) == key


@pytest.mark.parametrize("wrong", [1.5, True, b"x", ["x"]])
def test_a_key_of_another_type_is_the_authors_mistake(wrong: object) -> None:
    with pytest.raises(TypeError, match="a key is a str, an int or None"):
        key_of(pay, lambda: wrong, 1)


def test_a_number_beyond_pythons_digits_is_no_key() -> None:
    with pytest.raises(TypeError, match="too many digits"):
        key_of(pay, lambda: 10**5000, 1)


async def async_key(order: int) -> str:
    return str(order)


def test_a_key_function_that_does_not_fit_is_refused_at_its_declaration() -> None:
    with pytest.raises(Misconfigured, match=r"'invoice', which the actor does not take.*test_once_key\.py:\d+"):
        key_of(pay, lambda invoice: invoice, 1)
    with pytest.raises(Misconfigured, match="a plain function"):
        key_of(pay, async_key, 1)
    with pytest.raises(Misconfigured, match="a plain function"):
        key_of(pay, "order", 1)  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="wrap it in a lambda"):
        key_of(pay, hash, 1)
