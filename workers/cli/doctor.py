"""`smena doctor`: look for what makes a fleet slow or stuck without any error, and say what to do about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import click

from sharding.upkeep import Stalled, stalled
from smena.errors import SmenaError
from smena.records.old_transactions import Holder, holders
from smena.settings import Settings, load
from smena.store.database import Database
from workers.cli.blocked_keys import blocked_keys
from workers.cli.complaint import Complaint
from workers.cli.kinds import FiniteRange, ManagementUrl
from workers.cli.neglected_partitions import neglected_partitions
from workers.cli.terminal import say
from workers.cli.unfired_schedules import unfired_schedules
from workers.cli.unsent_rows import unsent_rows
from workers.cli.unserved_queues import unserved_queues
from workers.wiring.user_path import open_user_path


@click.command()
@click.option(
    "--older-than",
    "old_s",
    type=FiniteRange(1),
    default=300.0,
    show_default=True,
    help="Seconds from which on an open transaction is a complaint.",
)
@click.option("--management", type=ManagementUrl(), help="The management API (default: amqp.management_url).")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of complaints: about, found, do.")
@click.pass_context
def doctor(context: click.Context, old_s: float, management: str | None, as_json: bool) -> None:
    """Look for what makes a fleet slow or stuck without an error: open transactions, work that nobody does.

    It looks at open transactions, batches, outbox rows, schedules, blocked keys, partitions, and at queues with
    messages and no consumer: those of the loaded books and `worker.queues`, and, where the management API answers, all
    others of the prefix.

    Ends with 1 if there is something to do.
    """
    try:
        open_user_path(Path.cwd())  # the books say which queues there are
        settings = load()
        with closing(Database(settings.database, "smena-doctor", pool_size=1)) as database:
            complaints = list(_complaints(database, settings, old_s, management))
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        click.echo(json.dumps([asdict(one) for one in complaints]))
    else:
        _echo(complaints)
    context.exit(1 if complaints else 0)


def _echo(complaints: list[Complaint]) -> None:
    for one in complaints:
        say(f"{one.about}: {one.found}")
        say(f"    {one.do}")
    click.echo(f"{len(complaints)} to look at" if complaints else "nothing to complain of")


def _complaints(database: Database, settings: Settings, old_s: float, management: str | None) -> Iterator[Complaint]:
    with database.transaction() as connection:
        open_ones = holders(connection)
        stuck = stalled(connection, settings.batches.stalled_s)
    yield from (_held(one) for one in open_ones if one.age_s is None or one.age_s >= old_s)
    yield from (_stuck(one) for one in stuck)
    yield from unsent_rows(database, settings)
    yield from unfired_schedules(database, settings)
    yield from blocked_keys(database)
    try:
        yield from neglected_partitions(database, settings)
        yield from unserved_queues(database, settings, management)
    except SmenaError as error:
        yield Complaint("queues", f"it cannot be seen how they stand: {error}", "mend that first, and ask again")


def _held(one: Holder) -> Complaint:
    costs = "no dead row of any table can be removed while it stands, and queues grow slow"
    if one.kind == "slot":
        way = f"have its reader run, or drop it: SELECT pg_drop_replication_slot('{one.name}')"
        return Complaint("replication slot", f"{one.name} is read by nobody; {costs}", way)
    if one.kind == "prepared":
        way = f"end it: COMMIT PREPARED '{one.name}' or ROLLBACK PREPARED '{one.name}'"
        return Complaint("prepared transaction", f"{one.name} of {one.who} is {_age(one)} old; {costs}", way)
    who = " ".join(part for part in (one.application or "a session", f"({one.who})" if one.who else "") if part)
    way = f"let it end, or end it: SELECT pg_terminate_backend({one.name}); bound such sessions by transaction_timeout"
    if one.state.startswith("idle in transaction"):
        way = f"its program forgot a commit; end it: SELECT pg_terminate_backend({one.name})"
    return Complaint("open transaction", f"{who}, pid {one.name}, {one.state}, {_age(one)} old; {costs}", way)


def _stuck(one: Stalled) -> Complaint:
    found = f"batch {one.batch} of {one.actor} is not at its end, and nobody has had it in hand for {one.since_s:.0f} s"
    way = (
        f"see that workers take queue {one.queue} and have {one.actor} as a plain, unordered actor, and that a relay "
        f"runs; `smena batch resume {one.batch}` sends it anew"
    )
    return Complaint("batch", found, way)


def _age(one: Holder) -> str:
    return "of unknown age" if one.age_s is None else f"{one.age_s:.0f} s"
