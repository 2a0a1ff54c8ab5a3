"""A job that does what its own arguments say, attempt by attempt: every copy of an attempt comes to the same."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

import smena
from smena import Context, Permanent, Retry, Transient
from smena.errors import PoolBusy

CREATE = "CREATE TABLE IF NOT EXISTS settled_effects (key text)"
_EFFECT = sa.text("INSERT INTO settled_effects VALUES (:key)")

book = smena.Book("settling")


class Refused(Permanent):
    """The job was to die."""

    code = "refused"


@book.actor(
    queue="settling", once=lambda key: key, retry=Retry(base_s=0.05, cap_s=0.1, attempts=1000, unexpected_attempts=1000)
)
def follow(ctx: Context, session: Session, /, key: str, script: list[str]) -> None:
    """Do what the script says of this attempt: ``done``, ``dead``, ``fail``, ``bug``, ``exit``, ``later``.

    The last word holds for all further attempts. Done is a row and, in the same transaction, a message.
    """
    match script[min(ctx.attempt, len(script)) - 1]:
        case "dead":
            raise Refused
        case "fail":
            raise Transient
        case "bug":
            raise ZeroDivisionError
        case "exit":
            raise SystemExit(3)
        case "later" if not ctx.job.snoozes:
            raise PoolBusy
        case "later":
            raise Transient
    session.execute(_EFFECT, {"key": key})
    after.send(key)


@book.actor(queue="settled")
def after(key: str) -> None:
    """Stand for what a job sends on; nothing here runs it."""
