"""Build a supervisor for some roles and run it in this process."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from smena.backoff import Backoff
from smena.clock import SYSTEM, Deadline
from smena.errors import Misconfigured
from smena.guarantees.shared_strikes import SharedStrikes
from smena.records.strikes import Strikes
from smena.settings import Settings, judge
from smena.settings.service_manager import service_manager
from smena.store.database import Database
from smena.telemetry import events, logs
from smena.telemetry.plain_text import error_text
from smena.version import __version__
from workers.process import cgroup, lineage
from workers.process.exits import Exit
from workers.process.orders import Orders
from workers.supervisor.arbiter import Arbiter
from workers.supervisor.budgets import Budgets
from workers.supervisor.burial import Burial
from workers.supervisor.crew import Crew
from workers.supervisor.evidence import sweep
from workers.supervisor.fleet_view import FleetView
from workers.supervisor.herald import Herald
from workers.supervisor.launch import start_program
from workers.supervisor.nurseries import Nurseries
from workers.supervisor.nursery import NurseryHandle
from workers.supervisor.port import Board, Port
from workers.supervisor.post import Post, Role
from workers.supervisor.registrar import Registrar
from workers.supervisor.scale import Scale
from workers.supervisor.signals import SignalQueue
from workers.supervisor.state_file import StateFile, remove_abandoned
from workers.supervisor.upkeep import CHANGES, Upkeep
from workers.supervisor.whereabouts import FOLDER_PREFIX

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, *CHANGES, signal.SIGCHLD)
_CLOSING_S = 2.0


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
        owned.callback(signals.pass_over)
        lineage.inherit_orphans()
        owned.callback(logs.configure(settings.telemetry, "supervisor", profile=settings.profile).close)
        state = owned.enter_context(_state(settings))
        board = Board(SYSTEM)
        herald = Herald(service_manager(), SYSTEM)
        owned.callback(herald.close)
        port = owned.enter_context(_port(settings, board))
        group = cgroup.take_over()
        _tell_start(settings, state.folder, port.number, group)
        new_post = functools.partial(Post, backoff=_backoff(settings))
        orders = functools.partial(
            Orders,
            supervisor_pid=os.getpid(),
            state_dir=str(state.folder),
            overrides=dict(overrides),
            cgroup=group.folder,
        )
        tell = settings.database.url is None  # else the workers look there, and need not be told
        crew = _crew(roles, new_post, orders, owned.enter_context(_register(settings)), tell=tell)
        budgets = Budgets(
            settings.worker.drain_s,
            settings.supervisor.kill_grace_s,
            settings.supervisor.ready_s,
            settings.amqp.heartbeat_s,
            settings.supervisor.stopped_s,
        )
        arbiter = Arbiter(
            crew,
            Upkeep(crew, Scale(crew, new_post, budgets.leave_s), budgets, SYSTEM),
            signals,
            functools.partial(_publish, (board, herald, state), _place(settings, port)),
            budgets,
            SYSTEM,
        )
        return Ending(arbiter.run(), arbiter.refusal)


def _tell_start(settings: Settings, folder: Path, port: int, group: cgroup.Delegated) -> None:
    events.emit(
        events.PROCESS_STARTED,
        version=__version__,
        profile=settings.profile,
        state_dir=str(folder),
        metrics=f"http://{settings.supervisor.metrics_host}:{port}/metrics",
        memory_bound=f"RLIMIT_DATA, looks at resident memory; {group.said}",
    )
    for finding in judge(settings):
        events.emit(events.SETTINGS_WARNED, key=finding.key, text=finding.text)


def _backoff(settings: Settings) -> Backoff:
    cap_s = settings.supervisor.restart_cap_s
    return Backoff(settings.supervisor.restart_base_s, cap_s, floor_s=min(0.05, cap_s))


@contextmanager
def _register(settings: Settings) -> Iterator[Callable[[Burial], object] | None]:
    """Write the dead down where the workers of all hosts look them up."""
    with ExitStack() as ends:
        register: Strikes | SharedStrikes
        if settings.database.url is not None:
            database = Database(settings.database, "supervisor", pool_size=1)
            ends.callback(database.close)
            register = Strikes(database)
        elif settings.redis.url is not None:
            from smena.store.cache import Cache  # here, for Redis's client is a seventh of all that is imported

            cache = Cache(settings.redis, "supervisor")
            ends.callback(cache.close)
            register = SharedStrikes(cache)
        else:
            yield None
            return
        registrar = Registrar(register)
        registrar.start()
        ends.callback(lambda: registrar.stop(Deadline.within(_CLOSING_S, SYSTEM)))
        yield registrar.bury


def _crew(
    roles: Sequence[Role],
    new_post: Callable[[Role, int], Post],
    orders: Callable[..., Orders],
    write_down: Callable[[Burial], object] | None,
    *,
    tell: bool,
) -> Crew:
    def orders_for(post: Post) -> Orders:
        return orders(role=post.role.name, module=post.role.module, post=post.number)

    posts = [new_post(role, number) for role in roles for number in range(role.count)]
    start_nursery = functools.partial(start_program, "workers.wiring.nursery")
    nurseries = {
        post.role.name: NurseryHandle(orders_for(post), start_nursery, post.backoff)
        for post in posts
        if post.role.forked and post.number == 0
    }
    start = functools.partial(start_program, "workers.wiring.child")
    return Crew(posts, Nurseries(nurseries), orders_for, start, SYSTEM, write_down, tell=tell)


def _place(settings: Settings, port: Port) -> Mapping[str, Any]:
    """Return where the fleet runs and where it is asked: by both `smena health` knows it from another's."""
    return {"cwd": str(Path.cwd()), "metrics": {"host": settings.supervisor.metrics_host, "port": port.number}}


def _publish(readers: tuple[Board, Herald, StateFile], place: Mapping[str, Any], view: FleetView) -> None:
    board, herald, state = readers
    board.publish(view)
    herald.tell(view)
    seen = {
        "pid": os.getpid(),
        "state": view.state,
        **place,
        "roles": {role: {str(post): pid for post, pid in posts.items()} for role, posts in view.pids.items()},
        "nurseries": view.nurseries,
        "leaving": list(view.leaving),
        "paused": view.paused,
    }
    try:
        if state.retake():
            events.emit(events.FOLDER_REMADE, folder=str(state.folder))
        state.write(seen)
    except (OSError, Misconfigured) as failure:  # a full disk, or a folder that is lost, keeps nobody from working
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
        remove_abandoned(Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"))
    state = StateFile(chosen or Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX)))
    state.take()
    sweep(state.folder)
    try:
        yield state
    finally:
        state.release()
        if chosen is None:
            shutil.rmtree(state.folder, ignore_errors=True)
