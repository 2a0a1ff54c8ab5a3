"""A worker whose actors have lost their ``once``: each copy of a job takes effect."""

from __future__ import annotations

from smena.book import load_books
from smena.settings import Settings
from workers.wiring import worker
from workers.wiring.worker import run

__all__ = ["preload", "run"]


def preload(settings: Settings) -> None:
    """Load the books and take the key's function off every actor, before workers are forked."""
    worker.preload(settings)
    for actor in load_books(settings.books).actors():
        actor.once = None
