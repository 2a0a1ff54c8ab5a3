"""Ordered actors. Each effect is a row in the table `moves`, whose numbers tell in which order they happened."""

import os
import time

import sqlalchemy as sa
from sqlalchemy.orm import Session

import smena
from smena import Context, Permanent, Retry, Transient

CREATE = "CREATE TABLE moves (seq bigint GENERATED ALWAYS AS IDENTITY, key text, number int, attempt int, pid int)"
_MOVE = sa.text("INSERT INTO moves (key, number, attempt, pid) VALUES (:key, :number, :attempt, :pid)")

book = smena.Book("ordered")


class Broken(Permanent):
    """No retry can help."""

    code = "broken"


def note(ctx: Context, session: Session, key: str, number: int) -> None:
    """Write down that a move took effect."""
    session.execute(_MOVE, {"key": key, "number": number, "attempt": ctx.attempt, "pid": os.getpid()})


@book.actor(queue="ordered", partition_by=lambda key: key, partitions=4, retry=Retry(base_s=0.05, cap_s=0.1))
def move(ctx: Context, session: Session, /, key: str, number: int, fails: int = 0, takes_s: float = 0.002) -> None:
    """Take effect after so many failures."""
    time.sleep(takes_s)
    if ctx.attempt <= fails:
        raise Transient("not yet")
    note(ctx, session, key, number)


@book.actor(queue="ordered", partition_by=lambda key: key, partitions=4)
def breaks(ctx: Context, session: Session, /, key: str, number: int) -> None:
    """Die, and block the key."""
    raise Broken(number=number)


@book.actor(queue="ordered", partition_by=lambda key: key, partitions=4, on_dead="skip")
def breaks_off(ctx: Context, session: Session, /, key: str, number: int) -> None:
    """Die, and let the key go on."""
    raise Broken(number=number)
