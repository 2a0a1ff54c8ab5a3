"""Look into a running child from outside: where its threads are, what it holds, where its time goes.

With py-spy beside this interpreter or on the path the child is read without its doing anything. Without it, or where
ptrace is not allowed, the child itself writes its stacks when it is asked; that works as any user, and takes the child
some milliseconds each time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from smena.clock import SYSTEM, Deadline
from workers.process import stackfile
from workers.process.stackfile import Stack
from workers.supervisor.whereabouts import Whereabouts

_LOOK_S = 0.02
_ANSWER_S = 3.0
_SAMPLE_S = 0.05
_PY_SPY_EXTRA_S = 30.0
_CALL = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_MEMORY = re.compile(r"^(Rss|Pss|Private_Dirty|Anonymous|Swap):\s+(\d+) kB$", re.MULTILINE)
_STATUS = re.compile(r"^(VmHWM|Threads):\s+(\d+)", re.MULTILINE)


class NoAnswer(Exception):
    """The child does not answer: it is stopped, starts just now, or is another user's."""


Samples = Counter[str]
"""Stacks, outermost call first and joined by ``;``, with how often each was seen."""


def stacks(child: Whereabouts) -> str:
    """Return where each thread of the child is, as text."""
    found = _py_spy("dump", "--pid", str(child.pid), wait_s=_PY_SPY_EXTRA_S)
    if found is not None:
        return found
    jobs = {job.thread_ident: job for job in child.running()}
    parts = []
    for stack in _own_stacks(child):
        job = jobs.get(stack.thread_ident)
        doing = f" runs {job.actor} {job.job_id}" if job is not None else ""
        parts.append(f"thread {stack.thread_ident:#x}{doing}\n{stack.text}")
    return "\n".join(parts)


def memory(child: Whereabouts) -> dict[str, int]:
    """Return what the child holds, in KiB, and its threads and descriptors.

    ``Pss`` counts pages shared with others by parts, which is fair for forked workers; ``VmHWM`` is the most there was.
    """
    process = Path("/proc", str(child.pid))
    try:
        found = _MEMORY.findall((process / "smaps_rollup").read_text())
        found += _STATUS.findall((process / "status").read_text(errors="replace"))
        descriptors = sum(1 for _ in (process / "fd").iterdir())
    except OSError as failure:
        raise NoAnswer(f"process {child.pid} cannot be read: {failure.strerror}") from failure
    return {**{name: int(number) for name, number in found}, "Descriptors": descriptors}


def profile(child: Whereabouts, seconds: float) -> Samples:
    """Return which stacks the child's threads were seen in, over so many seconds."""
    with tempfile.TemporaryDirectory(prefix="smena-profile-") as folder:
        raw = Path(folder) / "raw"
        options = ["--duration", f"{max(1, round(seconds))}", "--format", "raw", "--idle", "--output", str(raw)]
        if _py_spy("record", "--pid", str(child.pid), *options, wait_s=seconds + _PY_SPY_EXTRA_S) is not None:
            return _raw(raw.read_text())
    return _sampled(child, seconds)


def _sampled(child: Whereabouts, seconds: float) -> Samples:
    samples: Samples = Counter()
    deadline = Deadline.within(seconds, SYSTEM)
    while not deadline.passed():
        for stack in _own_stacks(child):
            calls = [f"{name} ({Path(file).name}:{line})" for file, line, name in _CALL.findall(stack.text)]
            samples[";".join(reversed(calls))] += 1
        time.sleep(_SAMPLE_S)
    return samples


def _own_stacks(child: Whereabouts) -> list[Stack]:
    path = child.file("stacks")
    begin = stackfile.ask(child.pid, path)
    if begin is None:
        raise NoAnswer(f"process {child.pid} does not listen: it starts just now, or is another user's")
    if not _answered(path, begin):
        begin = stackfile.ask(child.pid, path, held=True)
        if begin is None or not _answered(path, begin):
            raise NoAnswer(f"process {child.pid} has written no stacks within {_ANSWER_S:.0f} s: is it stopped?")
    return list(stackfile.read(path, begin))


def _answered(path: Path, begin: int) -> bool:
    """Wait until the file has grown and stands still; say whether it came to that."""
    deadline, before = Deadline.within(_ANSWER_S, SYSTEM), 0
    try:
        while not before or path.stat().st_size - begin != before:
            if deadline.passed():
                return False
            before = path.stat().st_size - begin
            time.sleep(_LOOK_S)
    except FileNotFoundError as failure:
        raise NoAnswer("the process has ended") from failure
    return True


def _py_spy(*arguments: str, wait_s: float) -> str | None:
    """Run py-spy; None where it is not installed or may not look into the process."""
    program = shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))
    if program is None:
        return None
    try:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=wait_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _raw(text: str) -> Samples:
    samples: Samples = Counter()
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        samples[stack] += int(count)
    return samples
