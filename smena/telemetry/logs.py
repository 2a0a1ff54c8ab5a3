"""Write the log: events of the catalogue, and what actors and libraries say.

JSON to standard error in production or where that is no terminal, readable and coloured at one; and
JSON lines to a file if one is set. Call `configure` once in each process (again after a fork). A line
is written by whoever logs, at once and in one piece; see `line_writer` for what happens when nobody
reads. Logging never raises.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import structlog

from smena.settings.groups import Telemetry
from smena.telemetry import catalogue, events, log_line
from smena.telemetry.event import LEVELS, Level, Occurrence
from smena.telemetry.line_writer import LineWriter
from smena.telemetry.log_line import Fields

RESERVED = frozenset({"time", "level", "event", "process", "pid"})
"""Names that every line has; an event's own field of such a name is written with an underscore behind it."""

Render = Callable[[Fields], bytes]


class Output:
    """One place lines go to, in one rendering."""

    def __init__(self, writer: LineWriter, render: Render) -> None:
        self.writer = writer
        self._render = render

    def write(self, fields: Fields) -> None:
        """Write one line; when lines were given up before it, say so next."""
        if self.writer.write(self._render(dict(fields))) and self.writer.dropped:
            lost = {"time": fields.get("time"), "level": "warning", "event": catalogue.LOG_DROPPED.name}
            self.writer.write(self._render({**lost, "lines": self.writer.take_dropped()}))


class _Sink:
    """What structlog calls at the end of its chain."""

    def __init__(self, outputs: tuple[Output, ...]) -> None:
        self._outputs = outputs

    def msg(self, /, **fields: Any) -> None:
        """Write the line to every output."""
        for output in self._outputs:
            try:
                output.write(fields)
            except Exception:  # noqa: BLE001  (logging must not fail the work it tells of; the line is counted)
                output.writer.dropped += 1

    debug = info = warning = error = critical = exception = fatal = log = msg


class LibraryHandler(logging.Handler):
    """Bring what libraries say through `logging` into the same lines."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log the record under its logger's name; a record that cannot be formatted is named by its place."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001  (a library's broken format string)
            text = f"<unreadable record from {record.pathname}:{record.lineno}>"
        level = min(max(record.levelno // 10, 1), 5) * 10  # structlog knows the five usual levels only
        structlog.get_logger().log(level, text, logger=record.name, exc_info=record.exc_info)


class Logs:
    """The configured log of this process; `close` gives everything back."""

    def __init__(self, outputs: tuple[Output, ...], level: Level) -> None:
        self._outputs = outputs
        self._handler = LibraryHandler()
        logging.getLogger().addHandler(self._handler)
        self._log = structlog.get_logger().bind()
        self._unsubscribe = events.subscribe(self._write, level=level)

    def close(self) -> None:
        """Stop logging and close the file."""
        self._unsubscribe()
        logging.getLogger().removeHandler(self._handler)
        structlog.reset_defaults()
        for output in self._outputs:
            output.writer.close()

    def _write(self, occurrence: Occurrence) -> None:
        fields = occurrence.fields
        if not RESERVED.isdisjoint(fields):
            fields = {f"{name}_" if name in RESERVED else name: value for name, value in fields.items()}
        self._log.log(occurrence.event.severity, occurrence.event.name, **fields)


_current: Logs | None = None
"""The process's own log, so that configuring again replaces it."""


def configure(
    settings: Telemetry,
    role: str,
    *,
    profile: str = "development",
    descriptor: int = 2,
    last_lines: LineWriter | None = None,
) -> Logs:
    """Log from now on as the settings say; ``role`` names this process in each line.

    ``last_lines`` gets every line too, as JSON.
    """
    global _current
    close()
    outputs = _outputs(settings, profile, descriptor)
    if last_lines is not None:
        outputs += (Output(last_lines, log_line.to_json),)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,  # plain: never the values of local variables
            _name_process(role),
            log_line.sanitize,
            log_line.stamp,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[settings.log_level]),
        logger_factory=lambda *_args: _Sink(outputs),
        cache_logger_on_first_use=False,
    )
    _current = Logs(outputs, settings.log_level)
    return _current


def close() -> None:
    """Stop logging and give everything back; without a log there is nothing to do."""
    global _current
    if _current is not None:
        _current.close()
        _current = None


def _outputs(settings: Telemetry, profile: str, descriptor: int) -> tuple[Output, ...]:
    terminal = os.isatty(descriptor)
    as_json = settings.log_format == "json" or (
        settings.log_format == "auto" and (profile == "production" or not terminal)
    )
    render = log_line.to_json if as_json else log_line.console(colors=terminal)
    outputs = [Output(LineWriter.shared(descriptor), render)]
    if settings.log_file is not None:
        outputs.append(Output(LineWriter.to_file(settings.log_file), log_line.to_json))
    return tuple(outputs)


def _name_process(role: str) -> Callable[[object, str, Fields], Fields]:
    def add(_logger: object, _method: str, fields: Fields) -> Fields:
        fields["process"] = role
        fields["pid"] = os.getpid()  # asked each time: a fork keeps the configuration
        return fields

    return add
