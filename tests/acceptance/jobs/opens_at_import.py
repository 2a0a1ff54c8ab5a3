"""A book that does at import what does not survive a fork: it starts a thread, and remembers where."""

import os
import threading

import sqlalchemy as sa
from sqlalchemy.orm import Session

import smena

book = smena.Book("opens")
IMPORTED_IN = os.getpid()
_RUNS = threading.Event()


def start() -> None:
    """Do nothing for as long as the process lives."""
    if "SMENA_APP_FOLDER" in os.environ:  # in a fleet, not where the test imports this
        threading.Thread(target=_RUNS.wait, name="opened-at-import", daemon=True).start()


start()


@book.actor(queue="jobs")
def who_imported(session: Session, /) -> None:
    """Say which process imported this, and which runs it; the thread has to live here."""
    alive = any(thread.name == "opened-at-import" for thread in threading.enumerate())
    values = {"key": str(IMPORTED_IN if alive else 0), "pid": os.getpid()}
    session.execute(sa.text("INSERT INTO effects VALUES (:key, 'opens', 1, :pid)"), values)
