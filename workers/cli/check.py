"""`smena check`: would this boot, and what will not work?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from smena.book import load_books
from smena.errors import Misconfigured
from smena.settings import Finding, Settings, examine
from smena.settings.finding import error
from workers.cli.settings import sources


@click.command()
@sources
@click.pass_context
def check(context: click.Context, profile: str | None, config: Path | None) -> None:
    """Check settings and books; print errors and warnings apart. Ends with 2 if there is an error."""
    examined = examine(profile=profile, toml_path=config)
    findings = [*examined.findings, *(_books(examined.settings) if examined.settings else ())]
    errors = [finding for finding in findings if finding.level == "error"]
    warnings = [finding for finding in findings if finding.level == "warning"]
    _section("errors", errors)
    _section("warnings", warnings)
    click.echo(f"{len(errors)} error(s), {len(warnings)} warning(s)")
    context.exit(2 if errors else 0)


def _books(settings: Settings) -> Iterator[Finding]:
    """Import the books as a worker would."""
    try:
        load_books(settings.books)
    except Misconfigured as refusal:
        yield error("books", str(refusal))


def _section(title: str, findings: list[Finding]) -> None:
    if findings:
        click.echo(f"{title}:")
        click.echo("\n".join(f"  {finding}" for finding in findings) + "\n")
