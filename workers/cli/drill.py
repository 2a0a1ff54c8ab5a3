"""`smena drill …`: make faults on purpose, and judge what they did."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from smena.errors import Refused, SmenaError
from workers.cli.kinds import FiniteRange
from workers.drills import verdict
from workers.drills.catalogue import chosen, drills
from workers.drills.drill import Control, Drill
from workers.drills.report import Report, summary
from workers.drills.runner import hold
from workers.drills.stage import SHORTENED, Stage
from workers.process.ending import Ending

_VARIABLE_OF: Final = {
    "amqp": "SMENA_AMQP_URL",
    "amqps": "SMENA_AMQP_URL",
    "postgresql": "SMENA_DATABASE_URL",
    "redis": "SMENA_REDIS_URL",
    "rediss": "SMENA_REDIS_URL",
}


@click.group()
def drill() -> None:
    """Make faults on purpose and judge what they did: lost, doubled, blamed, left over."""


@drill.command(name="list")
def list_() -> None:
    """Print the drills: name, group, what happens."""
    for one in drills().values():
        mark = "destructive" if one.destructive else ""
        click.echo(f"{one.name:<20}{one.group:<9}{mark:<13}{one.summary}")


@drill.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="All drills.")
@click.option("--only", metavar="A,B", help="These drills.")
@click.option("--group", type=click.Choice(["deaths", "weather", "work"]), help="All drills of a group.")
@click.option("--controls", is_flag=True, help="Take each drill's guards out instead; the judge must notice.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line.")
@click.option("--seconds", type=FiniteRange(0, 3600), default=2, show_default=True, help="Load after the fault.")
@click.option("--sql", is_flag=True, help="Print the verdict's statements.")
@click.option("--keep", is_flag=True, help="Leave the services up and say how to look at them.")
@click.option(
    "--against", multiple=True, metavar="URL", help="Broker, database or cache of a staging fleet; repeatable."
)
def run(
    names: tuple[str, ...],
    every: bool,
    only: str | None,
    group: str | None,
    controls: bool,
    as_json: bool,
    seconds: float,
    sql: bool,
    keep: bool,
    against: tuple[str, ...],
) -> None:
    """Hold the named drills, or all, and judge each from the database.

    They run on private services below SMENA_LOCAL_DIR, or on the servers whose addresses are given by --against or in
    the environment: in a database made for them and with queues of their own, so a fleet that lives there is not met.
    There a destructive drill is only held when it is named. Exit status: 0 all passed, 1 one did not,
    2 they could not be held, 128 and the signal when one ended them; they leave no process in any case.
    """
    named = (*names, *(only.split(",") if only else ()))
    if not (named or every or group or controls):
        raise click.UsageError("name drills, or give --all, --only, --group or --controls")
    try:
        stage = Stage({**os.environ, **addresses(against)})
        wanted = list(allowed(chosen(named, group), stage, named))
        reports = _hold(wanted, stage, controls=controls, seconds=seconds, keep=keep, quiet=as_json)
    except SmenaError as refusal:
        click.echo(f"drill: {refusal}", err=True)
        raise click.exceptions.Exit(2) from refusal
    if sql:
        click.echo(f"-- %(run)s is one of: {', '.join(report.run for report in reports)}")
        click.echo(";\n".join((verdict.SQL.strip(), verdict.LEFT_ROWS.strip(), verdict.LEFT_SESSIONS.strip())) + ";")
    if as_json:
        click.echo(json.dumps(summary(reports)))
    if keep:
        click.echo(stage.how_to_look(), err=True)
    raise click.exceptions.Exit(0 if all(report.passed for report in reports) else 1)


def _hold(
    wanted: Sequence[Drill], stage: Stage, *, controls: bool, seconds: float, keep: bool, quiet: bool
) -> list[Report]:
    reports: list[Report] = []
    click.echo(f"{stage.place()}; shortened: {_told(SHORTENED)}", err=True)
    with Ending() as ending, stage.set(keep=keep):
        for one, control in _runs(wanted, controls=controls):
            reports.append(hold(one, stage, control, seconds, ending.look))
            for line in reports[-1].lines():
                click.echo(line, err=quiet)
    return reports


def _runs(wanted: Sequence[Drill], *, controls: bool) -> Iterator[tuple[Drill, Control | None]]:
    for one in wanted:
        yield from ((one, control) for control in one.controls) if controls else ((one, None),)


def allowed(wanted: Sequence[Drill], stage: Stage, named: Sequence[str]) -> Iterator[Drill]:
    """Leave out what is destructive where services are given, unless it is named; refuse what cannot be held there."""
    for one in wanted:
        if one.private and stage.given and one.name in named:
            raise Refused(f"{one.name} is only held on private services")
        if one.destructive and stage.given and one.name not in named:
            click.echo(
                f"left out  {one.name}: it is destructive, and must be named for services that are given", err=True
            )
        else:
            yield one


def addresses(against: Sequence[str]) -> dict[str, str]:
    """Return which setting each address is for, by its scheme."""
    addresses = {}
    for url in against:
        scheme = url.partition(":")[0].partition("+")[0]
        if scheme not in _VARIABLE_OF:
            raise click.UsageError(f"--against takes addresses of {', '.join(sorted(_VARIABLE_OF))}; not {scheme!r}")
        addresses[_VARIABLE_OF[scheme]] = url
    return addresses


def _told(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
