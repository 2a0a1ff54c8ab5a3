"""`smena outbox …`: look at rows that wait or were set aside, and put parked ones back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

import click

from smena.errors import SmenaError
from smena.outbox.shelf import UNSENT, Shelf
from smena.settings import load
from smena.store.database import Database
from workers.cli.moment import readable, utc
from workers.cli.terminal import say

_STATES = {"parked": ("parked",), "pending": ("pending",), "sent": ("sent",), "unsent": UNSENT}


@click.group()
def outbox() -> None:
    """Look at the outbox and put parked rows back."""


@outbox.command(name="list")
@click.option("--state", type=click.Choice(list(_STATES)), default="unsent", show_default=True, help="Which rows.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
def list_rows(state: str, limit: int) -> None:
    """List rows, the newest first, and say how many wait and how many are parked."""
    with _shelf() as shelf:
        counted = shelf.counts()
        rows = shelf.entries(_STATES[state], limit)
    for row in rows:
        due = utc(row.due_at)
        say(f"{row.id}  {row.state:<8}{row.queue:<16}{row.actor:<24}{due}  {row.error or ''}".rstrip())
    click.echo(f"{counted['pending']} pending, {counted['parked']} parked")


@outbox.command()
@click.argument("job_id", metavar="ID")
def show(job_id: str) -> None:
    """Show all there is to know of a job's rows, but for its arguments."""
    with _shelf() as shelf:
        rows = shelf.of_job(job_id)
    if not rows:
        raise click.ClickException(f"no outbox row for job {job_id}; rows that were sent are deleted in time")
    for row in rows:
        for name, value in asdict(row).items():
            say(f"{name:<14}{readable(value)}")
        click.echo()


@outbox.command()
@click.argument("job_id", metavar="ID")
def retry(job_id: str) -> None:
    """Make a job's parked rows due again, after what parked them was mended."""
    with _shelf() as shelf:
        freed = shelf.retry(job_id)
    if not freed:
        raise click.ClickException(f"no parked outbox row for job {job_id}")
    click.echo(f"{freed} row{'s' if freed > 1 else ''} of job {job_id} will be sent again")


@contextmanager
def _shelf() -> Iterator[Shelf]:
    try:
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database:
            yield Shelf(database)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
