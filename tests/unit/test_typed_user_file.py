"""What type checkers see of an actor: its own parameters, and a wrong type on the line where it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures import type_checker

ROOT = Path(__file__).resolve().parents[2]

USER_FILE = """
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any, assert_type

from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

import smena

book = smena.Book("shop")


class Order(BaseModel):
    number: int
    amount: Decimal = Decimal(0)


@book.resource
def price_list() -> Iterator[dict[str, Decimal]]:
    yield {}


@book.resource
async def mailer() -> AsyncIterator[int]:
    yield 1


@book.actor(queue="payments", once=lambda order: order.number, retry=smena.Retry(attempts=3))
def charge(ctx: smena.Context, session: Session, /, order: Order, note: str = "") -> int:
    assert_type(ctx.resource(price_list), dict[str, Decimal])
    assert_type(ctx.resource(mailer), int)
    with ctx.transaction() as inner:
        assert_type(inner, Session)
    return 1


@book.actor()
async def confirm(ctx: smena.Context, session: AsyncSession, /, order: Order) -> str:
    charge.send(order)
    return ""


@book.actor()
def with_context(ctx: smena.Context, /, n: int) -> None: ...


@book.actor()
def with_session(session: Session, /, n: int) -> None: ...


@book.actor()
async def with_async_session(session: AsyncSession, /, n: int) -> None: ...


@book.actor()
async def bare(n: int, *more: int, **labels: str) -> None: ...


@book.actor()
def takes_anything(payload: Any, n: int = 0) -> None: ...


@book.actor()
def takes_object(ctx: smena.Context, /, payload: object) -> None: ...


@book.actor()
def takes_all(*args: Any, **kwargs: Any) -> None: ...


@book.actor()
def session_and_anything(ctx: smena.Context, session: Session, /, payload: Any, n: int = 0) -> None: ...


order = Order(number=1)

assert_type(charge.send(order, note="x"), smena.Job)
assert_type(charge.message(order), smena.Job)
charge.send_later(30, order)
with_context.send(n=1)
with_session.message(1)
bare.send(1, 2, 3, colour="red")
smena.by_name("mail.any", queue="mail").send(1, anything={})
takes_anything.send(1, 2)
takes_object.send(payload=1)
takes_all.send(1, 2, three=3)
session_and_anything.send(payload={}, n=2)
smena.send_many([charge.message(order)])


async def tell() -> None:
    assert_type(await confirm.asend(order), smena.Job)
    await with_async_session.asend(1)
    await bare.asend_later(1.5, 1)
    assert_type(await confirm(smena.Context(charge.message(order)), AsyncSession(), order), str)


def test(session: Session) -> None:
    assert_type(charge(smena.Context(charge.message(order)), session, order), int)


def takes_any(actor: smena.Actor[..., Any]) -> None: ...


takes_any(charge)
takes_any(bare)

charge.send("order")  # wrong
charge.send(order, note=3)  # wrong
charge.message()  # wrong
charge.send_later("soon", order)  # wrong
charge.send(smena.Context(charge.message(order)), order)  # wrong
charge(order)  # wrong
with_context.send("n")  # wrong
with_session.message(None)  # wrong
with_async_session.message(n="n")  # wrong
bare.message(1, "two")  # wrong
bare.message(1, colour=2)  # wrong
session_and_anything.send({}, "n")  # wrong
book.actor(queue=7)  # wrong


async def tell_wrongly() -> None:
    await confirm.asend("order")  # wrong
"""

WRONG = {number for number, line in enumerate(USER_FILE.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "user_file.py"
    path.write_text(USER_FILE)
    return path


def errors_of(run: "subprocess.CompletedProcess[str]", line: str) -> set[int]:
    assert run.returncode == 1, run.stdout + run.stderr
    return {int(found) for found in re.findall(line, run.stdout)}


@type_checker.patient
def test_mypy_sees_an_actors_own_parameters_and_every_wrong_type(user_file: Path) -> None:
    run = type_checker.check([user_file], user_file.parent)

    assert errors_of(run, r"user_file\.py:(\d+): error:") == WRONG


@type_checker.patient
def test_pyright_sees_an_actors_own_parameters_and_every_wrong_type(user_file: Path) -> None:
    checker = [sys.executable, "-m", "basedpyright", "--level", "error", "--pythonpath", sys.executable, str(user_file)]
    run = subprocess.run(
        checker, cwd=ROOT, capture_output=True, text=True, timeout=type_checker.PATIENCE_S, check=False
    )

    assert errors_of(run, r"user_file\.py:(\d+):\d+ - error:") == WRONG
