"""The mover of `ordered.py` as it is after its queue got twice the partitions."""

from sqlalchemy.orm import Session

import smena
from smena import Context
from tests.acceptance.jobs import ordered

book = smena.Book("ordered")


@book.actor(queue="ordered", partition_by=lambda key: key, partitions=8)
def move(ctx: Context, session: Session, /, key: str, number: int) -> None:
    """Take effect."""
    ordered.note(ctx, session, key, number)
