"""`smena db …`: bring the database to this build's schema, and say how far it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click

from smena.errors import Misconfigured, SmenaError
from smena.settings import Settings, load
from smena.store import migrations
from smena.store.migrations import Part, Revision, State
from workers.cli.kinds import FiniteRange
from workers.cli.settings import sources
from workers.wiring.user_path import open_user_path

_BEHIND: Final = 1
_MISCONFIGURED: Final = 2


@click.group()
def db() -> None:
    """Upgrade, check and list migrations: Smena's own first, then the folders of the setting `migrations`."""
    with _refusals():
        open_user_path(Path.cwd())  # a folder's `env.py` imports the tables that it brings up


@db.command()
@sources
@click.option("--before-deploy", is_flag=True, help="Only what the running build does not mind; the rest after it.")
@click.option("--wait-s", type=FiniteRange(0, 3600), default=120, show_default=True, help="For another upgrade.")
def upgrade(profile: str | None, config: Path | None, before_deploy: bool, wait_s: float) -> None:
    """Run what is pending. Several at once run it once; the others wait."""
    with _refusals():
        settings = load(profile=profile, toml_path=config)
        part = Part.BEFORE if before_deploy else None
        done = migrations.upgrade(_url(settings), settings.migrations, part=part, wait_s=wait_s)
    for folder, revision in done:
        click.echo(_line(folder, revision, "applied"))
    click.echo(f"{len(done)} applied")


@db.command()
@sources
@click.pass_context
def check(context: click.Context, profile: str | None, config: Path | None) -> None:
    """List what is pending or unknown; changes nothing. Ends with 1 if a before-deploy revision is pending."""
    with _refusals():
        settings = load(profile=profile, toml_path=config)
        states = migrations.check(_url(settings), settings.migrations)
    for state in states:
        for revision in state.pending:
            click.echo(_line(state.folder, revision, "pending"))
        for name in state.unknown:
            click.echo(f"{state.folder:<20}{name:<14}unknown to this build: a newer one was here")
    click.echo(f"{sum(len(state.applied) for state in states)} applied, {_count_pending(states)} pending")
    context.exit(_BEHIND if any(state.due(Part.BEFORE) for state in states) else 0)


@db.command()
@sources
def history(profile: str | None, config: Path | None) -> None:
    """List all revisions of this build and its folders, the oldest first; asks no database."""
    with _refusals():
        listed = migrations.history(load(profile=profile, toml_path=config).migrations)
    for folder, chain in listed:
        for revision in chain:
            click.echo(_line(folder, revision))


def _count_pending(states: Sequence[State]) -> int:
    return sum(len(state.pending) for state in states)


def _line(folder: str, revision: Revision, what: str = "") -> str:
    return f"{folder:<20}{revision.id:<14}{revision.part:<8}{what:<9}{revision.summary}"


def _url(settings: Settings) -> str:
    return settings.database.libpq_url()


@contextmanager
def _refusals() -> Iterator[None]:
    """Print an error of ours as one line; end with 2 if the deployer has to act, as every process does."""
    try:
        yield
    except SmenaError as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(_MISCONFIGURED if isinstance(error, Misconfigured) else 1) from error
