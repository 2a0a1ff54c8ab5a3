"""`smena schedule …`: see what is due and what became of it; add, pause, resume and fire by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, get_args

import click
import msgspec

from smena.book import Actor, RemoteActor, by_name, load_books
from smena.book.schedule import Schedule
from smena.errors import Misdeclared, SmenaError
from smena.records.schedules import Kept
from smena.records.ticks import KeptTick, Tick
from smena.schedules.by_hand import Hand, NoSuchSchedule
from smena.settings import load
from smena.store.database import Database
from smena.timetable import Misfire, Overlap, read
from smena.timetable.listing import coming
from smena.timetable.misfire import CAP, COUNTED
from workers.cli import shipped
from workers.cli.moment import utc
from workers.wiring.user_path import open_user_path

_LATE: Final = timedelta(minutes=1)
_ON_TIME_S: Final = 5.0
"""A tick that fired within this time is not called late."""

_NOTHING: Final = "nothing to fire: it was decided before, none is due, the job before it runs still, or it rests"
_YEAR_S: Final = 366 * 86_400


@click.group()
def schedule() -> None:
    """Look at schedules, and fire, pause, add and remove them."""


@schedule.command(name="list")
def list_schedules() -> None:
    """List all schedules: when they come next, their policies, and what keeps them from coming.

    The last lines are those that the fleet brings along, whatever books are loaded: a scheduler's janitor does them.
    """
    with _hand() as hand:
        kept = hand.all()
        own = shipped.lines()
    for one in kept:
        wanted = one.wanted
        policies = f"misfire={wanted.misfire} overlap={wanted.overlap}"
        line = f"{wanted.name:<28}{_next_of(one):<22}{wanted.spec:<36}{policies}  {wanted.actor}"
        click.echo(f"{line}{_why_late(one)}")
    if not kept:
        click.echo("no schedules; the scheduler that leads (`smena leader list`) writes those of the books it loads")
    for line in own:
        click.echo(line)


@schedule.command(name="next")
@click.argument("name")
@click.option("--count", type=click.IntRange(1, 1000), default=20, show_default=True, help="So many ticks.")
def show_next(name: str, count: int) -> None:
    """Show the next ticks, with what a change of the clocks does to them."""
    with _hand() as hand:
        kept = hand.one(name)
        for one in coming(read(kept.wanted.spec), datetime.now(UTC), count):
            local = f"{one.local:%a %Y-%m-%d %H:%M:%S %z}"
            click.echo(f"{utc(one.at)}  {local}  {one.mark}".rstrip())


@schedule.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="At most so many.")
def history(name: str, limit: int) -> None:
    """Show what became of the newest ticks: fired, late, caught up or skipped and why, and how their jobs ended."""
    with _hand() as hand:
        try:
            kept = hand.history(name, limit)
        except NoSuchSchedule:
            if not shipped.is_shipped(name):
                raise
            kept = []
    for one in kept:
        click.echo(f"{utc(one.tick.at)}  {_fate(one)}")
    if not kept:
        click.echo(f"no tick of {name} yet")


@schedule.command()
@click.argument("name")
def run(name: str) -> None:
    """Fire now, beside the schedule's own ticks; what the fleet brings along is done at once, by this command."""
    with _hand() as hand:
        if shipped.is_shipped(name):
            click.echo(f"{name}: {shipped.run(name)} row(s) went")
            return
        click.echo(f"fired as job {hand.run(name).job_id}")


@schedule.command()
@click.argument("name")
@click.option("--now", "is_now", is_flag=True, required=True, help="The tick nearest to now.")
@click.option(
    "--within",
    "within_s",
    type=click.IntRange(1, 366 * 86_400),
    default=3600,
    show_default=True,
    help="Its age at most.",
)
def tick(name: str, *, is_now: bool, within_s: int) -> None:  # noqa: ARG001 - says what it does where it is called
    """Fire the tick that is due, for a clock outside such as a Kubernetes CronJob.

    It is the newest that is due, or the next if that is at most 10 s away (or half the pause between two), for a clock
    may be a bit ahead. A scheduler fires the same tick, so with both it fires once. Ends with 0 also where it was fired
    before.
    A schedule that is not in the table yet is looked for in the books of the settings.
    """
    with _hand() as hand:
        try:
            told = hand.tick_now(name, within_s)
        except NoSuchSchedule:
            open_user_path(Path.cwd())
            hand.declare(name, load_books(load().books))
            told = hand.tick_now(name, within_s)
    click.echo(_NOTHING if told is None else f"{utc(told.at)}  {_told(told)}")


@schedule.command()
@click.argument("name")
def pause(name: str) -> None:
    """Let a schedule rest, until `resume`; also over deploys."""
    shipped.refuse_shipped(name)
    with _hand() as hand:
        hand.pause(name)
    click.echo(f"{name} rests")


@schedule.command()
@click.argument("name")
def resume(name: str) -> None:
    """Let a schedule go on from now; what came meanwhile is not caught up."""
    shipped.refuse_shipped(name)
    with _hand() as hand:
        next_at = hand.resume(name)
    click.echo(f"{name} comes next at {_time(next_at)}")


@schedule.command()
@click.argument("name")
@click.argument("actor")
@click.argument("rule")
@click.option("--queue", help="The actor's queue; one of a loaded book says its own.")
@click.option("--args", "args", default="[]", show_default=True, metavar="JSON", help="The job's arguments, a list.")
@click.option("--misfire", type=click.Choice(get_args(Misfire)), default="one", show_default=True)
@click.option("--cap", type=click.IntRange(1, 10_000), default=CAP, show_default=True, help="What `all` catches up.")
@click.option("--overlap", type=click.Choice(get_args(Overlap)), default="skip", show_default=True)
def add(
    name: str, actor: str, rule: str, *, queue: str | None, args: str, misfire: Misfire, cap: int, overlap: Overlap
) -> None:
    """Add a schedule, or change one that was added: RULE is `every 5m` or `cron 0 3 * * * Europe/Moscow`.

    An actor of a loaded book is checked as in code; of any other only its name and queue are known.
    """
    with _typed("RULE"):
        when = read(rule)
    wanted = Schedule(when, _json_list(args), misfire=misfire, misfire_cap=cap, overlap=overlap)
    with _hand() as hand:
        target = _target(actor, queue)
        with _typed("NAME or ACTOR"):
            hand.add(name, target, wanted)
        click.echo(f"{name} comes next at {_time(hand.one(name).next_at)}")
    if isinstance(target, RemoteActor):
        told = f"no loaded book has {actor}; its jobs wait in queue {target.queue} for a worker that has it"
        click.echo(told, err=True)


@schedule.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove a schedule; one that a loaded book declares comes back with the scheduler's next start."""
    shipped.refuse_shipped(name)
    with _hand() as hand:
        hand.remove(name)
    click.echo(f"{name} is removed")


def _target(name: str, queue: str | None) -> Actor[..., Any] | RemoteActor:
    """Return the loaded actor of this name; where no book has it, its address."""
    open_user_path(Path.cwd())
    known = load_books(load().books).actor(name)
    if known is not None:
        if queue not in (None, known.queue):
            raise click.BadParameter(f"{known.name} is on queue {known.queue}", param_hint="--queue")
        return known
    if queue is None:
        raise click.UsageError(f"no loaded book has {name}: give its queue with --queue")
    with _typed("ACTOR or --queue"):
        return by_name(name, queue=queue)


def _next_of(kept: Kept) -> str:
    if kept.removed_at is not None:
        return "not declared any more"
    return "paused" if kept.paused_at is not None else _time(kept.next_at)


def _why_late(kept: Kept) -> str:
    """Say where to look for the cause of a tick that nobody decides: in no table."""
    is_awake = kept.paused_at is None and kept.removed_at is None
    if not is_awake or kept.next_at is None or kept.next_at > datetime.now(UTC) - _LATE:
        return ""
    return "  due, not decided: see `schedule.failed` in the log of who leads (`smena leader list`)"


def _time(at: datetime | None) -> str:
    return "never" if at is None else utc(at)


def _fate(kept: KeptTick) -> str:
    words = [_told(kept.tick)]
    if kept.fired_at is not None:
        late_s = (kept.fired_at - kept.tick.at).total_seconds()
        words += [f"late by {late_s:.0f} s"] if late_s > _ON_TIME_S else []
        words += ["runs" if kept.ended_at is None else f"{kept.ending} at {kept.ended_at:%H:%M:%S}Z"]
    return ", ".join(words)


def _told(tick: Tick) -> str:
    if tick.state == "fired":
        how = "" if tick.why == "on_time" else f" ({tick.why.replace('_', ' ')})"
        return f"fired{how}" if tick.job_id is None else f"fired{how} as job {tick.job_id}"
    if tick.state == "waiting":
        return "waits for the job before it to end"
    several = (
        "" if tick.until is None else f" {tick.count}{'+' if tick.count >= COUNTED else ''} up to {_time(tick.until)}"
    )
    return f"skipped{several}: {tick.why.replace('_', ' ')}"


def _json_list(text: str) -> list[Any]:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise click.BadParameter(f"not a JSON list: {error}") from error


@contextmanager
def _typed(what: str) -> Iterator[None]:
    """Take a refusal of what code may declare as one of what was typed here: no code is to blame."""
    try:
        yield
    except Misdeclared as refusal:
        facts = " ".join(f"{name}={value}" for name, value in refusal.facts.items())
        told = ": ".join(part for part in (refusal.detail, facts) if part)
        raise click.BadParameter(told, param_hint=what) from refusal


@contextmanager
def _hand() -> Iterator[Hand]:
    try:
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database:
            yield Hand(database)
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
