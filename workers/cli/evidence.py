"""`smena evidence JOB`: what a job left behind when processes died: strikes, starts, and its death report."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import click

from smena.errors import SmenaError
from smena.records.dead_letters import DeadLetters, StoredLetter
from smena.records.strike import Start, Strike, Why
from smena.records.strikes import Strikes
from smena.settings import load
from smena.store.database import Database
from workers.cli.moment import utc
from workers.cli.terminal import say

_REASON = "crashed"


@click.command()
@click.argument("job", metavar="JOB")
@click.option("--json", "as_json", is_flag=True, help="One JSON object: job, strikes, starts, deaths.")
def evidence(job: str, as_json: bool) -> None:
    """Show which processes died while the job JOB ran, how, and what became of it."""
    try:
        with closing(Database(load().database, "smena-cli", pool_size=1)) as database:
            strikes, starts = Strikes(database).of_job(job)
            deaths = [stored for stored in DeadLetters(database).of_job(job) if stored.letter.reason == _REASON]
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        told = {
            "job": job,
            "strikes": [_strike(strike) for strike in strikes],
            "starts": [_start(start) for start in starts],
            "deaths": [_death(stored) for stored in deaths],
        }
        click.echo(json.dumps(told))
        return
    if not (strikes or starts or deaths):
        click.echo(f"nothing is held against {job}: no process is known to have died while it ran")
    for strike in strikes:
        _echo_strike(strike)
    for start in starts:
        say(f"runs, or ran when its process was lost: attempt {start.attempt} in {start.worker}@{start.host}")
    for stored in deaths:
        say(f"dead letter {stored.id} of attempt {stored.letter.attempt}: {stored.letter.error_text}")


def _echo_strike(strike: Strike) -> None:
    at = "" if strike.struck_at is None else f"{utc(strike.struck_at)}  "
    say(f"{at}attempt {strike.attempt} in {strike.worker}@{strike.host}: {_in_words(strike)}")
    for title, text in (("where its thread was", strike.stack), ("last lines of the log", strike.lines)):
        if text:
            click.echo(f"  {title}:")
            for line in text.splitlines():
                say(f"    {line}")


def _in_words(strike: Strike) -> str:
    known = [
        f"the process ended by {strike.how}",
        _WHY[strike.why],
        "alone there" if strike.beside == 1 else f"one of {strike.beside} there",
    ]
    if strike.ran_s is not None:
        known.append(f"after {strike.ran_s:.1f} s")
    if strike.peak_mib is not None:
        known.append(f"peak memory {strike.peak_mib} MiB")
    if strike.cleared_at is not None:
        known.append(f"cleared {utc(strike.cleared_at)}")
    return ", ".join(known)


_WHY: dict[Why, str] = {
    "suspected": "suspected",
    "ended": "suspected: it had just ended there",
    "fault": "the fault was in its thread",
    "hard_limit": "killed because it went on past its hard limit",
    "held_interpreter": "killed because it held the interpreter",
    "lost": "suspected: the process went with its supervisor",
}


def _strike(strike: Strike) -> dict[str, Any]:
    return {
        "attempt": strike.attempt,
        "actor": strike.actor,
        "why": strike.why,
        "how": strike.how,
        "beside": strike.beside,
        "peak_mib": strike.peak_mib,
        "ran_s": strike.ran_s,
        "life": strike.life,
        "worker": strike.worker,
        "host": strike.host,
        "struck": strike.struck_at and strike.struck_at.isoformat(),
        "cleared": strike.cleared_at and strike.cleared_at.isoformat(),
        "lines": (strike.lines or "").splitlines(),
        "stack": strike.stack,
    }


def _start(start: Start) -> dict[str, Any]:
    return {
        "attempt": start.attempt,
        "actor": start.actor,
        "life": start.life,
        "worker": start.worker,
        "host": start.host,
        "started": start.started_at and start.started_at.isoformat(),
    }


def _death(stored: StoredLetter) -> dict[str, Any]:
    letter = stored.letter
    return {
        "letter": stored.id,
        "attempt": letter.attempt,
        "reason": letter.reason,
        "text": letter.error_text,
        "died": letter.died_at.isoformat(),
        "worker": letter.worker,
        "last_words": (letter.traceback or "").splitlines(),
    }
