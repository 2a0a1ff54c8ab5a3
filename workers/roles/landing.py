"""Judge batches that came back from the broker: sent, parked or held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from smena.backoff import Backoff
from smena.errors import BrokerBlocked, BrokerLost, Permanent, PublishTimeout, SmenaError
from smena.outbox.claims import Ended, Row, Verdict
from smena.telemetry import events
from smena.telemetry.plain_text import error_text


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch with an outcome for each row; ``flown`` is false where it never reached the publisher."""

    rows: Sequence[Row]
    outcomes: Sequence[SmenaError | None]
    flown: bool = True


AWAY: Final = (BrokerLost, BrokerBlocked, PublishTimeout)
"""Errors that say nothing of the row: the broker did not answer."""

_BROKER_IS_AWAY: Final = Backoff(base_s=0.2, cap_s=3.0, floor_s=0.05)
_QUEUE_REFUSES: Final = Backoff(base_s=0.5, cap_s=30.0, floor_s=0.1)


def verdict_of(batches: Sequence[Landed]) -> Verdict:
    """Return what to write down; rows held back wait as the one of them that failed most often."""
    sent: list[Ended] = []
    parked: list[Ended] = []
    held_back: list[Ended] = []
    for batch in batches:
        for ended in zip(batch.rows, batch.outcomes, strict=True):
            _, error = ended
            if error is None:
                sent.append(ended)
            elif isinstance(error, Permanent):
                parked.append(ended)
            else:
                held_back.append(ended)
    tries = max((row.tries for row, _ in held_back), default=0)
    backoff = _BROKER_IS_AWAY if broker_is_away(held_back) else _QUEUE_REFUSES
    return Verdict(sent, parked, held_back, backoff.wait_s(tries + 1) if held_back else 0.0)


def broker_is_away(held_back: Sequence[Ended]) -> bool:
    """Say whether all that was held back was so because the broker did not answer."""
    return all(isinstance(error, AWAY) for _, error in held_back)


def tell(verdict: Verdict, lost: int) -> None:
    """Tell of what became of the rows; ``lost`` of them had been claimed by another relay meanwhile."""
    if verdict.sent:
        events.emit(events.OUTBOX_SENT, rows=len(verdict.sent))
    for row, error in verdict.parked:
        if error is not None:
            events.emit(events.OUTBOX_PARKED, job=row.id, actor=row.actor, reason=error.code, error=error_text(error))
    if verdict.held_back:
        _, error = verdict.held_back[0]
        text = "" if error is None else error_text(error)
        events.emit(events.RELAY_HELD_BACK, rows=len(verdict.held_back), wait_s=verdict.wait_s, error=text)
    if lost:
        events.emit(events.RELAY_CLAIM_LOST, rows=lost)
