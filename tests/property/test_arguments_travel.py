"""Whatever fits an actor's annotations arrives as it was sent, or is refused before it is sent."""

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from smena.amqp import names as amqp_names
from smena.book import Book, by_name, check_queue_name
from smena.errors import Misconfigured, Unsendable

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
ANYTHING = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.just(object()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()) | st.integers(), inner),
    max_leaves=12,
)


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Line:
    number: int
    price: Decimal


class Order(BaseModel):
    id: UUID
    at: datetime
    lines: list[Line]
    size: Size | None
    note: str
    waits: timedelta
    loose: Any


book = Book("trade")


@book.actor()
def take(order: Order, days: set[date], *lines: Line, **prices: Decimal) -> None: ...


@book.actor()
def anything(*args: Any, **kwargs: Any) -> None: ...


PRICES = st.decimals(allow_nan=False, allow_infinity=False)
LINES = st.builds(Line, st.integers(), PRICES)
ORDERS = st.builds(
    Order,
    id=st.uuids(),
    at=st.datetimes(timezones=st.just(UTC)),
    lines=st.lists(LINES, max_size=3),
    size=st.sampled_from(Size) | st.none(),
    note=TEXT,
    waits=st.timedeltas(timedelta(days=-999), timedelta(days=999)),
    loose=JSON,
)


def arrived(job: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    args, kwargs = msgspec.json.decode(msgspec.json.encode([job.args, job.kwargs]))
    return tuple(args), kwargs


@given(ORDERS, st.sets(st.dates(), max_size=3), st.lists(LINES, max_size=3), st.dictionaries(TEXT, PRICES, max_size=3))
def test_models_and_dataclasses_arrive_equal(
    order: Order, days: set[date], lines: list[Line], prices: dict[str, Decimal]
) -> None:
    prices = {name: price for name, price in prices.items() if name not in {"order", "days"}}

    assert take.accepts(*arrived(take.message(order, days, *lines, **prices))) == ((order, days, *lines), prices)


@given(st.lists(JSON, max_size=3), st.dictionaries(TEXT, JSON, max_size=3))
def test_json_values_arrive_equal_with_the_code_and_without(args: list[Any], kwargs: dict[str, Any]) -> None:
    named = by_name("trade.anything").message(*args, **kwargs)

    assert anything.accepts(*arrived(anything.message(*args, **kwargs))) == (tuple(args), kwargs)
    assert arrived(named) == (tuple(args), kwargs)


@given(ANYTHING)
def test_what_is_not_refused_can_be_held_by_json_and_postgresql(value: Any) -> None:
    for send in (anything.message, by_name("trade.anything").message):
        try:
            job = send(value)
        except Unsendable:
            continue
        assert "\\u0000" not in msgspec.json.encode(job.args).decode().replace("\\\\", "")
        assert all(math.isfinite(number) for number in numbers_in(job.args))


def numbers_in(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers_in(item)]
    return [value] if isinstance(value, float) else []


@given(
    st.text(st.sampled_from("ab.-_*# dealytscnrö")) | st.sampled_from(["lost", "delay.x", "a.dead", "dead", "canary"])
)
def test_a_queue_name_is_judged_alike_where_it_is_declared_and_where_it_is_used(name: str) -> None:
    assert accepted(check_queue_name, name) == accepted(amqp_names.check_queue_name, name)


def accepted(check: Any, name: str) -> bool:
    try:
        check(name)
    except Misconfigured:
        return False
    return True
