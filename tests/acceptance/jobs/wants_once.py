"""An actor that wants its effect once."""

import smena

book = smena.Book("wants_once")


@book.actor(queue="jobs", once=lambda key: key)
def note(key: str) -> None:
    """Ask for a key, and for nothing else of a database."""
