"""`smena batch …`: submit work in bulk, watch it, stop it, take up what died."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, TypeVar, get_args

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from sharding import batches
from sharding.batches import Place, Query
from smena.book import Actor, Registry, load_books
from smena.errors import Misused, SmenaError
from smena.settings import load
from smena.store.database import Database
from workers.cli.terminal import say
from workers.wiring.user_path import open_user_path

T = TypeVar("T")

LOOK_S: Final = 0.5
_GOING: Final = ("running",)

shard_count = click.IntRange(1, batches.MOST_SHARDS)
which = click.argument("batch_id", metavar="ID", type=click.IntRange(1, batches.LAST))
watching = click.option("--watch", is_flag=True, help="Stay until it ends, with a progress bar at a terminal.")
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def batch() -> None:
    """Work in bulk: submit it, watch it, stop it, take up what died."""


@batch.command()
@click.argument("actor")
@click.option("--file", "file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Items: a file.")
@click.option("--query", help="Items: the rows of an SQL query; one column is the item, several are an object.")
@click.option("--per", type=click.Choice(["item", "slice"]), default="item", show_default=True, help="Call it with.")
@click.option(
    "--mode",
    type=click.Choice(get_args(batches.Mode)),
    default="claim",
    show_default=True,
    help="By partition the items of a key are worked in order.",
)
@click.option("--by", metavar="NAME", help="By partition: the field or column that is an item's key.")
@click.option("--partitions", type=int, help="By partition: into how many the keys fall (32).")
@click.option("--on-dead", type=click.Choice(["skip", "block"]), help="By partition: what a dead item does to its key.")
@click.option("--key", help="Of all batches with one key there is one.")
@click.option("--then", metavar="ACTOR", help="Who is sent batch, total, done and dead at the end.")
@click.option("--kwargs", default="{}", metavar="JSON", help="What the actor is given beside the item.")
@click.option(
    "--shards",
    type=click.IntRange(1, batches.MOST_SHARDS),
    default=batches.SHARDS,
    show_default=True,
    help="Workers on it.",
)
@watching
@as_json_option
def submit(
    actor: str,
    file: Path | None,
    query: str | None,
    then: str | None,
    kwargs: str,
    *,
    watch: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Open a batch for ACTOR of the items in a file (.jsonl, .csv, or a text line each) or of a query's rows.

    A pipe is read until its writer closes it.

    With --watch it ends with 1 if items of it are dead.
    """
    if (file is None) == (query is None):
        raise click.UsageError("give the items by --file or by --query")
    with ExitStack() as ends:
        source = Query(query or "") if file is None else ends.enter_context(_at_rest(file))
        database = ends.enter_context(_database())
        books = load_books(load().books)
        callback = None if then is None else _actor(books, then)
        opened = _done(
            database,
            lambda session: batches.open(
                session, _actor(books, actor), source, then=callback, kwargs=_json_object(kwargs), **options
            ),
        )
        if not as_json:
            told = "opened" if opened.is_new else "there was already"
            click.echo(f"{told} batch {opened.id} of {opened.total} item{'' if opened.total == 1 else 's'}")
        stands = _tell(database, opened.id, watch=watch, as_json=as_json)
    click.get_current_context().exit(1 if watch and stands.dead else 0)


@batch.command()
@which
@watching
@as_json_option
def status(batch_id: int, *, watch: bool, as_json: bool) -> None:
    """Say how far a batch is; ends with 1 if items of it are dead."""
    with _database() as database:
        stands = _tell(database, batch_id, watch=watch, as_json=as_json)
    click.get_current_context().exit(1 if stands.dead else 0)


@batch.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many.")
@as_json_option
def list_latest(limit: int, *, as_json: bool) -> None:
    """List the batches that were opened last, with their actor and key."""
    with _database() as database, database.session() as session:
        latest, stalled_s = batches.latest(session, limit), load().batches.stalled_s
    if as_json:
        click.echo(json.dumps([_facts(stands) for stands in latest], default=str))
        return
    for stands in latest:
        key = "" if stands.key is None else f", key {stands.key}"
        say(f"{_line(stands, stalled_s)}: {stands.actor}{key}")


@batch.command()
@which
def pause(batch_id: int) -> None:
    """Let nobody take more of it; what workers have in hand is finished."""
    _change(batch_id, lambda session: batches.pause(session, batch_id))


@batch.command()
@which
def resume(batch_id: int) -> None:
    """Let workers take it again; also where it runs and its shard jobs were lost."""
    _change(batch_id, lambda session: batches.resume(session, batch_id))


@batch.command()
@which
def cancel(batch_id: int) -> None:
    """End it as it is, without its callback; what workers have in hand is finished."""
    _change(batch_id, lambda session: batches.cancel(session, batch_id))


@batch.command()
@which
def retry(batch_id: int) -> None:
    """Take its dead items up again, from their first attempt; it runs then, also if it was paused or cancelled."""
    with _database() as database:
        count = _done(database, lambda session: batches.retry(session, batch_id))
    told = "1 item is" if count == 1 else f"{count} items are"
    click.echo(f"{told} taken up again" if count else "no item of it is dead")


@batch.command()
@which
@click.option("--state", type=click.Choice(["done", "dead", "left"]), default="dead", show_default=True, help="Which.")
@click.option("--after", type=int, default=-1, help="Only items behind this number, for the next page.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@as_json_option
def items(batch_id: int, state: batches.State, after: int, limit: int, *, as_json: bool) -> None:
    """List items in one state; the dead with their reason. With --json the items themselves too."""
    with _database() as database, database.session() as session:
        batches.status(session, batch_id)
        found = list(batches.items(session, batch_id, state, after=after, limit=limit))
    if as_json:
        click.echo(json.dumps([asdict(item) for item in found]))
        return
    for item in found:
        why = "" if item.reason is None else f"{item.reason:<22}attempts {item.attempts}  {item.error or ''}"
        key = "" if item.key is None else f"{item.key:<22}"
        say(f"{item.number:>10}  {key}{why}".rstrip())


def _json_object(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise click.BadParameter(f"not a JSON object: {error}", param_hint="--kwargs") from error


def _actor(books: Registry, name: str) -> Actor[..., Any]:
    found = books.actor(name)
    if found is None:
        raise click.ClickException(f"no loaded book has an actor {name}")
    return found


def _change(batch_id: int, change: Callable[[Place], None]) -> None:
    with _database() as database:
        _done(database, change)
        _tell(database, batch_id, watch=False, as_json=False)


def _done(database: Database, change: Callable[[Place], T]) -> T:
    with database.session() as session:
        result = change(session)
        session.commit()
    return result


def _tell(database: Database, batch_id: int, *, watch: bool, as_json: bool) -> batches.Progress:
    stands = _watched(database, batch_id) if watch else _status(database, batch_id)
    if as_json:
        click.echo(json.dumps(_facts(stands), default=str))
    else:
        click.echo(_line(stands, load().batches.stalled_s))
    return stands


def _status(database: Database, batch_id: int) -> batches.Progress:
    with database.session() as session:
        return batches.status(session, batch_id)


def _facts(stands: batches.Progress) -> dict[str, Any]:
    rate = None if stands.rate is None else round(stands.rate, 1)
    return asdict(stands) | {"done": stands.done, "rate": rate, "eta_s": stands.eta_s}


def _line(stands: batches.Progress, stalled_s: float) -> str:
    parts = [
        f"batch {stands.id}",
        stands.state,
        f"{stands.done} of {stands.total} done",
        f"{stands.dead} dead",
        f"{stands.left} left",
        f"{stands.held} in hand" if stands.held else "",
        f"{stands.waiting} wait for a retry" if stands.waiting else "",
        "" if stands.rate is None else f"{stands.rate:,.0f} items/s",
        "" if stands.eta_s is None else f"about {stands.eta_s:,.0f} s to go",
        f"nobody has had it in hand for {stands.idle_s:,.0f} s" if stands.idle_s > stalled_s else "",
    ]
    return ", ".join(part for part in parts if part)


def _watched(database: Database, batch_id: int) -> batches.Progress:
    """Show a bar at a terminal, until the batch does not run any more; say wherever it is that nobody works it."""
    stands, stalled_s, is_told = _status(database, batch_id), load().batches.stalled_s, False
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    terminal = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=terminal, disable=not terminal.is_terminal) as bar:
        task = bar.add_task(f"batch {batch_id}", total=stands.total)
        while True:
            settled = stands.done + stands.dead
            dead = f", {stands.dead} dead" if stands.dead else ""
            bar.update(task, completed=settled, description=f"batch {batch_id} {stands.state}{dead}")
            if stands.state not in _GOING:
                return stands
            if (is_stalled := stands.idle_s > stalled_s) and not is_told:
                terminal.print(_line(stands, stalled_s), soft_wrap=True, markup=False, highlight=False)
            is_told = is_stalled
            time.sleep(LOOK_S)
            stands = _status(database, batch_id)


@contextmanager
def _at_rest(file: Path) -> Iterator[Path]:
    """Give a file as it is, and a pipe as a copy: a transaction that waits for a slow writer would be ended."""
    if not file.is_fifo():
        yield file
        return
    click.echo(f"reading items from the pipe {file} until its writer closes it", err=True)
    with file.open("rb") as pipe, NamedTemporaryFile(suffix=file.suffix) as copy:
        shutil.copyfileobj(pipe, copy)
        copy.flush()
        yield Path(copy.name)


@contextmanager
def _database() -> Iterator[Database]:
    try:
        open_user_path(Path.cwd())
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database:
            yield database
    except batches.NoBatch as error:
        raise click.ClickException(_no_batch(**error.facts)) from error
    except Misused as error:
        raise click.ClickException(_refusal(error)) from error
    except SmenaError as error:
        raise click.ClickException(str(error)) from error


def _no_batch(batch: int, wanted: str = "") -> str:
    return f"there is no batch {batch}" + (f" that is {wanted}" if wanted else "")


def _refusal(error: Misused) -> str:
    """Say what is wrong with which value: there is no call that its sentence could be about, but what was typed."""
    facts = ", ".join(f"{name} is {value}" for name, value in error.facts.items())
    return f"{error.detail} ({facts})" if facts else error.detail
