"""An actor's arguments: checked on both sides, and made fit to travel."""

import enum
import traceback
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from pydantic import Base64Bytes, BaseModel, Field, PlainSerializer

from smena.book import Actor, Book, by_name
from smena.errors import InvalidArguments, Unsendable


class Colour(enum.Enum):
    RED = "red"


class Item(BaseModel):
    sku: str = Field(alias="SKU")
    price: Decimal


class Order(BaseModel):
    number: int
    items: list[Item] = []


@dataclass(frozen=True)
class Line:
    number: int
    amount: Decimal
    day: date | None = None


Stamp = Annotated[datetime, PlainSerializer(lambda when: when.timestamp(), return_type=float)]

book = Book("trade")


@book.actor()
def take(
    order: Order,
    line: Line,
    id_: uuid.UUID,
    colour: Colour,
    at: Stamp,
    waits: timedelta,
    raw: Base64Bytes,
    kinds: set[Literal["a", "b"]],
    either: int | str | None,
    pair: tuple[int, Decimal],
    by_name: dict[int, Line],
) -> None: ...


@book.actor()
def anything(value, *more, **others) -> None:  # type: ignore[no-untyped-def]
    ...


@book.actor()
def count(n: int, label: str = "x") -> None: ...


ARGUMENTS: dict[str, Any] = {
    "order": Order(number=1, items=[Item(SKU="a", price=Decimal("1.10"))]),
    "line": Line(3, Decimal("0.1"), date(2026, 1, 2)),
    "id_": uuid.UUID(int=7),
    "colour": Colour.RED,
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "waits": timedelta(minutes=5),
    "raw": b"/wA=",
    "kinds": {"a", "b"},
    "either": None,
    "pair": (1, Decimal("2.50")),
    "by_name": {4: Line(4, Decimal(4))},
}


def over_the_wire(actor: Actor[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    job = actor.message(*args, **kwargs)
    got_args, got_kwargs = msgspec.json.decode(msgspec.json.encode([job.args, job.kwargs]))
    return actor.accepts(tuple(got_args), got_kwargs)


def test_models_dataclasses_and_values_arrive_as_what_was_sent() -> None:
    _, got = over_the_wire(take, **ARGUMENTS)

    assert got == {**ARGUMENTS, "raw": b"\xff\x00"}
    assert str(got["order"].items[0].price) == "1.10"


def test_arguments_arrive_by_position_as_well() -> None:
    got, _ = over_the_wire(take, *ARGUMENTS.values())

    assert dict(zip(ARGUMENTS, got, strict=True)) == {**ARGUMENTS, "raw": b"\xff\x00"}


def test_a_parameter_without_annotation_takes_any_json_value() -> None:
    args, kwargs = over_the_wire(anything, {"a": [1, None]}, 2.5, when=date(2026, 1, 2))

    assert (args, kwargs) == (({"a": [1, None]}, 2.5), {"when": "2026-01-02"})


def test_a_default_is_filled_in_by_the_worker_and_not_frozen_by_the_sender() -> None:
    assert count.message(1).kwargs == {}
    assert count.accepts((1,), {}) == ((1,), {"label": "x"})


@pytest.mark.parametrize(
    ("args", "kwargs", "told"),
    [
        (("one",), {}, "n: Input should be a valid integer"),
        ((), {}, "n: Missing required argument"),
        ((1, 2), {}, "label: Input should be a valid string"),
        ((1, "x", 3), {}, "argument 3: Unexpected positional argument"),
        ((1,), {"n": 2}, "n: Got multiple values"),
        ((1,), {"z": 2}, "z: Unexpected keyword argument"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_on_both_sides_by_name(args: Any, kwargs: Any, told: str) -> None:
    for check in (count.message, lambda *a, **k: count.accepts(a, k)):
        with pytest.raises(InvalidArguments, match=told):
            check(*args, **kwargs)


def test_plain_values_travel_as_they_are_and_what_is_near_to_them_is_converted() -> None:
    assert count.message(2, "y").args == (2, "y")
    near: Any = True
    assert [type(value) for value in count.message(near, "y").args] == [int, str]
    assert count.accepts((2, "y"), {}) == ((2, "y"), {})
    assert count.accepts((2,), {}) == ((2,), {"label": "x"})
    with pytest.raises(Unsendable, match="label holds a NUL"):
        count.message(2, "a\0b")


def test_a_refusal_names_the_path_and_shows_no_value() -> None:
    @book.actor()
    def pay(order: Order, secret: int) -> None: ...

    wrong = "hunt" + "er"
    with pytest.raises(InvalidArguments) as refused:
        pay.accepts(({"number": 1, "items": [{"SKU": "a", "price": wrong}]}, wrong), {})

    assert "order.items.0.price" in str(refused.value)
    assert "hunter" not in "".join(traceback.format_exception(refused.value))
    assert "secret" in str(refused.value)
    assert "hunter" not in str(refused.value)


class Card(BaseModel):
    number: int


@dataclass
class Purse:
    number: int
    note: Any = None


@dataclass
class Price:
    amount: Decimal


SECRET = "4111" + "-SECRET"


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (Purse, Purse(SECRET), "value.number: Input should be a valid integer"),  # type: ignore[arg-type]
        (list[Purse], [Purse(SECRET)], "value.0.number: Input should be a valid integer"),  # type: ignore[arg-type]
        (Card, Card.model_construct(number=SECRET), "value.number: Input should be a valid integer"),  # type: ignore[arg-type]
        (Card, Card.model_construct(), "value.number: Field required"),  # type: ignore[call-arg]
        (Price, Price(1), "value: its field amount holds a value that"),  # type: ignore[arg-type]
        (Any, Card.model_construct(number=SECRET), "value: its field number holds a value that"),  # type: ignore[arg-type]
    ],
)
def test_a_part_of_another_type_than_declared_is_refused_by_its_path_and_shown_to_nobody(
    annotation: Any, value: Any, told: str
) -> None:
    def pay(value): ...  # type: ignore[no-untyped-def]

    pay.__annotations__ = {"value": annotation}
    with pytest.raises(InvalidArguments) as refused:
        Book("misfits").actor()(pay).message(value)

    assert told in str(refused.value)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_value_without_json_form_is_shown_to_nobody() -> None:
    def show(value: str) -> str:
        raise ValueError(value)

    @book.actor()
    def tell(value: Annotated[str, PlainSerializer(show)]) -> None: ...

    with pytest.raises(Unsendable) as refused:
        tell.message(SECRET)
    with pytest.raises(Unsendable) as refused_too:
        by_name("other.actor").message(Purse(1, note=[SECRET, object()]))
    for each in (refused, refused_too):
        assert SECRET not in "".join(traceback.format_exception(each.value))


def test_many_findings_are_cut() -> None:
    @book.actor()
    def add(numbers: list[int]) -> None: ...

    with pytest.raises(InvalidArguments, match="and 995 more"):
        add.accepts((["x"] * 1000,), {})


class Renamed(BaseModel):
    """A model whose JSON form it does not read back."""

    number: int = Field(validation_alias="Number")


def test_what_the_worker_would_refuse_is_refused_before_it_is_sent() -> None:
    @book.actor()
    def read(value: Renamed) -> None: ...

    with pytest.raises(InvalidArguments, match="value"):
        read.message(Renamed(Number=1))


DEEP: list[Any] = []
for _ in range(80):
    DEEP = [DEEP]
CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "value is not a finite number"),
        ([1, {"x": float("-inf")}], r"value\[1\]\.x is not a finite number"),
        ({"a": "b\0c"}, r"value\.a holds a NUL"),
        ("\ud800", "value holds a lone surrogate"),
        ({"\ud800": 1}, "value has no JSON form: UnicodeEncodeError"),
        ({"x": [object()]}, r"value\.x\[0\] has no JSON form.*object"),
        (b"\xff", "value has no JSON form"),
        (DEEP, "nested more than 64 deep"),
        (CIRCLE, "value.* has no JSON form"),
        (1 << 2000, "more than 1024 bits"),
        (len, "value has no JSON form"),
    ],
)
def test_what_cannot_travel_is_refused_with_its_path(value: Any, told: str) -> None:
    with pytest.raises(Unsendable, match=told):
        anything.message(value)
    with pytest.raises(Unsendable, match=told.replace("value", "(value|argument 1)", 1)):
        by_name("other.actor").message(value=value)


def test_a_name_that_cannot_travel_is_refused() -> None:
    for send in (anything.message, by_name("other.actor").message):
        with pytest.raises(Unsendable, match="a name holds a NUL"):
            send(1, **{"\0": 1})


def test_annotations_need_not_be_hashable() -> None:
    @book.actor()
    def tagged(n: Annotated[int, {"unit": "s"}], thing: object) -> None: ...

    assert over_the_wire(tagged, "1", [2]) == ((1, [2]), {})


def test_a_number_in_a_model_that_is_not_finite_is_refused() -> None:
    @book.actor()
    def weigh(grams: float, spread: list[float]) -> None: ...

    with pytest.raises(Unsendable, match="grams is not a finite number"):
        weigh.message(float("inf"), [1.0])
    with pytest.raises(Unsendable, match=r"spread\[0\]"):
        weigh.message(1.0, [float("nan")])


class Loose(BaseModel):
    """A model that looks at nothing."""

    value: Any


def test_a_nan_that_pydantic_would_turn_into_null_is_refused() -> None:
    @book.actor()
    def look(loose: Loose, more: list[Loose] | None = None) -> None: ...

    with pytest.raises(Unsendable, match=r"loose\.value is not a finite number"):
        look.message(Loose(value=float("nan")))
    with pytest.raises(Unsendable, match=r"more\[0\].value.a is not a finite number"):
        look.message(Loose(value=1), [Loose(value={"a": float("inf")})])
