"""What cannot be written of one partition stops no other, and each is told of."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from pydantic import SecretStr

from smena.clock import SYSTEM, Deadline
from smena.records.held_keys import HeldKeys, Place, Waiting
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from smena.store.terms import Term
from smena.telemetry import events
from tests.fixtures.eventually import eventually
from tests.fixtures.fix_events import Listen
from workers.execution.ordered.desk import Desk
from workers.execution.ordered.floor import Floor
from workers.execution.ordered.keeper import Keeper

NOBODY = "postgresql://nobody@127.0.0.1:1/nothing"


def _desk(number: int, cue: Any) -> Desk:
    """Return a desk at which a key is due, so that its first row is to be read."""
    nothing: Any = None
    floor = Floor({}, nothing, nothing, nothing, nothing, nothing, cue, SYSTEM, most_snoozes=1, most_parked=10)
    desk = Desk(Place("q", number, Term(f"partition:q:{number:03}", "us", 1)), 2, floor)
    desk.load([Waiting("key", 0.0)], 1)
    return desk


def test_each_partition_that_could_not_be_written_gets_its_line(listen: Listen) -> None:
    told = listen(events.KEY_NOT_WRITTEN)
    desks: list[Desk] = []
    with closing(Database(DatabaseSettings(url=SecretStr(NOBODY)), "test")) as database:
        keeper = Keeper(HeldKeys(database), lambda: desks, SYSTEM, crowd=100)
        desks += [_desk(number, keeper.cue) for number in (0, 1)]
        keeper.start()
        try:
            assert eventually(lambda: {one.fields["partition"] for one in told} == {0, 1})
        finally:
            keeper.ask_to_stop()
            keeper.cue()
            assert keeper.stop(Deadline.within(30, SYSTEM))
    assert "DatabaseLost" in told[0].fields["error"]
