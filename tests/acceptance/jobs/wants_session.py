"""An actor that wants a session."""

from sqlalchemy.orm import Session

import smena

book = smena.Book("wants_session")


@book.actor(queue="jobs")
def note(session: Session, /, key: str) -> None:
    """Ask for the job's transaction, and for nothing else of a database."""
