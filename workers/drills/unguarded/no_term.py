"""A worker in which a write is not fenced: who has lost his lease can still write."""

from __future__ import annotations

from smena.settings import Settings
from workers.drills import book
from workers.wiring import worker
from workers.wiring.worker import run

__all__ = ["preload", "run"]


def preload(settings: Settings) -> None:
    """Load the books and open the drills' fence, before workers are forked."""
    worker.preload(settings)
    book.fence = _let_pass


def _let_pass(_within: object, _term: object) -> None:
    """Do nothing."""
