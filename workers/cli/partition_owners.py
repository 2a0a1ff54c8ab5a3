"""`smena partition list` and `smena partition owners`: who owns which partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict

import click

from sharding import standings
from sharding.standings import GroupStanding
from smena.errors import SmenaError
from smena.settings import load
from smena.store.database import Database


@click.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of the groups.")
def list_groups(as_json: bool) -> None:
    """List the groups: how many partitions, how many members live, what is unowned or on its way to another."""
    with _groups() as groups:
        found = [
            {
                "group": group.group,
                "partitions": len(group.partitions),
                "members": sum(member.alive for member in group.members),
                "unowned": group.unowned,
                "moving": group.moving,
                "plan": group.generation,
            }
            for group in groups
        ]
    if as_json:
        click.echo(json.dumps(found))
        return
    for one in found:
        counted = ", ".join(_counted(name, one[name]) for name in ("partitions", "members", "unowned", "moving"))
        click.echo(f"{one['group']:<20}{counted}")
    if not found:
        click.echo("no group has been worked yet")


@click.command()
@click.argument("group")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of the partitions.")
def owners(group: str, as_json: bool) -> None:
    """Show for each partition of GROUP who owns it, under which term, and who should."""
    with _groups() as groups:
        found = next((one for one in groups if one.group == group), None)
    if found is None:
        raise click.ClickException(f"no group is called {group}; `smena partition list` shows what there is")
    if as_json:
        click.echo(json.dumps([asdict(standing) for standing in found.partitions]))
        return
    for standing in found.partitions:
        is_there = standing.owner is not None and standing.owner == standing.planned
        then = "" if is_there else f"  should be {standing.planned or 'nobody, for no member lives'}"
        owner = "nobody" if standing.owner is None else f"{standing.worker or '?'} ({standing.owner})"
        click.echo(f"{standing.partition:03}  term {standing.term:<8}{owner}{then}")


def _counted(name: str, count: object) -> str:
    return f"{count} {name.removesuffix('s') if count == 1 else name}"


@contextmanager
def _groups() -> Iterator[list[GroupStanding]]:
    try:
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database, database.connect() as connection:
            yield standings.of_all(connection)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
