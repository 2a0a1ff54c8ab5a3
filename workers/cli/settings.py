"""`smena settings`: what is set, to what, and by whom."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click

from smena.settings import Examined, examine
from smena.settings.listing import Line, lines

_PLURAL: Final = re.compile(r"(?<=ss)es\b|(?<=[a-z])s\b")


def sources(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where settings come from."""
    profile = click.option("--profile", help="Section [profile.NAME] that counts; default SMENA_PROFILE.")
    config = click.option(
        "--config", type=click.Path(path_type=Path), help="Settings file; default SMENA_TOML, then ./smena.toml."
    )
    return profile(config(command))


@click.command()
@sources
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@click.pass_context
def settings(context: click.Context, profile: str | None, config: Path | None, as_json: bool) -> None:
    """Print each setting, its value and where it came from; secrets are masked."""
    examined = examine(profile=profile, toml_path=config)
    if examined.settings is None:
        refuse(context, examined)
        return
    table = list(lines(examined.settings))
    click.echo(_json(table) if as_json else _text(table))


def refuse(context: click.Context, examined: Examined) -> None:
    """Print the errors and end as every process does that is misconfigured."""
    for finding in examined.errors:
        click.echo(f"error    {finding}", err=True)
    context.exit(2)


def _json(table: Sequence[Line]) -> str:
    return json.dumps({line.key: {"value": line.value, "unit": line.unit, "source": line.source} for line in table})


def _text(table: Sequence[Line]) -> str:
    shown = [(line, _measured(line)) for line in table]
    wide = min(max(len(value) for _, value in shown), 60)
    blocks = []
    for group, members in groupby(shown, key=lambda pair: pair[0].key.rpartition(".")[0]):
        rows = [f"  {line.key:<32} {value or '-':<{wide}}  {line.source}" for line, value in members]
        blocks.append("\n".join([f"[{group}]" if group else "", *rows]).lstrip("\n"))
    return "\n\n".join(blocks)


def _measured(line: Line) -> str:
    """Return the value with its unit, one of which is no plural: 1 process, 1 step of priority, but 1 s."""
    if not (line.unit and line.value):
        return line.value
    return f"{line.value} {re.sub(_PLURAL, '', line.unit, count=1) if line.value == '1' else line.unit}"
