"""Send a second copy of every twentieth charge, mail and receipt, under the same id, once the relay has sent it.

Brokers and relays deliver at least once; this makes it happen often. The rows are told apart by state,
not by "id greater than the last seen", which would pass over rows that commit late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import psycopg

from smena.amqp import codec
from smena.job import Job

EVERY: Final = 20
ACTORS: Final = ("payments.charge", "mail.confirm", "receipts.render")

_SEEN: Final = "CREATE TEMP TABLE seen (seq bigint PRIMARY KEY, actor text)"
_NEWLY_SENT: Final = """
WITH sent AS (
    INSERT INTO seen
    SELECT seq, actor FROM smena.outbox
    WHERE state = 'sent' AND attempt = 1 AND snoozes = 0 AND actor = ANY (%s)
      AND NOT EXISTS (SELECT FROM seen WHERE seen.seq = outbox.seq)
    RETURNING seq, actor
)
SELECT seq, actor FROM sent ORDER BY seq
"""
_MESSAGES: Final = "SELECT body, properties, queue FROM smena.outbox WHERE seq = ANY (%s) ORDER BY seq"


class Copies:
    """Finds what is due a second copy, on a psycopg connection in autocommit that is the publisher's own."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.sent: Counter[str] = Counter()
        connection.execute(_SEEN)

    def due(self) -> list[Job]:
        """Return every twentieth of each actor's messages among those that the relay has sent since the last call."""
        chosen = []
        for seq, actor in self._connection.execute(_NEWLY_SENT, (list(ACTORS),)).fetchall():
            self.sent[actor] += 1
            if self.sent[actor] % EVERY == 0:
                chosen.append(seq)
        return self._messages(chosen) if chosen else []

    def _messages(self, seqs: Sequence[int]) -> list[Job]:
        rows = self._connection.execute(_MESSAGES, (list(seqs),)).fetchall()
        return [
            codec.decode(bytes(body), codec.properties_from_json(properties), queue) for body, properties, queue in rows
        ]
