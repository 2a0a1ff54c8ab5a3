"""`smena once`: list the work that a fleet does once in its life; with a key, run it again."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from smena.book import load_books
from smena.errors import SmenaError
from smena.schedules.errands import Declared, Errands, NoSuchErrand, errands_of
from smena.settings import load
from smena.store.database import Database
from workers.cli.moment import utc
from workers.wiring.user_path import open_user_path


@click.command()
@click.argument("key", required=False)
def once(key: str | None) -> None:
    """List what the loaded books declare with `once_per_deploy`, and how it went; with KEY run that, also again."""
    try:
        settings = load()
        open_user_path(Path.cwd())
        declared = errands_of(load_books(settings.books))
        with closing(Database(settings.database, "smena-cli", pool_size=1)) as database:
            if key is None:
                _list(Errands(database), declared)
            else:
                _run(Errands(database), declared, key)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error


def _list(errands: Errands, declared: list[Declared]) -> None:
    for one in declared:
        runs = errands.runs(one)
        newest = runs[0] if runs else None
        standing = "not started" if newest is None else newest.ending or "runs"
        when = "" if newest is None or newest.fired_at is None else utc(newest.fired_at)
        job = "" if newest is None else newest.tick.job_id
        click.echo(f"{one.key:<32}{standing:<13}{len(runs)} run(s)  {when}  {one.actor.name}  {job}".rstrip())
    if not declared:
        click.echo("the loaded books declare no such work")


def _run(errands: Errands, declared: list[Declared], key: str) -> None:
    for one in declared:
        if one.key == key:
            click.echo(f"{key} runs as job {errands.run(one).job_id}")
            return
    declared_at = "a key is the first argument of `@book.once_per_deploy`; `smena once` alone lists those there are"
    raise NoSuchErrand(declared_at, key=repr(key))
