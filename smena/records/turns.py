"""Commit an ordered job's effect only in its turn: under its partition's term, and with its parked row gone.

Text for one simple query, made for `HoldableConnection.keep`: it travels with the COMMIT. The fence is the one of
`smena/store/terms.py`; where it finds no row it divides by zero, so that the server stops before the COMMIT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import psycopg

from smena.errors import TermLost
from smena.records.once_keys import Quote
from smena.store.terms import Term


@dataclass(frozen=True, slots=True)
class Turn:
    """The term under which a job of a partition may take effect, and the row that it waited in, if it did.

    ``idle_s`` is how long its transaction may be idle: less than the lease, so that what a frozen owner has locked is
    free when the next one comes. None leaves it to the session.
    """

    term: Term
    row: int | None = None
    idle_s: float | None = None


PREPARE: Final = b"""
PREPARE smena_unpark (bigint) AS DELETE FROM smena.key_parked WHERE seq = $1;
PREPARE smena_fence (text, bigint) AS
    SELECT 1 / count(*) FROM (
        SELECT 1 FROM smena.leases WHERE name = $1 AND term = $2 FOR KEY SHARE
    ) AS ours
"""


def beginning(turn: Turn) -> bytes:
    """Return the statement that bounds the job's transaction from its begin."""
    if turn.idle_s is None:
        return b""
    return b";SET LOCAL idle_in_transaction_session_timeout=%d" % max(1, round(turn.idle_s * 1000))


def ending(quote: Quote, turn: Turn) -> bytes:
    """Return the last statements before the COMMIT; `is_over` tells their failure."""
    unpark = b"" if turn.row is None else b"EXECUTE smena_unpark(%d);" % turn.row
    return unpark + b"EXECUTE smena_fence(%b,%d);" % (quote(turn.term.lease.encode()), turn.term.number)


def lost(turn: Turn) -> TermLost:
    """Return the error of a job whose turn was over before its effect could commit."""
    return TermLost(lease=turn.term.lease, term=turn.term.number)


NOT_OURS: Final = psycopg.errors.DivisionByZero
"""What `ending` raises under a term that is over."""
