"""`smena partition keys|release|skip|resize`: the keys of ordered queues that wait, and the number of partitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict

import click
import msgspec

from sharding import neglect
from sharding import resize as resizing
from smena.amqp import names
from smena.amqp.properties import Properties
from smena.clock import SYSTEM
from smena.errors import SmenaError
from smena.keyspace import MOST_PARTITIONS
from smena.records.dead_letters import DeadLetter
from smena.records.held_list import Blocking, HeldKey, HeldList
from smena.settings import Settings, load
from smena.store.database import Database
from workers.broker.depths import stands_once
from workers.cli.terminal import say
from workers.roles.letters import letter_of


@click.command()
@click.option("--queue", help="Only keys of this queue.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of the keys.")
def keys(queue: str | None, limit: int, as_json: bool) -> None:
    """List the keys that wait, the longest first: for which job, why, until when, how many jobs with it."""
    with _database(load()) as database:
        held = HeldList(database)
        found, count = held.keys(queue, limit), held.count()
    if as_json:
        click.echo(json.dumps([asdict(key) for key in found], default=str))
        return
    for key in found:
        say(_line(key))
        say(f"    {key.actor} {key.job_id} attempt {key.attempt}: {key.reason}")
    click.echo(f"{count} key(s) wait")


@click.command()
@click.argument("queue")
@click.argument("key")
def release(queue: str, key: str) -> None:
    """Let KEY of QUEUE go on now, with another attempt of the job that holds it up."""
    with _database(load()) as database:
        if not HeldList(database).release(queue, key):
            raise click.ClickException(f"the key {key} of {queue} does not wait")
    click.echo(f"{key} goes on with the job that held it up")


@click.command()
@click.argument("queue")
@click.argument("key")
def skip(queue: str, key: str) -> None:
    """Let KEY of QUEUE go on without the job that blocks it, which becomes a dead letter."""
    with _database(load()) as database:
        job = HeldList(database).skip(queue, key, _letter)
    if job is None:
        raise click.ClickException(f"the key {key} of {queue} is not blocked by a dead job (smena partition keys)")
    say(f"{key} goes on without job {job}, which is a dead letter now (smena dead show {job})")


@click.command()
@click.argument("queue")
@click.argument("partitions", type=click.IntRange(1, MOST_PARTITIONS))
def resize(queue: str, partitions: int) -> None:
    """Give QUEUE another number of PARTITIONS, once nothing is in it and nobody works it.

    It changes nothing as long as anything is left, and says what. The way: stop what sends to the queue, let its
    workers empty it, stop them, run this, start workers and senders with the new number.

    Messages of senders that still have a larger number, in partitions that there were once, do not stand in the way of
    growing to where they are.
    """
    settings = load()
    with _database(settings) as database, closing(database.connect()) as connection, connection:
        was = resizing.partitions_of(connection, queue)
        if was is None:
            raise click.ClickException(f"no worker has ever worked an ordered queue {queue}")
        if partitions == was:
            click.echo(f"{queue} has {was} partitions already")
            return
        once = [one.once for one in neglect.outgrown(connection) if one.group == queue]
        bound = max(was, partitions, *once)
        stray = range(was, partitions)  # nobody has worked what lies there: it becomes work
        places = [names.address(queue, number) for number in range(bound) if number not in stray]
        left = {name: count for name, count in _left(settings, database, queue, places).items() if count}
        if left:
            told = ", ".join(f"{count} {name}" for name, count in left.items())
            raise click.ClickException(f"{queue} keeps its {was} partitions, for there are {told}")
        if resizing.at_work(connection, queue, silent_s=settings.partitions.lease_s):
            raise click.ClickException(
                f"{queue} keeps its {was} partitions, for workers work it, or did a moment ago: stop them first"
            )
        resizing.resize(connection, queue, partitions)
    click.echo(f"{queue} has {partitions} partitions, and had {was}; start workers and senders that declare them")


def _left(settings: Settings, database: Database, queue: str, places: Sequence[str]) -> dict[str, int]:
    """Return what is still in the queue, in these places of the broker or in a table."""
    stands = stands_once(
        settings.amqp, [names.work_queue(settings.amqp.prefix, one) for one in (queue, *places)]
    ).values()
    return {
        "messages": sum(stand.ready for stand in stands),
        "consumers": sum(stand.consumers for stand in stands),  # a worker that is frozen has messages in hand
        **HeldList(database).left(queue),
    }


def _line(key: HeldKey) -> str:
    until = "until an operator says how it goes on" if key.due_at is None else f"until {key.due_at:%Y-%m-%d %H:%M:%S}"
    since = f"since {key.held_at:%Y-%m-%d %H:%M:%S}"
    return f"{key.queue}.p{key.partition:02d}  {key.key}  {key.why}  {since} {until}, {key.parked} job(s)"


class _Letter:
    """A job that blocks its key, as a message."""

    def __init__(self, blocking: Blocking) -> None:
        self.queue = blocking.queue
        self.body = blocking.body
        self.properties = msgspec.convert(blocking.properties, Properties)


def _letter(blocking: Blocking) -> DeadLetter:
    return letter_of(_Letter(blocking), source=blocking.source, clock=SYSTEM)


@contextmanager
def _database(settings: Settings) -> Iterator[Database]:
    try:
        with closing(Database(settings.database, "smena-cli", pool_size=1)) as database:
            yield database
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
