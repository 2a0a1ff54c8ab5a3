"""Show the fleet's own schedules beside the users', and do one of them by hand: what the janitor does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import click

from smena.settings import load
from smena.store.database import Database
from smena.timetable.interval import Every
from workers.cli.moment import utc
from workers.roles import dead_digest
from workers.roles.janitor import BATCH, PREFIX, REST_S, Duty
from workers.wiring.duties import duties_of


def is_shipped(name: str) -> bool:
    """Say whether a schedule of this name would be the fleet's own."""
    return name.startswith(PREFIX)


def refuse_shipped(name: str) -> None:
    """Refuse to change what the fleet brings along."""
    if is_shipped(name):
        told = "is the fleet's own: it neither rests nor goes; the settings say how long rows are kept"
        raise click.ClickException(f"{name} {told}")


def lines() -> Sequence[str]:
    """Return a line for each schedule that the fleet brings along, whatever books are loaded."""
    with _duties() as duties:
        return [_line(duty) for duty in duties]


def run(name: str) -> int:
    """Do a duty now, beside the janitor, until nothing is left; return how many rows went."""
    if name == dead_digest.NAME:
        raise click.ClickException("`smena dead digest` tells it by hand")
    with _duties() as duties:
        found = next((duty for duty in duties if duty.name == name), None)
        if found is None:
            raise click.ClickException(f"{name} is nothing that the janitor does with these settings")
        gone = count = found.prune(BATCH)
        while count >= BATCH:
            count = found.prune(BATCH)
            gone += count
    return gone


def _line(duty: Duty) -> str:
    rule = Every(timedelta(seconds=duty.every_s or REST_S))
    when = "always" if duty.every_s is None else utc(rule.after(datetime.now(UTC)))
    return f"{duty.name:<28}{when:<22}{rule.spec:<36}the fleet's own: {duty.about}"


@contextmanager
def _duties() -> Iterator[Sequence[Duty]]:
    settings = load()
    with closing(Database(settings.database, "smena-cli", pool_size=1)) as database:
        yield duties_of(settings, database)
