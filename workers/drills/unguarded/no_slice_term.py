"""A worker in which no write of a batch is fenced: who has lost a slice can still write its items."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from sharding import claims
from sharding.claims import Again, Claim, DeadItem
from smena.errors import ClaimLost
from smena.settings import Settings
from workers.wiring import worker
from workers.wiring.worker import run

__all__ = ["preload", "run"]

_FENCED: Final = claims.finish


def preload(settings: Settings) -> None:
    """Load the books and open the fences of slices, before workers are forked."""
    worker.preload(settings)
    vars(claims).update(mark=_let_pass, finish=_finish)


def _let_pass(_within: object, _piece: object, _numbers: object) -> None:
    """Do nothing."""


def _finish(
    within: sa.Connection | Session, claim: Claim, again: Sequence[Again] = (), dead: Sequence[DeadItem] = ()
) -> None:
    """Finish, and do not mind that the claim is another's by now."""
    with suppress(ClaimLost):
        _FENCED(within, claim, again, dead)
