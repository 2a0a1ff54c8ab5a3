"""Build a supervisor for some roles and run it in this process."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from smena.backoff import Backoff
from smena.clock import SYSTEM, Deadline
from smena.errors import Misconfigured
from smena.settings import Settings, judge
from smena.telemetry import events, logs
from smena.telemetry.plain_text import error_text
from smena.version import __version__
from workers.process import lineage
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.supervisor.arbiter import Arbiter, Budgets
from workers.supervisor.crew import Crew
from workers.supervisor.evidence import sweep
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.launch import start_program
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.port import Board, Port
from workers.supervisor.post import Post, Role
from workers.supervisor.signals import SignalQueue
from workers.supervisor.state_file import StateFile, remove_abandoned

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD)
_CLOSING_S = 2.0
_FOLDER_PREFIX = "smena-supervisor-"


class Ending(NamedTuple):
    """How a supervisor ended; if its roles cannot run as they are configured, why, in the child's own words."""

    code: Exit
    refusal: str = ""


def run_supervisor(roles: Sequence[Role], settings: Settings, overrides: Mapping[str, Any]) -> Ending:
    """Keep the roles' children running until a drain has ended.

    ``overrides`` are the command line's values, which children load again on top of their environment. Raises
    `Misconfigured` when the supervisor itself cannot run (its folder or port is taken).
    """
    with ExitStack() as owned:
        signals = SignalQueue(HEARD)
        signals.open()
        owned.callback(signals.close)
        lineage.inherit_orphans()
        owned.callback(logs.configure(settings.telemetry, "supervisor", profile=settings.profile).close)
        state = owned.enter_context(_state(settings))
        board = Board(SYSTEM)
        port = owned.enter_context(_port(settings, board))
        _tell_start(settings, state.folder, port.number)
        arbiter = Arbiter(
            _crew(roles, settings, overrides, state.folder),
            signals,
            functools.partial(_publish, board, state, settings.supervisor.metrics_host, port.number),
            Budgets(settings.worker.drain_s, settings.supervisor.kill_grace_s),
            SYSTEM,
        )
        return Ending(arbiter.run(), arbiter.refusal)


def _tell_start(settings: Settings, folder: Path, port: int) -> None:
    events.emit(
        events.PROCESS_STARTED,
        version=__version__,
        profile=settings.profile,
        state_dir=str(folder),
        metrics=f"http://{settings.supervisor.metrics_host}:{port}/metrics",
    )
    for finding in judge(settings):
        events.emit(events.SETTINGS_WARNED, key=finding.key, text=finding.text)


def _crew(roles: Sequence[Role], settings: Settings, overrides: Mapping[str, Any], folder: Path) -> Crew:
    supervisor = settings.supervisor
    backoff = Backoff(supervisor.restart_base_s, supervisor.restart_cap_s, floor_s=min(0.05, supervisor.restart_cap_s))

    def orders_for(post: Post) -> Orders:
        return Orders(
            role=post.role.name,
            module=post.role.module,
            post=post.number,
            supervisor_pid=os.getpid(),
            state_dir=str(folder),
            overrides=dict(overrides),
        )

    posts = [Post(role, number, backoff) for role in roles for number in range(role.count)]
    start_nursery = functools.partial(start_program, "workers.wiring.nursery")
    nurseries = {
        role.name: NurseryHandle(orders_for(Post(role, 0, backoff)), start_nursery, backoff)
        for role in roles
        if role.forked
    }
    return Crew(posts, nurseries, orders_for, functools.partial(start_program, "workers.wiring.child"), SYSTEM)


def _publish(board: Board, state: StateFile, host: str, port: int, view: FleetView) -> None:
    board.publish(view)
    seen = {
        "pid": os.getpid(),
        "state": view.state,
        "metrics": {"host": host, "port": port},
        "roles": {role: {str(post): pid for post, pid in posts.items()} for role, posts in view.pids.items()},
        "nurseries": view.nurseries,
    }
    try:
        state.write(seen)
    except OSError as failure:  # a full disk keeps nobody from working
        events.emit(events.HOOK_FAILED, hook="state-file", error=error_text(failure))


@contextmanager
def _port(settings: Settings, board: Board) -> Iterator[Port]:
    """Serve on the port that is set; where nobody set one and the default is taken, a free one will do."""
    host, number = settings.supervisor.metrics_host, settings.supervisor.metrics_port
    port = Port(host, number, board.answer)
    try:
        port.start()
    except Misconfigured as taken:
        if "supervisor.metrics_port" in settings.sources or settings.profile == "production":
            raise
        events.emit(events.SETTINGS_WARNED, key="supervisor.metrics_port", text=f"{_plain(taken)}; a free one is used")
        port = Port(host, 0, board.answer)
        port.start()
    try:
        yield port
    finally:
        port.stop(Deadline.within(_CLOSING_S, SYSTEM))


def _plain(taken: Misconfigured) -> str:
    """Say what the port's refusal says, without its sentence: here the process goes on."""
    where = f"{taken.facts['host']}:{taken.facts['port']}"
    return f"{where} cannot be served: {taken.detail}"


@contextmanager
def _state(settings: Settings) -> Iterator[StateFile]:
    """Hold the folder for flight recorders and the state file; one of our own making is removed at the end."""
    chosen = settings.supervisor.state_dir
    if chosen is None:
        remove_abandoned(Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*"))
    state = StateFile(chosen or Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX)))
    state.take()
    sweep(state.folder)
    try:
        yield state
    finally:
        state.release()
        if chosen is None:
            shutil.rmtree(state.folder, ignore_errors=True)
