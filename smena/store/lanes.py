"""Keep opened connections at hand, one for each user at a time.

SQLAlchemy's pool makes and takes apart three objects and resets the connection at each checkout, a tenth of
what a small `once` job costs (docs/adr/once-holds-the-connection.md). A lane is a checked-out connection
that goes from user to user without that; it is given back to the pool as soon as anything about it is in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from psycopg import pq

from smena.store.faults import is_lost, translated
from smena.store.held import driver_of, hung_up


class Lanes:
    """The idle connections of one engine, the last used first; safe from all threads.

    There are never more than were lent at once, so the engine's pool size bounds them.
    """

    def __init__(self, connect: Callable[[], sa.Connection]) -> None:
        self._connect = connect
        self._idle: list[sa.Connection] = []  # append and pop are atomic; nothing else touches it
        self._closed = False

    @contextmanager
    def lend(self) -> Iterator[sa.Connection]:
        """Lend a connection that is in no transaction; whatever the user leaves open is rolled back.

        When one turns out to be lost, so are probably all that were idle beside it, and they are closed.
        """
        lane = self._take()
        try:
            yield lane
        except BaseException as error:
            if is_lost(error):
                self._close_idle()
            raise
        finally:
            self._put_back(lane)

    def close(self) -> None:
        """Close what is idle now, and what is lent as it comes back."""
        self._closed = True
        self._close_idle()

    def _take(self) -> sa.Connection:
        while self._idle:
            try:
                lane = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if not hung_up(driver_of(lane)):
                return lane
            lane.invalidate()
            lane.close()
        with translated():
            return self._connect()

    def _put_back(self, lane: sa.Connection) -> None:
        if not self._closed and _at_rest(lane):
            self._idle.append(lane)
        else:
            lane.close()  # the pool rolls it back, or throws it away

    def _close_idle(self) -> None:
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # another thread took the last one
                return


def _at_rest(lane: sa.Connection) -> bool:
    if lane.invalidated or lane.get_transaction() is not None:  # one whose commit failed stays, though not active
        return False
    if lane.get_execution_options():  # a user's isolation level or schema map; the pool undoes them
        return False
    return driver_of(lane).pgconn.transaction_status == pq.TransactionStatus.IDLE
