"""`smena check`: would this boot, and what will not work?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from smena.book import load_books
from smena.connected import connect
from smena.errors import Misconfigured, SmenaError
from smena.settings import Finding, Settings, examine
from smena.settings.finding import error, warning
from smena.store import migrations
from smena.store.migrations import Part
from workers.cli.settings import sources
from workers.wiring.user_path import open_user_path

_BROKER_S = 5.0


@click.command()
@sources
@click.option("--offline", is_flag=True, help="Ask no service, only look at settings and books.")
@click.pass_context
def check(context: click.Context, profile: str | None, config: Path | None, offline: bool) -> None:
    """Check settings, books and services; print errors and warnings apart. Ends with 2 if there is an error."""
    examined = examine(profile=profile, toml_path=config)
    findings = list(examined.findings)
    if examined.settings is not None:
        findings += _books(examined.settings)
        findings += [] if offline else [*_broker(examined.settings), *_database(examined.settings)]
    errors = [finding for finding in findings if finding.level == "error"]
    warnings = [finding for finding in findings if finding.level == "warning"]
    _section("errors", errors)
    _section("warnings", warnings)
    click.echo(f"{len(errors)} error(s), {len(warnings)} warning(s)")
    context.exit(2 if errors else 0)


def _books(settings: Settings) -> Iterator[Finding]:
    """Import the books as a worker would."""
    try:
        open_user_path(Path.cwd())
        load_books(settings.books)
    except Misconfigured as refusal:
        yield error("books", str(refusal))


def _broker(settings: Settings) -> Iterator[Finding]:
    """Reach one of the broker's nodes and log in."""
    if not settings.amqp.urls:
        return
    with connect(settings) as connected:
        if not connected.wait_up(_BROKER_S):
            yield error("amqp.urls", f"no node takes a connection within {_BROKER_S:g} s")


def _database(settings: Settings) -> Iterator[Finding]:
    """Reach the database and compare its schema with this build."""
    if settings.database.url is None:
        return
    try:
        states = migrations.check(settings.database.libpq_url(), settings.migrations)
    except SmenaError as failure:
        yield error("database.url", str(failure))
        return
    for state in states:
        if state.due(Part.BEFORE):
            yield error("database.url", f"schema {state.folder} is too old; run `smena db upgrade`")
        elif state.pending:
            yield warning(
                "database.url", f"schema {state.folder} has after-deploy steps to come; run `smena db upgrade`"
            )


def _section(title: str, findings: list[Finding]) -> None:
    if findings:
        click.echo(f"{title}:")
        click.echo("\n".join(f"  {finding}" for finding in findings) + "\n")
