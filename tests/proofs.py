"""Show that each guard is needed: take it out in a copy of the tree, and the test that guards it must fail.

`./run check --proofs [ID…]` reads `tests/proofs.toml`. First every named test must pass as the tree is; then, for
each entry, the lines `guard` in `file` are replaced by `without`, and the named test must fail. A test that cannot be
collected, that errors outside its body or that hangs proves nothing. Exit status 0 only if every guard was missed.
Three places, each with a copy of the tree and services of its own, work side by side: tests wait more than they work.
Ended by SIGINT, SIGTERM or SIGHUP it interrupts the tests, takes its places down and exits with 128 and the signal.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import Final

from workers.local.services import LocalServices
from workers.process.ending import Ending

ROOT: Final = Path(__file__).resolve().parent.parent
_TABLE: Final = "tests/proofs.toml"
_RUN_S: Final = 300.0
_LOOK_S: Final = 0.2
_INTERRUPT_S: Final = 20.0
"""How long tests that are interrupted have to take down what they set up."""
_PLACES: Final = 3
_PATIENCE_S: Final = "15"
"""What a test may wait for where it is meant to fail; it passed with a guard in well under this."""
_PYTEST: Final = ("-P", "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--tb=short")


class Unusable(Exception):
    """An entry of the table cannot be tried; the message says which and why."""


class Ended(Exception):
    """All is to end; nothing can be said of this proof."""


@dataclass(frozen=True)
class Proof:
    """Hold one entry: what it proves, the test, and the guard with what stands there without it."""

    id: str
    test: str
    file: str
    guard: str
    without: str

    def check(self, tree: Path) -> None:
        """Raise `Unusable` unless the guard stands in its file exactly once."""
        count = (tree / self.file).read_text(encoding="utf-8").count(self.guard)
        if count != 1:
            raise Unusable(f"{self.id}: the guard stands {count} times in {self.file}, not once")


@dataclass(frozen=True)
class Ran:
    """Say what came of one run of pytest."""

    status: int
    failed: int
    broken: int
    output: str


@dataclass(frozen=True)
class Place:
    """Hold a copy of the tree, and the environment in which its tests find the services that are theirs."""

    tree: Path
    environ: dict[str, str]
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when what runs there is to end."""


def main(ids: Sequence[str]) -> int:
    """Try the named proofs, or all."""
    try:
        proofs = _load(ids)
        with Ending(), ExitStack() as ends:
            return _try_all(proofs, _places(ends, min(_PLACES, len(proofs))))
    except Unusable as reason:
        print(reason, file=sys.stderr)
        return 2


def table() -> list[Proof]:
    """Return all entries as they are written."""
    entries = tomllib.loads((ROOT / _TABLE).read_text(encoding="utf-8")).get("proof", [])
    return [Proof(**entry) for entry in entries]


def _load(ids: Sequence[str]) -> list[Proof]:
    proofs = table()
    unknown = set(ids) - {proof.id for proof in proofs}
    if unknown:
        raise Unusable(f"no such proof: {', '.join(sorted(unknown))}")
    chosen = [proof for proof in proofs if not ids or proof.id in ids]
    for proof in chosen:
        proof.check(ROOT)
    return chosen


def _try_all(proofs: Sequence[Proof], places: Sequence[Place]) -> int:
    free: SimpleQueue[Place] = SimpleQueue()
    for place in places:
        free.put(place)
    width = max(len(proof.id) for proof in proofs)

    def attempt(proof: Proof) -> bool:
        place = free.get()
        try:
            return _print_verdict(proof, _verdict(proof, place), width)
        finally:
            free.put(place)

    tests = sorted({proof.test for proof in proofs})
    with ThreadPoolExecutor(len(places)) as hands, _ended_with_the_block(places):
        for whole in hands.map(_run, (tests[number :: len(places)] for number in range(len(places))), places):
            if whole.status != 0:
                print(whole.output, "\nproofs: the tests must pass with every guard in", sep="\n")
                return 1
        verdicts = list(hands.map(attempt, proofs))
    print(f"proofs: {sum(verdicts)} passed, {len(verdicts) - sum(verdicts)} failed")
    return 0 if all(verdicts) else 1


@contextmanager
def _ended_with_the_block(places: Sequence[Place]) -> Iterator[None]:
    """Let nothing run on after the block, however it is left."""
    try:
        yield
    finally:
        for place in places:
            place.ending.set()


def _verdict(proof: Proof, place: Place) -> str:
    """Return an empty string when the guard was missed, else why that was not shown."""
    with _without_guard(proof, place.tree):
        ran = _run([proof.test], replace(place, environ={**place.environ, "SMENA_TEST_PATIENCE_S": _PATIENCE_S}))
    if ran.status == 0:
        return "the test passes without the guard"
    if ran.status == 1 and ran.failed:
        return ""
    return f"the test did not run to a failure (status {ran.status}, {ran.broken} errors)\n{ran.output}"


def _print_verdict(proof: Proof, why_not: str, width: int) -> bool:
    print(f"{proof.id:<{width}}  {'not proven' if why_not else 'proven':<10}  {proof.test}", flush=True)
    if why_not:
        print(why_not, flush=True)
    return not why_not


def _run(tests: Sequence[str], place: Place) -> Ran:
    if not tests:
        return Ran(0, 0, 0, "")
    report = place.tree / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, *_PYTEST, f"--junitxml={report}", *tests]
    with subprocess.Popen(
        command,
        cwd=place.tree,
        env=place.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # a terminal's interrupt is for us, who hand it on
    ) as pytest:
        output = _output(pytest, _RUN_S * len(tests), place.ending)
    if place.ending.is_set():
        raise Ended
    if output is None:
        return Ran(-1, 0, 0, f"still running after {_RUN_S * len(tests):.0f} s")
    failed, broken = _counts(report)
    return Ran(pytest.returncode, failed, broken, output[-4000:])


def _output(pytest: subprocess.Popen[str], limit_s: float, ending: threading.Event) -> str | None:
    """Return what it has printed, or None where its time was up or it was to end."""
    last_s = monotonic() + limit_s
    try:
        while monotonic() < last_s and not ending.is_set():
            with suppress(subprocess.TimeoutExpired):
                return pytest.communicate(timeout=_LOOK_S)[0]
        return None
    finally:
        _interrupt(pytest)


def _interrupt(pytest: subprocess.Popen[str]) -> None:
    """Let tests that still run take down what they set up, then leave nothing of them."""
    pytest.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        pytest.communicate(timeout=_INTERRUPT_S)
    with suppress(ProcessLookupError):
        os.killpg(pytest.pid, signal.SIGKILL)


def _counts(report: Path) -> tuple[int, int]:
    if not report.exists():
        return 0, 0
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - written by our own run just now
    if suite is None:
        return 0, 0
    return int(suite.get("failures", 0)), int(suite.get("errors", 0))


@contextmanager
def _without_guard(proof: Proof, tree: Path) -> Iterator[None]:
    file = tree / proof.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole.replace(proof.guard, proof.without), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(whole, encoding="utf-8")


def _places(ends: ExitStack, count: int) -> list[Place]:
    """Set up so many places; ``ends`` takes them down."""
    folder = Path(os.environ.get("SMENA_LOCAL_DIR") or ROOT / ".smena" / "test").absolute()
    places = []
    for number in range(count):
        tree = ends.enter_context(_copy_of_tree())
        local = LocalServices(folder / f"place{number}", durable=False)
        ends.callback(local.down)  # first: an `up` that is ended has started some of them
        local.up()
        # No byte code: a guard put back within the same second must not be missed by an older cache.
        own = {"SMENA_LOCAL_DIR": str(local.root), "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
        places.append(Place(tree, {**os.environ, **own}))
    return places


@contextmanager
def _copy_of_tree() -> Iterator[Path]:
    """Copy what git would take, so that no cache and no private service comes along."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    with tempfile.TemporaryDirectory(prefix="smena-proofs-") as folder:
        tree = Path(folder)
        for name in listed.decode().split("\0"):
            source, target = ROOT / name, tree / name
            if name and source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        yield tree


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
