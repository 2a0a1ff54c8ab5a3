"""Write the reference pages that are made from the code: `python docs/generate.py`.

With `--check` nothing is written; the status is 1 if a page differs from what the code says (a test
calls it so). A page that is checked this way is never edited by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from inspect import cleandoc
from itertools import groupby
from pathlib import Path

import click

from smena import errors
from smena.book import Retry as RetryOfActor
from smena.book import RetryPolicy
from smena.clock import SYSTEM
from smena.errors import SmenaError
from smena.job import Job
from smena.settings.groups import Retry as RetrySettings
from smena.settings.key import Key, keys
from smena.settings.model import Settings
from smena.telemetry import catalogue
from smena.telemetry.event import Event
from smena.telemetry.histogram import BOUNDS_S
from smena.telemetry.metric import METRICS
from workers.cli import main as smena_command
from workers.middleware.outcome import SETTLING, Dead, Outcome, Retry
from workers.middleware.verdict import PASSING_STATUS, Judge

FOLDER = Path(__file__).parent / "reference"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def page(title: str, intro: str, *parts: str) -> str:
    """Return a page with the note that it is generated."""
    note = "<!-- made by docs/generate.py; do not edit -->"
    return "\n\n".join([f"# {title}", note, " ".join(intro.split()), *parts]) + "\n"


def settings_page() -> str:
    """Return the page of all settings."""
    intro = """
        A value is taken from the first of these that has it: the command line, the variable `SMENA_…`, the file that
        `SMENA_…_FILE` names (a mounted secret, a regular file of at most 64 KiB), `[profile.NAME]` in `smena.toml`,
        the rest of `smena.toml`, the default. `smena.toml` is read from the current folder or from where `SMENA_TOML`
        points; its tables are the groups below. The profile is chosen by `SMENA_PROFILE` or `--profile`, never by the
        file. An empty variable counts as not set, lists are written with commas, and a name that is not here refuses
        to boot. `smena settings` prints each value and its source, `smena check` what is wrong with them.
        """
    parts = []
    for group, members in groupby(keys().values(), key=lambda key: key.group):
        doc = (
            (Settings.model_fields[group].annotation.__doc__ or "").splitlines()[0]
            if group
            else "Which code, and where."
        )
        parts.append(f"## {group or 'Top level'}\n\n{doc}\n\n{_settings_table(members)}")
    app = """## app\n
Free for the authors of actors: `[app]` in `smena.toml`, `SMENA_APP_NAME` and `SMENA_APP_NAME_FILE`, read by
`smena.app_settings(Model)` with a pydantic model, which alone decides what is right. Two underscores reach into a
nested model: `SMENA_APP_MAIL__URL`."""
    return page("Settings", intro, *parts, app)


def _settings_table(members: Iterable[Key]) -> str:
    head = ("setting", "variable", "kind", "default", "bounds", "meaning")
    return table(
        head,
        [
            (
                f"`{key.path}`",
                ", ".join(f"`{name}`" for name in key.variables),
                f"{key.kind}, {key.unit}" if key.unit else key.kind,
                _default(key),
                key.bounds or "–",
                key.doc,
            )
            for key in members
        ],
    )


def _default(key: Key) -> str:
    if key.default is None or key.default == ():
        return "–"
    return f"`{key.default:g}`" if isinstance(key.default, float) else f"`{key.default}`"


def events_page() -> str:
    """Return the page of all events."""
    intro = """
        Everything that Smena tells is one of these events. The log writes each as one line (JSON: `time`, `level`,
        `event`, the fields, `process`, `pid`) if its level is at least `telemetry.log_level`; other observers
        subscribe with `smena.telemetry.events.subscribe`. A job is named by its id and actor: arguments are never
        logged. A line has at most 4,096 bytes, a value in it at most 2,048; what is longer is cut.
        """
    events = sorted(
        (item for item in vars(catalogue).values() if isinstance(item, Event)), key=lambda event: event.name
    )
    rows = [
        (f"`{event.name}`", event.level, event.doc, "; ".join(f"`{name}` {doc}" for name, doc in event.fields.items()))
        for event in events
    ]
    return page("Events", intro, table(("event", "level", "meaning", "fields"), rows))


def metrics_page() -> str:
    """Return the page of all metrics."""
    intro = f"""
        The supervisor serves these on `supervisor.metrics_host:metrics_port` at `/metrics`, added up over all its
        processes; counters keep what ended processes counted. Histograms have one bucket an octave, from
        {BOUNDS_S[0] * 1000:g} ms to {BOUNDS_S[-1]:,.0f} s; inside, four an octave are kept, so that a percentile in
        the log is off by at most a tenth.
        """
    rows = [
        (
            f"`{metric.name}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels) or "–",
            metric.doc,
            _folded(metric.kind, metric.fold),
        )
        for metric in METRICS.values()
    ]
    return page("Metrics", intro, table(("metric", "kind", "labels", "meaning", "of several processes"), rows))


def _folded(kind: str, fold: str) -> str:
    return {"sum": "sum", "max": "largest", "min": "smallest"}[fold] if kind == "gauge" else "sum"


def errors_page() -> str:
    """Return the page of all errors and their codes."""
    intro = """
        The branch of an error says who acts next, its code is the reason that dead letters, logs and HTTP answers
        carry. Any other exception is retried a few times (`retry.unexpected_attempts`) and then becomes the dead
        letter `unexpected`. Actors raise `smena.Transient`, `smena.Permanent` or their own subclasses with a `code`.
        """
    parts = [
        f"## {branch.__name__}\n\n{table(('error', 'code', 'meaning'), _errors_under(branch))}"
        for branch in SmenaError.__subclasses__()
        if branch.__module__ == errors.__name__
    ]
    ending = f"## Shutdown\n\n{table(('error', 'code', 'meaning'), [_error(errors.Shutdown)])}"
    return page("Errors", intro, *parts, ending)


def _errors_under(branch: type[SmenaError]) -> Iterator[tuple[str, str, str]]:
    yield _error(branch)
    for leaf in branch.__subclasses__():
        if leaf.__module__ == errors.__name__:
            yield from _errors_under(leaf)


def _error(kind: type[SmenaError | errors.Shutdown]) -> tuple[str, str, str]:
    return f"`{kind.__name__}`", f"`{kind.code}`", (kind.__doc__ or "").splitlines()[0]


def outcomes_page() -> str:
    """Return the page of what a delivery can come to, and which error comes to what."""
    intro = """
        Every delivery of a job comes to exactly one of these. The middle column is made durable first, the message is
        acked second; any failure between the two leaves the message with the broker. An attempt is spent by what the
        job did itself, never by a deploy, a lost connection or a neighbour.
        """
    settling = table(
        ("outcome", "meaning", "made durable first", "acked", "spends an attempt"),
        [
            (f"`{kind.__name__}`", _doc(kind), told.durable_first, _yes(told.acked), _yes(told.spends_attempt))
            for kind, told in SETTLING.items()
        ],
    )
    verdict = table(("a job raises", "it comes to", "in the end"), _verdicts())
    statuses = ", ".join(str(status) for status in sorted(PASSING_STATUS))
    beside = f"""
        Errors of drivers are translated first: PostgreSQL's to `DatabaseLost` and `DatabaseBusy`, RabbitMQ's to
        `BrokerLost` and its like. An error with a `response.status_code` of {statuses} or 5xx, `ConnectionError`,
        `TimeoutError` and the network errors of httpx, aiohttp, requests and urllib3 count as `Transient`; a
        `Retry-After` is heeded. A retry that would start later than `retry.total_age_s` after the job was first sent
        is the dead letter `too_old` instead. `Lost` over something that the job held itself, such as the term of a
        leadership, says nothing of the job, which is tried again; that of an ordered job's own partition is the outcome
        `Lost`.
        """
    before = """
        Before an actor runs: bytes that are no job are the dead letter `undecodable`; an actor that this worker does
        not know is `Snooze`, and `unknown_actor` after `worker.unknown_actor_s`; a `once` key that another copy holds
        is `Snooze`, one that is found is `Done`; a database that cannot be asked is
        `Returned`, and so is a process that has no descriptor, memory or thread left to ask it with, which then ends.

        A coroutine whose task is cancelled, not by itself and not by the fleet, is `Returned` and runs again in its
        slot; after three times in a row it is an exception like any other, as is one that cancels itself.

        An error that raises when it is looked at, or that says that it is of another class than its own, counts as any
        other exception. An outcome whose settling raises (`job.unsettled`) is kept in its slot and settled again
        without the job; after three times in a row it is the dead letter `unsettled`, unless the job is done.
        """
    parts = ("## From an error to an outcome", verdict, " ".join(beside.split()), " ".join(before.split()))
    return page("Outcomes", intro, settling, *parts)


def _doc(kind: type) -> str:
    return " ".join((kind.__doc__ or "").replace("``", "`").split())


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _verdicts() -> Iterator[tuple[str, str, str]]:
    """Ask the judge itself what becomes of each branch at the first attempt and at the last."""
    policy = RetryOfActor().policy(RetrySettings())
    for kind in (*_branches(), errors.Shutdown, Exception):
        first, last = (_told(_judged(kind, attempt, policy)) for attempt in (1, policy.attempts))
        name = f"`{kind.__name__}`" if kind is not Exception else "any other exception"
        limit = policy.unexpected_attempts if kind is Exception else policy.attempts
        yield name, first, f"{last} after attempt {limit}" if first != last else "the same"


def _branches() -> list[type[SmenaError]]:
    return [branch for branch in SmenaError.__subclasses__() if branch.__module__ == errors.__name__]


def _judged(kind: type[BaseException], attempt: int, policy: RetryPolicy) -> Outcome:
    return Judge(SYSTEM).judge(kind(), Job(actor="book.actor", queue="default", attempt=attempt), policy)


def _told(outcome: Outcome) -> str:
    """Name an outcome; a branch's own code stands for those of its leaves."""
    match outcome:
        case Dead(reason, error):
            own = isinstance(error, SmenaError) and error.code == reason
            return "`Dead`, the reason is the error's code" if own else f"`Dead`, reason `{reason}`"
        case Retry():
            return "`Retry`"
        case _:
            return f"`{type(outcome).__name__}`"


def cli_page() -> str:
    """Return the page of all commands and their options."""
    intro = """
        `smena` comes with the fleet (`smena-fleet`); in this checkout it lies in `.venv/bin`. Settings come from
        `SMENA_…` and `smena.toml`; an option stands above both.
        """
    with click.Context(smena_command, info_name="smena") as context:
        return page("Commands", intro, *_commands(smena_command, context))


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield a part for each command that does something, depth first, in the order of the help."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                with click.Context(found, info_name=name, parent=context) as within:
                    yield from _commands(found, within)
        return
    usage = " ".join(command.collect_usage_pieces(context))
    doc = cleandoc(command.help or "").replace("\b\n", "")
    options = [one.get_help_record(context) for one in command.params if isinstance(one, click.Option)]
    shown = [(f"`{names}`", told) for names, told in filter(None, options)]
    parts = [f"## {context.command_path}", f"`{context.command_path} {usage}`", doc]
    yield "\n\n".join([*parts, *([table(("option", "meaning"), shown)] if shown else [])])


PAGES = {
    "cli.md": cli_page,
    "outcomes.md": outcomes_page,
    "settings.md": settings_page,
    "events.md": events_page,
    "metrics.md": metrics_page,
    "errors.md": errors_page,
}


def main(arguments: Sequence[str]) -> int:
    """Write the pages, or with `--check` name those that differ."""
    stale = []
    for name, make in PAGES.items():
        path, text = FOLDER / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in arguments:
        sys.stderr.write(f"out of date: {', '.join(stale)}; run `python docs/generate.py`\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
