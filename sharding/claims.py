"""Take slices of a batch under a lease and a term, keep them, and finish them only while they are ours.

A slice is a row: a run of items that are neither done nor dead. A claim takes free rows (`FOR UPDATE SKIP LOCKED`,
so claimers never wait for each other), parts the last one where it is too long, and holds them under a term that
grows with every taking. Finishing deletes the rows *of that term*; fewer than were taken mean that somebody else
has them by now: `ClaimLost`, and the transaction is rolled back (guarantee 3). The items themselves are never written
again: a batch of a million leaves a few thousand dead rows, whoever holds a snapshot meanwhile.

Who held it and is gone is not to blame for that alone: a drain, a lost connection and a frozen process leave slices as
a poison item does. It is blamed on a *strike* (`smena/records/strikes.py`) against the very job that held it.

All times are the database's. What waits for a retry is a slice that nobody may take before its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from sharding.reading import UnreadableItem, read, read_each
from smena.errors import ClaimLost
from smena.store.escapes import storable

MOST_PIECES: Final = 32
"""Rows that one claim takes at most: retries leave many short ones."""

LONGEST_TEXT: Final = 16 * 1024
"""Characters of an error's text or traceback that are kept of a dead item."""

BLAMED: Final = """
    SELECT EXISTS (SELECT 1 FROM smena.strikes AS k WHERE k.life = split_part(s.owner, '/', 1)
                   AND k.job_id = substr(s.owner, strpos(s.owner, '/') + 1)) AS blamed
"""
"""Whether the job that held a slice is struck for the death of its process. One that is cleared of it stays so: it was
shown to be harmless with other items."""

TAKEN: Final = """taken AS (
    UPDATE smena.batch_slices AS s
    SET owner = :owner, term = s.term + 1, last = w.upto,
        losses = CASE WHEN blamed AND upto < w.last THEN 1 ELSE w.losses END,
        lease_until = clock_timestamp() + make_interval(secs => :lease_s)
    FROM wanted AS w WHERE s.id = w.id
    RETURNING s.id, s.term, s.first, s.last, s.attempt, s.losses
)"""
"""The step of a claim, in either mode, that puts what is ``wanted`` under our lease and its next term."""

TAKE: Final = sa.text(f"""
WITH free AS (
    SELECT s.id, s.first, s.last, s.attempt, b.blamed, s.losses + CAST(b.blamed AS int) AS losses
    FROM smena.batch_slices AS s CROSS JOIN LATERAL ({BLAMED}) AS b
    WHERE s.batch = :batch AND s.first >= :start AND s.lease_until <= clock_timestamp()
      AND EXISTS (SELECT 1 FROM smena.batches WHERE id = :batch AND state = 'running' AND epoch = :epoch)
    ORDER BY s.first
    LIMIT :pieces
    FOR UPDATE OF s SKIP LOCKED
), measured AS (
    SELECT *, last - first + 1 AS size, sum(last - first + 1) OVER (ORDER BY first) - (last - first + 1) AS before,
           max(losses) OVER (ORDER BY first) AS suspected
    FROM free
), wanted AS (
    SELECT id, first, last, attempt, blamed, losses,
           least(CASE WHEN size * 2 <= (:items - before) * 3 THEN last
                      ELSE first + CAST(:items - before AS bigint) - 1 END,
                 CASE WHEN blamed AND size > 1 THEN first + size / 2 - 1 ELSE last END) AS upto
    FROM measured WHERE before = 0 OR (before * 4 <= :items * 3 AND suspected = 0)
), {TAKEN}, rest AS (
    INSERT INTO smena.batch_slices (batch, first, last, attempt, losses)
    SELECT :batch, upto + 1, last, attempt, least(losses, 1) FROM wanted WHERE upto < last
)
SELECT id, term, first, last, attempt, losses,
       (SELECT '[' || string_agg(CAST(item AS text), ',' ORDER BY number) || ']'
        FROM smena.batch_items WHERE batch = :batch AND number BETWEEN taken.first AND taken.last) AS items
FROM taken ORDER BY first
""")  # noqa: S608 - constants
_TEXTS: Final = sa.text("""
SELECT CAST(item AS text) FROM smena.batch_items
WHERE batch = :batch AND number BETWEEN :first AND :last ORDER BY number
""")
_CLAIMS: Final = "unnest(CAST(:ids AS bigint[]), CAST(:terms AS int[])) AS c(id, term)"
_RENEW: Final = sa.text(f"""
UPDATE smena.batch_slices AS s SET lease_until = clock_timestamp() + make_interval(secs => :lease_s)
FROM {_CLAIMS} WHERE s.id = c.id AND s.term = c.term
RETURNING s.id
""")  # noqa: S608 - constants
FINISH: Final = sa.text(
    f"DELETE FROM smena.batch_slices AS s USING {_CLAIMS} WHERE s.id = c.id AND s.term = c.term"  # noqa: S608
)
_MARK: Final = sa.text("""
INSERT INTO smena.batch_marks (batch, number)
SELECT s.batch, n.number FROM smena.batch_slices AS s, unnest(CAST(:numbers AS bigint[])) AS n(number)
WHERE s.id = :id AND s.term = :term
FOR KEY SHARE OF s
""")
_MARKED: Final = sa.text(
    "SELECT number FROM smena.batch_marks WHERE batch = :batch AND number BETWEEN :first AND :last"
)
_AGAIN: Final = sa.text("""
INSERT INTO smena.batch_slices (batch, first, last, attempt, lease_until)
SELECT :batch, r.first, r.last, r.attempt,
       CASE WHEN r.wait_s > 0 THEN clock_timestamp() + make_interval(secs => r.wait_s) ELSE 'epoch' END
FROM unnest(CAST(:firsts AS bigint[]), CAST(:lasts AS bigint[]), CAST(:attempts AS int[]),
            CAST(:waits_s AS float8[])) AS r(first, last, attempt, wait_s)
""")
_DEAD: Final = sa.text("""
INSERT INTO smena.batch_dead (batch, number, attempts, reason, error_class, error_text, traceback, fingerprint)
SELECT :batch, * FROM unnest(CAST(:numbers AS bigint[]), CAST(:attempts AS int[]), CAST(:reasons AS text[]),
    CAST(:error_classes AS text[]), CAST(:error_texts AS text[]), CAST(:tracebacks AS text[]),
    CAST(:fingerprints AS text[]))
ON CONFLICT DO NOTHING
""")


class Piece(NamedTuple):
    """A run of items that we hold: (``id``, ``term``) is the handle, ``items`` are decoded, from ``first`` on.

    An item that cannot be read is an `UnreadableItem` (`sharding/reading.py`).

    ``losses`` is how often a job was struck that held it while it had this extent: one that kills its process is parted
    in two each time, until it is one item, which can then be told from its neighbours. ``ends`` are the last items of
    its keys, in a batch by partition; that of the last key may be beyond the piece.
    """

    id: int
    term: int
    first: int
    last: int
    attempt: int
    losses: int
    items: list[Any]
    ends: tuple[int, ...] = ()


class Again(NamedTuple):
    """A run of items that is to be taken again, no sooner than ``wait_s`` from now."""

    first: int
    last: int
    attempt: int
    wait_s: float = 0.0


class DeadItem(NamedTuple):
    """An item that ended without its effect; ``attempts`` counts the last one too."""

    number: int
    attempts: int
    reason: str
    error_class: str | None = None
    error_text: str | None = None
    traceback: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a claimer asks for: how many items, of which batch in which epoch, for how long.

    ``owner`` is the claimer as `owner` names it.
    ``start`` is where to look first: a claimer goes on behind its last claim, over no dead rows of its own.
    """

    batch: int
    epoch: int
    owner: str
    lease_s: float
    items: int
    start: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """Slices that were taken together, of one ``partition`` where the batch has them.

    ``bytes`` is the size of their items as text.
    """

    batch: int
    pieces: tuple[Piece, ...]
    bytes: int
    partition: int | None = None

    @property
    def size(self) -> int:
        """Return how many items it holds."""
        return sum(len(piece.items) for piece in self.pieces)

    def handles(self) -> dict[str, list[int]]:
        """Return the parameters by which statements name what is held."""
        return {"ids": [piece.id for piece in self.pieces], "terms": [piece.term for piece in self.pieces]}


def owner(life: str, job_id: str) -> str:
    """Return what a claimer is called: a shard job in one life of a process, as its strike would name it."""
    return f"{life}/{storable(job_id)}"


def take(connection: sa.Connection, wish: Wish) -> Claim | None:
    """Take what is free, up to about the wished number of items; None where nothing is, from ``start`` on."""
    values = {
        "batch": wish.batch,
        "epoch": wish.epoch,
        "owner": wish.owner,
        "lease_s": wish.lease_s,
        "items": wish.items,
        "start": wish.start,
        "pieces": min(MOST_PIECES, wish.items),
    }
    rows = connection.execute(TAKE, values).all()
    if not rows:
        return None
    pieces = tuple(
        Piece(row.id, row.term, row.first, row.last, row.attempt, row.losses, items_of(connection, wish.batch, row))
        for row in rows
    )
    return Claim(wish.batch, pieces, sum(len(row.items) for row in rows))


def items_of(connection: sa.Connection, batch: int, row: sa.Row[Any]) -> list[Any]:
    """Return the values of a slice that was taken: all at once, and one by one where that cannot be."""
    try:
        items: list[Any] = read(row.items)
    except UnreadableItem:
        extent = {"batch": batch, "first": row.first, "last": row.last}
        return read_each(list(connection.scalars(_TEXTS, extent)))
    return items


def renew(connection: sa.Connection, handles: Iterable[tuple[int, int]], lease_s: float) -> set[int]:
    """Make slices, named by (id, term), ours for ``lease_s`` from now; return the ids of those that still are."""
    named = list(handles)
    values = {"ids": [each for each, _ in named], "terms": [term for _, term in named], "lease_s": lease_s}
    return set(connection.scalars(_RENEW, values))


def finish(
    within: sa.Connection | Session, claim: Claim, again: Sequence[Again] = (), dead: Sequence[DeadItem] = ()
) -> None:
    """Settle all items of the claim: ``again`` and ``dead`` are named, all others are done; raises `ClaimLost`.

    The last statement before the commit.
    """
    if again:
        within.execute(_AGAIN, {"batch": claim.batch} | again_values(joined(again)))
    bury(within, claim, dead)
    settle(within, claim)


def bury(within: sa.Connection | Session, claim: Claim, dead: Sequence[DeadItem]) -> None:
    """Write down which items of the claim are dead."""
    if dead:
        within.execute(_DEAD, {"batch": claim.batch} | _dead_values(dead))


def settle(within: sa.Connection | Session, claim: Claim) -> None:
    """Delete the slices of the claim under its terms; raises `ClaimLost`. The last statement before the commit."""
    gone = _changed(within, FINISH, claim.handles())
    if gone != len(claim.pieces):
        raise ClaimLost(batch=claim.batch, slices=len(claim.pieces), ours=gone)


def mark(within: sa.Connection | Session, piece: Piece, numbers: Sequence[int]) -> None:
    """Note, in the transaction of their effect, that items are done; raises `ClaimLost` where they are no longer ours.

    The last statement before the commit: it holds the slice's row `FOR KEY SHARE`, so a takeover waits for it.
    """
    values = {"id": piece.id, "term": piece.term, "numbers": list(numbers)}
    if _changed(within, _MARK, values) == 0:
        raise ClaimLost(item=numbers[0], term=piece.term)


def marked(connection: sa.Connection, batch: int, piece: Piece) -> set[int]:
    """Return which items of the piece were done by an owner that did not come to finish it."""
    return set(connection.scalars(_MARKED, {"batch": batch, "first": piece.first, "last": piece.last}))


def joined(again: Iterable[Again]) -> list[Again]:
    """Return runs, named in rising order, as the fewest that say the same; neighbours wait as long as the longest."""
    found: list[Again] = []
    for run in again:
        before = found[-1] if found else None
        if before and (before.last + 1, before.attempt, before.wait_s > 0) == (run.first, run.attempt, run.wait_s > 0):
            found[-1] = before._replace(last=run.last, wait_s=max(before.wait_s, run.wait_s))
        else:
            found.append(run)
    return found


def _changed(within: sa.Connection | Session, statement: sa.TextClause, values: dict[str, Any]) -> int:
    result = within.execute(statement, values)
    return result.rowcount if isinstance(result, sa.CursorResult) else 0


def again_values(again: Sequence[Again]) -> dict[str, list[Any]]:
    """Return the parameters by which statements name runs that are to be taken again."""
    firsts, lasts, attempts, waits = zip(*again, strict=True)
    return {"firsts": list(firsts), "lasts": list(lasts), "attempts": list(attempts), "waits_s": list(waits)}


def _dead_values(dead: Sequence[DeadItem]) -> dict[str, list[Any]]:
    columns = [[_kept(value) for value in column] for column in zip(*dead, strict=True)]
    names = ("numbers", "attempts", "reasons", "error_classes", "error_texts", "tracebacks", "fingerprints")
    return dict(zip(names, columns, strict=True))


def _kept(value: int | str | None) -> int | str | None:
    return storable(value, LONGEST_TEXT) if isinstance(value, str) else value
