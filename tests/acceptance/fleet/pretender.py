"""A role that runs pretended jobs; what it does beyond that is set by `SMENA_APP_…` (see `Plan`).

Files in the supervisor's state folder are its cues: ``poison-NAME`` crashes the thread of slot 1, ``exit-NAME`` has it
exit with the code in the file (0 if that is empty), ``let-go`` ends the jobs of a drain that waits for it, ``code`` is
the code that a nursery loads (``broken`` cannot be loaded, with ``fails`` in it a child cannot run, with ``boots for
ever`` it is never ready), with ``no-disk`` a child has no room for its flight recorder. ``ran-PID`` says which code a
child ran, ``nice-PID`` how it stood back from the processor at its boot and once it was ready, ``loads-PID`` how its
nursery did.
"""

import ctypes
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from smena.errors import Misconfigured
from smena.settings import Settings, app_settings
from smena.telemetry.tally import Tally
from workers.process.child import Child
from workers.process.exits import Exit
from workers.process.recorder import FlightRecorder

CUE_S = 0.02
LOADED = ["none"]
"""The code that the nursery has loaded."""


class Plan(BaseModel):
    """What the pretender does."""

    refuses: str = ""
    """Where it is misconfigured: ``preload`` or ``run``."""
    fails: bool = False
    """Raise from ``run`` before being ready."""
    boots_slowly: bool = False
    """Never become ready."""
    preloads_slowly: bool = False
    """Never end the preload."""
    job: str = "short"
    """How a job behaves in a drain: ``short`` ends at once, ``waits`` for the cue ``let-go``, ``deaf`` never ends."""
    subprocess: bool = False
    """Start two programs, as a worker's job might, one in its own session; their pids go to ``programs-NAME``."""
    holds_interpreter: bool = False
    """Be ready, then wait in C code that holds the interpreter's lock, so that no Python code runs any more."""
    says_nothing: bool = False
    """Run jobs, and never say that it is ready."""
    unready: bool = False
    """Report that the broker cannot be reached."""
    jobs_each_look: int = 0
    """Count so many jobs ten times a second, until the cue ``enough``."""
    hogs_mib: int = 0
    """Hold so much memory in the process at post 0, unless another was there before."""
    shows_nice: bool = False
    """Write down how processes stand back from the processor."""
    stuck: bool = False
    """Report a loop whose tick never moves."""


def preload(settings: Settings) -> None:
    """Load nothing, or do as planned."""
    plan = app_settings(Plan)
    if plan.shows_nice and settings.supervisor.state_dir:
        (settings.supervisor.state_dir / f"loads-{os.getpid()}").write_text(_nice())
    if settings.supervisor.state_dir and (code := settings.supervisor.state_dir / "code").exists():
        LOADED[0] = code.read_text()
    if LOADED[0] == "broken":
        raise ImportError("the new code is broken")
    if plan.refuses == "preload":
        raise Misconfigured("the pretender has no book", setting="books")
    while plan.preloads_slowly:
        time.sleep(CUE_S)


def run(settings: Settings, child: Child) -> int:
    """Pretend to work until a drain is asked for."""
    plan = app_settings(Plan)
    folder = Path(child.orders.state_dir)
    nice_at_boot = _nice()
    _boot(plan, folder)
    if plan.subprocess and child.orders.role == "forked":
        programs = [_program(own_session=own) for own in (False, True)]
        (folder / f"programs-{child.name}").write_text(" ".join(map(str, programs)))
    recorder = child.recorder(4)
    for slot in (0, 1):
        recorder.enter(slot, f"job-{child.orders.post}-{slot}", "pretend.work", 1, time.time())
        threading.Thread(target=_work, args=(recorder, slot, child, folder), daemon=True).start()
    _show_pause(child, folder)
    if not plan.says_nothing:
        child.ready()
    if plan.shows_nice:
        (folder / f"nice-{os.getpid()}").write_text(f"{nice_at_boot} {_nice()}")
    if plan.holds_interpreter:
        _wait_for_ever_in_c()
    tally, tick = Tally(), 0
    tally.count("pretend.work", "done")
    hoard = _hoard(plan, child, folder)
    while not child.wait(0.1):
        _make_mischief(child, folder)
        for _ in range(plan.jobs_each_look * (not (folder / "enough").exists())):
            tally.count("pretend.work", "done")
        tick += not plan.stuck
        child.report(tally.snapshot(), {"work": tick}, ("broker",) if plan.unready else ())
    hoard.clear()
    code = _drain(plan, settings, child, folder)
    for slot in (0, 1) if code == Exit.DRAINED else ():
        recorder.leave(slot)
    return code


def _boot(plan: Plan, folder: Path) -> None:
    """Fail, or take for ever, as planned."""
    if plan.refuses == "run":
        raise Misconfigured("the pretender has no queue", setting="worker.queues")
    if LOADED[0] != "none":
        (folder / f"ran-{os.getpid()}").write_text(LOADED[0])
    if (folder / "no-more").exists():
        raise RuntimeError("no room for another")
    if (folder / "no-disk").exists():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
    if plan.fails or "fails" in LOADED[0]:
        raise RuntimeError("the pretender fails")
    while plan.boots_slowly or LOADED[0] == "boots for ever":
        time.sleep(CUE_S)


def _nice() -> str:
    """Return the nice values of this process's threads, and of its session's group where there is one."""
    nice = {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in Path("/proc/self/task").iterdir()}
    group = Path("/proc/self/autogroup")
    return ",".join(map(str, [*sorted(nice), *([group.read_text().split()[-1]] if group.exists() else [])]))


def _show_pause(child: Child, folder: Path) -> None:
    """Show in the file ``paused-PID`` whether the child takes work."""

    def hold(holding: bool) -> None:
        file = folder / f"paused-{os.getpid()}"
        if holding:
            file.touch()
        else:
            file.unlink()

    child.on_pause(hold)


def _hoard(plan: Plan, child: Child, folder: Path) -> bytearray:
    was_hoarded = folder / "hoarded"
    if not plan.hogs_mib or child.orders.post or was_hoarded.exists():
        return bytearray()
    was_hoarded.touch()
    return bytearray(b"x") * (plan.hogs_mib * 2**20)


def _make_mischief(child: Child, folder: Path) -> None:
    """Let an error escape where the cue ``bug-PLACE-NAME`` says."""
    for place in ("main", "thread", "unraisable"):
        cue = folder / f"bug-{place}-{child.name}"
        if cue.exists():
            cue.unlink()
            _BUGS[place]()


def _raise() -> None:
    raise ZeroDivisionError("escaped")


class _RaisesAtItsEnd:
    def __del__(self) -> None:
        _raise()


_BUGS: dict[str, Callable[[], object]] = {
    "main": _raise,
    "thread": lambda: threading.Thread(target=_raise, name="strayed").start(),
    "unraisable": _RaisesAtItsEnd,
}


def _wait_for_ever_in_c() -> None:
    """Lock a mutex twice without letting go of the interpreter: no signal wakes that up, as it would a sleep."""
    mutex = ctypes.create_string_buffer(64)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def _program(*, own_session: bool) -> int:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    return subprocess.Popen(command, start_new_session=own_session).pid


def _work(recorder: FlightRecorder, slot: int, child: Child, folder: Path) -> None:
    recorder.bind(slot)
    while True:
        recorder.link_tick += slot
        if slot == 1 and (folder / f"poison-{child.name}").exists():
            ctypes.string_at(0)
        if slot == 1 and (folder / f"exit-{child.name}").exists():
            code = (folder / f"exit-{child.name}").read_text()
            (folder / f"exit-{child.name}").unlink()
            os._exit(int(code or Exit.DRAINED))
        time.sleep(CUE_S)


def _drain(plan: Plan, settings: Settings, child: Child, folder: Path) -> int:
    deadline = child.drain_deadline(settings.worker.drain_s)
    (folder / f"draining-{child.name}").touch()
    while plan.job == "deaf":
        time.sleep(CUE_S)
    while plan.job == "waits" and not (folder / "let-go").exists():
        if deadline.passed():
            return Exit.DRAIN_OVERRAN
        time.sleep(CUE_S)
    return Exit.DRAINED
