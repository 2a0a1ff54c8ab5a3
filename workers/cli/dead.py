"""`smena dead …`: look at dead letters, those in rows and those that still lie in queues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from sharding.batches import KEYED_SHARD, SHARD
from smena.amqp.names import dead_queue, lost_queue
from smena.book import load_books
from smena.errors import Misconfigured, SmenaError
from smena.records import dead_digest, schedules
from smena.records.dead_digest import Kind
from smena.records.dead_letters import DeadLetter, DeadLetters, StoredLetter
from smena.settings import Settings, load
from smena.store.database import Database
from workers.broker.depths import depths_once
from workers.cli.kinds import FiniteRange
from workers.cli.moment import readable, utc
from workers.cli.own_frames import from_the_actor_on
from workers.cli.terminal import say, say_lines
from workers.wiring.user_path import open_user_path

_SHARDS: Final = (SHARD, KEYED_SHARD)


class _ShardBody(msgspec.Struct):
    """What is read of a shard job: its batch and the epoch."""

    args: tuple[int, int]


@click.group()
def dead() -> None:
    """Look at dead letters: why, when, where, how often."""
    try:
        open_user_path(Path.cwd())  # the books say which queues there are
    except Misconfigured as refusal:
        raise click.ClickException(str(refusal)) from refusal


@dead.command(name="list")
@click.option("--reason", help="Only letters with this reason.")
@click.option("--queue", help="Only letters of jobs of this queue.")
@click.option("--actor", help="Only letters of this actor.")
@click.option("--fingerprint", help="Only letters of one kind of failure at one place.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: letters, in_rows, in_queues.")
def list_letters(limit: int, as_json: bool, **wanted: str | None) -> None:
    """List dead letters, the newest first, then their number by reason and how many still lie in queues."""
    settings = _settings()
    found, counted = _in_rows(settings, limit, wanted)
    lying = _in_queues(settings)
    if as_json:
        told = {"letters": [_facts(stored) for stored in found], "in_rows": counted, "in_queues": lying}
        click.echo(_json(told))
        return
    for stored in found:
        say(_line(stored))
    if counted is None:
        click.echo("without PostgreSQL only the counts in queues are known")
    else:
        say(f"{sum(counted.values())} in rows: {_counts(counted) or 'none'}")
    if lying is not None:
        say(f"{sum(lying.values())} still in queues: {_counts(lying) or 'none'}")


@dead.command()
@click.argument("which", metavar="ID")
@click.option("--body", is_flag=True, help="Print the message's body too; it holds the job's arguments.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of the letters.")
def show(which: str, body: bool, as_json: bool) -> None:
    """Show a dead letter by its number, or all of a job by the job's id.

    The traceback begins at the actor's own code; --json has the whole.
    """
    with _letters(_settings()) as letters:
        found = letters.get(int(which)) if which.isdecimal() and len(which) < 19 else None
        stored = [found] if found else letters.of_job(which)
    if not stored:
        raise click.ClickException(f"no dead letter {which}")
    if as_json:
        bodies = [{"body": _body(one)} if body else {} for one in stored]
        click.echo(_json([_whole(one) | text for one, text in zip(stored, bodies, strict=True)]))
        return
    for one in stored:
        _echo_letter(one, with_body=body)


@dead.command()
@click.option("--days", type=FiniteRange(0.001, 3650), default=1.0, show_default=True, help="What is recent.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list of the kinds.")
def digest(days: float, as_json: bool) -> None:
    """Sum the letters in rows up by queue, actor and reason: how many came, how many are open, how old the oldest is.

    A running scheduler tells the same once in `dead_letters.digest_s`, as events `dead.digest`.
    """
    found = _kinds(_settings(), timedelta(days=days))
    if as_json:
        click.echo(_json([asdict(kind) for kind in found]))
        return
    for kind in found:
        ages = f"{kind.came:>7} came{kind.open:>9} open  oldest {utc(kind.oldest_at)}"
        say(f"{ages}  {kind.queue:<20}{kind.actor or '(not decodable)':<24}{kind.reason}")
    if not found:
        click.echo("no dead letters in rows")


def _kinds(settings: Settings, recent: timedelta) -> list[Kind]:
    try:
        database = Database(settings.database, "smena-cli", pool_size=1)
        with closing(database), database.transaction() as connection:
            return dead_digest.kinds(connection, schedules.clock(connection) - recent)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error


def _in_rows(
    settings: Settings, limit: int, wanted: dict[str, Any]
) -> tuple[Sequence[StoredLetter], dict[str, int] | None]:
    """Return the letters wanted and the number of all by reason; None where there is no database."""
    if settings.database.url is None:
        return [], None
    with _letters(settings) as letters:
        return letters.newest(limit=limit, **wanted), letters.count_by_reason()


def _in_queues(settings: Settings) -> dict[str, int] | None:
    if not settings.amqp.urls:
        return None
    prefix = settings.amqp.prefix
    try:
        queues = [dead_queue(prefix, queue) for queue in _known_queues(settings)]
        return depths_once(settings.amqp, [*queues, lost_queue(prefix)])
    except SmenaError as error:
        raise click.ClickException(str(error)) from error


def _facts(stored: StoredLetter) -> dict[str, Any]:
    """Return what a letter says, in the order in which it is shown; neither traceback nor body."""
    letter = stored.letter
    return {
        "letter": stored.id,
        "job": letter.job_id,
        "actor": letter.actor,
        "attempt": letter.attempt,
        "reason": letter.reason,
        "error": letter.error_class,
        "text": letter.error_text,
        "died": letter.died_at,
        "first_sent": letter.first_enqueued_at,
        "archived": stored.archived_at,
        "queue": letter.queue,
        "source": letter.source,
        "worker": letter.worker,
        "build": letter.build,
        "request": letter.request_id,
        "fingerprint": letter.fingerprint,
        "body_bytes": len(letter.body),
        **_batch_of(letter),
    }


def _batch_of(letter: DeadLetter) -> dict[str, int]:
    """Return the number of the batch that a shard job worked for: its first argument."""
    if letter.actor not in _SHARDS:
        return {}
    try:
        return {"batch": msgspec.json.decode(letter.body, type=_ShardBody).args[0]}
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}


def _json(value: object) -> str:
    return json.dumps(value, default=datetime.isoformat)


def _whole(stored: StoredLetter) -> dict[str, Any]:
    return _facts(stored) | {"traceback": stored.letter.traceback}


def _body(stored: StoredLetter) -> str:
    return stored.letter.body.decode("utf-8", "backslashreplace")


def _echo_letter(stored: StoredLetter, *, with_body: bool) -> None:
    for name, value in _facts(stored).items():
        say(f"{name.replace('_', ' '):<13}{readable(value)}".rstrip())
    if stored.letter.traceback:
        say_lines(from_the_actor_on(stored.letter.traceback))
    if with_body:
        say_lines(_body(stored))
    click.echo()


def _line(stored: StoredLetter) -> str:
    letter = stored.letter
    died = utc(letter.died_at)
    actor = letter.actor or "(not decodable)"
    batch = "".join(f"  of batch {number}" for number in _batch_of(letter).values())
    return f"{stored.id:>8}  {died}  {actor:<24}{letter.reason:<22}attempt {letter.attempt:<4}{letter.job_id}{batch}"


def _known_queues(settings: Settings) -> Sequence[str]:
    return sorted({*load_books(settings.books).queues(), *settings.worker.queues})


def _counts(counted: dict[str, int]) -> str:
    ranked = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{name} {count}" for name, count in ranked if count)


def _settings() -> Settings:
    try:
        return load()
    except SmenaError as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _letters(settings: Settings) -> Iterator[DeadLetters]:
    try:
        with closing(Database(settings.database, "smena-cli", pool_size=1)) as database:
            yield DeadLetters(database)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
