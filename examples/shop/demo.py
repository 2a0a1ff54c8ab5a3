"""Do the main job once, in front of an audience: a shop's sales through a real fleet, with a kill in the middle.

    ./run demo [FILE] [--processes N] [--json] [--keep]

Services, fleet, mail provider and publisher are real processes; this one starts them, kills one worker in
the middle of its jobs, drains another, has the night's report made while they work, waits until all is quiet,
and asks a program that believes none of them for the verdict. Exit status: 0 the run is good; 1 it is not, with
the reasons; 2 it could not be made; 128 and the signal when one ended it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import psycopg
from rich.console import Console

from examples.shop import retail_file
from examples.shop.event_log import EventLog
from examples.shop.fleet import Fleet, Interference
from examples.shop.live_table import LiveTable
from examples.shop.programs import Broken, Program
from examples.shop.result import Result, result_of
from examples.shop.stage import Stage
from examples.shop.standing import Observer, Standing
from smena.errors import SmenaError
from workers.process.ending import Ending

_EXAMPLE: Final = Path(__file__).resolve().parent.parent / "retail.csv"
_BOOT_S: Final = 60.0
_VERDICT_S: Final = 600.0
_STILL_S: Final = 90.0
"""Time without any change after which the run is judged as it stands; longer than any retry's wait."""
_DRAIN_S: Final = 45.0
_NIGHT: Final = ("reports.nightly", "--now", "--within", f"{48 * 3600}")
"""The last night's tick, whenever the demo runs."""
_ROLES: Final = "relay,archivist,worker"
"""No scheduler: at three o'clock it would open the report in the middle of the run."""
_QUIET_LOOKS: Final = 3
"""So many looks in a row must find nothing: a message on its way between two queues is in neither."""
_CLOSE_LOOK_S: Final = 0.003
_LOOK_S: Final = 0.2


class Report:
    """The night's report: asked for as a clock outside asks, by the program that ``start`` starts."""

    def __init__(self, start: Callable[[], Program]) -> None:
        self._start = start
        self._tick: Program | None = None

    def ask_once(self) -> None:
        """Ask if that has not been done; raise `Broken` if it has failed."""
        if self._tick is None:
            self._tick = self._start()
        self._tick.require_no_failure()


class Demo:
    """One run: its programs, and what is seen of them."""

    def __init__(self, stage: Stage, ending: Ending, file: Path, processes: int, *, quiet: bool) -> None:
        self._stage = stage
        self._ending = ending
        self._file = file
        self._processes = processes
        self._quiet = quiet
        self._fleet = Fleet(stage.state_dir)
        self._interference = Interference(self._fleet)
        self._events = EventLog(stage.event_log)

    def run(self) -> Result:
        """Run the demo on a stage that is set, and return what it came to."""
        with ExitStack() as ends:
            mail_url = self._start_provider(ends)
            env = self._stage.env(mail_url, self._processes)
            connection = self._migrate(ends, env)
            fleet = self._start_fleet(ends, env)
            began = time.monotonic()
            publisher = self._start("publisher", ["examples.shop.publisher", str(self._file)], env, ends)
            report = Report(lambda: self._start("tick", ["workers.cli", "schedule", "tick", *_NIGHT], env, ends))
            self._watch(connection, ends, fleet, publisher, report)
            seconds = time.monotonic() - began
            self._say("stopping the fleet and judging")
            publisher.end()
            fleet.end(within_s=_DRAIN_S)
            left = self._left()
            verdict = self._judge(env)
        return self._result(verdict, seconds, left)

    def _start(self, name: str, arguments: list[str], env: dict[str, str], ends: ExitStack) -> Program:
        program = Program(name, arguments, env, self._stage.runs)
        ends.callback(program.end)
        return program

    def _start_provider(self, ends: ExitStack) -> str:
        arguments = ["examples.shop.mail_provider", "--log", str(self._stage.mail_log)]
        provider = self._start("mail-provider", arguments, self._stage.env("", self._processes), ends)
        for _ in self._patiently(provider, _BOOT_S):
            if lines := provider.lines():
                return lines[0]
        raise Broken(provider.complaint("did not start"))

    def _migrate(self, ends: ExitStack, env: dict[str, str]) -> psycopg.Connection[Any]:
        upgrade = self._start("upgrade", ["workers.cli", "db", "upgrade"], env, ends)
        if upgrade.wait(_BOOT_S) != 0:
            raise Broken(upgrade.complaint("of the database failed"))
        return ends.enter_context(psycopg.connect(self._stage.database_url, autocommit=True))

    def _start_fleet(self, ends: ExitStack, env: dict[str, str]) -> Program:
        self._say(f"starting the fleet: relay, archivist, {self._processes} worker processes")
        fleet = self._start("fleet", ["workers.cli", "up", "--roles", _ROLES], env, ends)
        for _ in self._patiently(fleet, _BOOT_S):
            if self._fleet.is_ready():
                return fleet
        raise Broken(fleet.complaint(f"was not ready within {_BOOT_S:g} s"))

    def _patiently(self, program: Program, within_s: float) -> Iterator[None]:
        """Go on while the program lives and time is left."""
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            self._ending.look()
            program.require_alive()
            yield
            time.sleep(0.02)

    def _watch(
        self,
        connection: psycopg.Connection[Any],
        ends: ExitStack,
        fleet: Program,
        publisher: Program,
        report: Report,
    ) -> None:
        """Interfere as soon as that can be done, then wait until the run is quiet or stands still."""
        depths = self._stage.queues()
        ends.callback(depths.close)
        observer = Observer(connection, depths, self._fleet, self._events, self._stage.mail_log)
        moved = now = observer.look(publisher)
        quiet_looks = 0
        with LiveTable(Console(stderr=True, quiet=self._quiet)) as table:
            while quiet_looks < _QUIET_LOOKS and now.at_s - moved.at_s < _STILL_S:
                self._interfere_until(now.at_s + _LOOK_S)
                fleet.require_alive()
                publisher.require_alive()
                now = observer.look(publisher)
                if now.progress.published:  # then all orders are there, which is all that the report is about
                    report.ask_once()
                table.show(now)
                moved = now if now.has_moved_since(moved) else moved
                quiet_looks = quiet_looks + 1 if now.is_quiet and self._has_interfered(now, moved) else 0

    def _interfere_until(self, at_s: float) -> None:
        while (left_s := at_s - time.monotonic()) > 0:
            self._ending.look()
            self._interference.act()
            time.sleep(left_s if self._interference.killed else min(left_s, _CLOSE_LOOK_S))

    def _has_interfered(self, now: Standing, moved: Standing) -> bool:
        """Say whether kill and drain are over, or will not come: nothing moves and nobody was killed."""
        if self._interference.killed is None:
            return now.at_s - moved.at_s > 1.0
        return self._interference.is_done

    def _left(self) -> int:
        """Return the messages in all queues now that nobody consumes."""
        depths = self._stage.queues()
        try:
            return depths.left()
        finally:
            depths.close()

    def _judge(self, env: dict[str, str]) -> dict[str, Any]:
        seen = ["--mails", str(self._stage.mail_log), "--receipts", str(self._stage.receipts)]
        arguments = ["workers.drills.ledger", str(self._file), *seen, "--json"]
        self._stage.mail_log.touch()
        with ExitStack() as ends:
            ledger = self._start("ledger", arguments, env, ends)
            if ledger.wait(_VERDICT_S) not in (0, 1):
                raise Broken(ledger.complaint("could not judge"))
            verdict: dict[str, Any] = json.loads(ledger.last_line() or "{}")
        return verdict

    def _result(self, verdict: dict[str, Any], seconds: float, left: int) -> Result:
        self._events.read_on()
        return result_of(
            verdict,
            killed_running=self._interference.killed_running,
            drained=self._interference.is_done,
            redelivered=self._events.counts["job.redelivered"],
            repeats_absorbed=self._events.counts["once.hit"],
            left=left,
            seconds=round(seconds, 3),
            rate=round((verdict["effects"] + verdict["dead"]) / seconds, 1),
            latency_ms=self._events.latency_ms(),
        )

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo and print what it came to."""
    options = _options(arguments)
    file: Path = options.file.absolute()
    stage = Stage(os.environ)
    try:
        retail_file.inspect(file)
        if not options.json:
            print(f"{'on' if stage.given else 'starting'} {stage.place()}", file=sys.stderr, flush=True)
        with Ending() as ending, stage.open(keep=options.keep):
            result = Demo(stage, ending, file, options.processes, quiet=options.json).run()
    except SmenaError as fault:
        print(f"demo: {fault}", file=sys.stderr)
        return 2
    print(result.as_json() if options.json else result.as_text())
    if options.keep:
        print(stage.how_to_look(), file=sys.stderr)
    return 1 if result.faults() else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run demo", description="A shop's sales through a real fleet.")
    parser.add_argument("file", nargs="?", type=Path, default=_EXAMPLE, help=".csv or .ndjson, each also with .gz")
    parser.add_argument("--processes", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--keep", action="store_true", help="leave the services up and say how to look at them")
    options = parser.parse_args(arguments)
    if options.processes < 1:
        parser.error("--processes must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
