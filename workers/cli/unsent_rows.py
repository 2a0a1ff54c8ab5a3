"""What `smena doctor` says of outbox rows that no relay takes, and of those that one has set aside."""

from __future__ import annotations

from collections.abc import Iterator

from smena.outbox.shelf import Shelf
from smena.settings import Settings
from smena.store.database import Database
from workers.cli.complaint import Complaint


def unsent_rows(database: Database, settings: Settings) -> Iterator[Complaint]:
    """Look at the outbox: a row that is due is claimed within a lease, if there is a relay at all."""
    shelf = Shelf(database)
    untaken, oldest_s = shelf.untaken(settings.outbox.lease_s)
    if untaken:
        yield Complaint(
            "outbox",
            f"{_rows(untaken)} due, the oldest since {oldest_s:.0f} s, and no relay takes or sends any",
            "start a relay (`smena relay`, or `smena up`) on this database",
        )
    parked = shelf.entries(("parked",), 1)
    if parked:
        yield Complaint(
            "outbox",
            f"{_rows(shelf.counts()['parked'])} set aside, as they cannot be sent; the newest: {parked[0].error}",
            "mend what `smena outbox list --state parked` tells of, then `smena outbox retry ID` sends one again",
        )


def _rows(count: int) -> str:
    return f"{count} row{' is' if count == 1 else 's are'}"
