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
from sharding.neglect import Size
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
from workers.cli.moment import utc
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

    Messages of senders that have a larger number already, in partitions that are not there, do not stand in the way of
    growing to that number; of growing to a smaller one they do.
    """
    settings = load()
    with _database(settings) as database, closing(database.connect()) as connection, connection:
        was = resizing.partitions_of(connection, queue)
        if was is None:
            raise click.ClickException(f"no worker has ever worked an ordered queue {queue}")
        if partitions == was:
            click.echo(f"{queue} has {was} partitions already")
            return
        left = _left(settings, database, queue, _places(neglect.sizes(connection)[queue], partitions))
        if left:
            raise click.ClickException(f"{queue} keeps its {was} partitions, for something is left: {', '.join(left)}")
        if resizing.at_work(connection, queue, silent_s=settings.partitions.lease_s):
            raise click.ClickException(
                f"{queue} keeps its {was} partitions, for workers work it, or did a moment ago: stop them first"
            )
        resizing.resize(connection, queue, partitions)
    click.echo(f"{queue} has {partitions} partitions, and had {was}; start workers and senders that declare them")


def _places(size: Size, partitions: int) -> list[str]:
    """Return where nothing may lie: all partitions but those that it gains, where what nobody has worked becomes work.

    Beyond the new number too: whoever put something there declares another number, and so what it put into those that
    the group gains would not lie where its keys belong.
    """
    gained = range(size.partitions, partitions)
    looked_at = Size(size.group, size.partitions, max(size.once, partitions)).looked_at
    return [size.group, *(names.address(size.group, number) for number in range(looked_at) if number not in gained)]


def _left(settings: Settings, database: Database, queue: str, places: Sequence[str]) -> list[str]:
    """Say what is still in the queue, in these places of the broker or in a table; consumers may have some in hand."""
    stands = stands_once(settings.amqp, [names.work_queue(settings.amqp.prefix, one) for one in places])
    rows = HeldList(database).left(queue)
    return [
        *(_counted(stand.ready, "message", f"in {name}") for name, stand in stands.items() if stand.ready),
        *(_counted(stand.consumers, "consumer", f"of {name}") for name, stand in stands.items() if stand.consumers),
        *(_counted(count, noun, f"of {queue}") for noun, count in rows.items() if count),
    ]


def _counted(count: int, noun: str, where: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'} {where}"


def _line(key: HeldKey) -> str:
    until = "until an operator says how it goes on" if key.due_at is None else f"until {utc(key.due_at)}"
    since = f"since {utc(key.held_at)}"
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
