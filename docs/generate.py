"""Write the reference pages that are made from the code: `python docs/generate.py`.

With `--check` nothing is written; the status is 1 if a page differs from what the code says (a test
calls it so). A page that is checked this way is never edited by hand.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from smena import errors
from smena.errors import SmenaError
from smena.settings.key import Key, keys
from smena.settings.model import Settings
from smena.telemetry import catalogue
from smena.telemetry.event import Event
from smena.telemetry.histogram import BOUNDS_S
from smena.telemetry.metric import METRICS

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
        A value is taken from the first of these that has it: the command line, the variable `SMENA_…`, the file
        that `SMENA_…_FILE` names (a mounted secret), `[profile.NAME]` in `smena.toml`, the rest of `smena.toml`, the
        default. `smena.toml` is read from the current folder or from where `SMENA_TOML` points; its tables are the
        groups below. The profile is chosen by `SMENA_PROFILE` or `--profile`, never by the file. An empty variable
        counts as not set, lists are written with commas, and a name that is not here refuses to boot.
        `smena settings` prints each value and its source, `smena check` what is wrong with them.
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


PAGES = {
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
