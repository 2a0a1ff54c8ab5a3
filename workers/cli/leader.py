"""`smena leader …`: see who leads what, and take a leadership away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from smena.errors import SmenaError
from smena.guarantees.election import seats
from smena.settings import load
from smena.store.database import Database


@click.group()
def leader() -> None:
    """See who leads what, and take a leadership away."""


@leader.command(name="list")
def list_() -> None:
    """List all leaderships: term, owner, and how long it lasts without a renewal.

    An owner is a candidacy: host and process (on Kubernetes host and post), and a random part.
    """
    with _database() as database:
        all_seats = seats.seats(database)
    for seat in all_seats:
        holds = f"for {seat.left_s:.1f} s more" if seat.is_held else "nobody leads"
        click.echo(f"{seat.duty:<20}term {seat.term:<8}{seat.owner or '-':<48}{holds}")
    if not all_seats:
        click.echo("nobody has led anything yet; a scheduler stands for the duty `scheduler`")


@leader.command()
@click.argument("duty")
def resign(duty: str) -> None:
    """Take a leadership from whoever has it: it can write nothing more, and another leads soon."""
    with _database() as database:
        term = seats.depose(database, duty)
    if term is None:
        raise click.ClickException(f"nobody has ever led {duty!r}; `smena leader list` shows what there is")
    click.echo(f"{duty} is resigned: whoever led it is fenced off up to term {term}, and another leads soon")


@contextmanager
def _database() -> Iterator[Database]:
    try:
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database:
            yield database
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
