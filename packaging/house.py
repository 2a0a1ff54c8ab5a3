"""Keep the house: make `.venv` when it is needed and run one of the commands of `./run` in it.

Runs on the machine's own Python (3.11 or newer) with the standard library only. The environment is made once,
brought up to date when `pyproject.toml` or `constraints.txt` changed, and made anew when the place or the Python did;
two calls at once do it once.
"""

import fcntl
import hashlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
PYTHON: Final = VENV / "bin" / "python"
SERVICES: Final = ROOT / ".smena"
CONSTRAINTS: Final = ROOT / "constraints.txt"
INPUTS: Final = (ROOT / "pyproject.toml", CONSTRAINTS)
CACHES: Final = (".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache")
VALUED: Final = ("-c", "-k", "-m", "-n", "-o", "-p", "-r", "-W")
"""Pytest's short options that take a value."""
BENCHES: Final = ("drain", "publish", "latency", "outbox", "once", "cpu", "claims", "partitions")
WHEELS: Final = ("packaging/smena", "packaging/fleet")


class Refused(Exception):
    """Something is missing or failed; the message is the one sentence that says what to do."""


class Command(NamedTuple):
    """Hold one command's help and what it does with its arguments; it returns the exit status."""

    summary: str
    run: Callable[[list[str]], int]
    passes_on: bool = True
    """Whether its arguments go to a program with a help of its own."""


def main(arguments: list[str]) -> int:
    """Run the named command, or print the commands."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _print_commands(0)
    command = COMMANDS.get(arguments[0])
    if command is None:
        print(f"there is no command {arguments[0]!r}", file=sys.stderr)
        return _print_commands(2)
    if not command.passes_on and arguments[1:] in (["-h"], ["--help"]):
        print(f"./run {arguments[0]}: {command.summary}")
        return 0
    try:
        return command.run(arguments[1:])
    except Refused as refusal:
        print(f"./run {arguments[0]}: {refusal}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


# The commands


def demo(arguments: list[str]) -> int:
    """Keep the caller's folder, so that FILE may be named from there."""
    return _become(["-m", "examples.shop.demo", *arguments])


def test(arguments: list[str]) -> int:
    """Run pytest in three processes, each with the services that it needs: tests wait more than they work."""
    for path in _test_paths(arguments):
        if not (ROOT / path).exists():  # or it were missed by pytest's processes, a minute later and without a word
            raise Refused(f"there is no {path} in {ROOT}")
    _furnish("dev")
    os.chdir(ROOT)
    return _become(["-m", "pytest", "--numprocesses=3", "--dist=worksteal", *arguments], own_services=False)


def _test_paths(arguments: list[str]) -> Iterator[str]:
    """Give the paths among pytest's arguments; what comes behind an option may be its value."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        path = argument.partition("::")[0]
        if not (before.startswith("--") or before in VALUED or argument.startswith("-")) and path:
            yield path


def check(arguments: list[str]) -> int:
    """Run every check, also after one has failed, and name those that failed; of proofs that are named, only those."""
    _furnish("dev")
    if arguments and arguments[0] != "--proofs":
        raise Refused(f"unknown argument {arguments[0]}; it takes --proofs and, behind it, their names")
    checks = {
        "ruff check": ["-m", "ruff", "check", "."],
        "ruff format": ["-m", "ruff", "format", "--check", "."],
        "mypy": ["-m", "mypy"],
        "import floors": ["-c", "from importlinter.cli import lint_imports_command as lint; lint()"],
    }
    if arguments:
        proofs = {"proofs": ["-m", "tests.proofs", *arguments[1:]]}
        checks = proofs if arguments[1:] else checks | proofs
    failed = [name for name, part in checks.items() if not _passes(name, part)]
    print(f"check: {len(checks) - len(failed)} passed, {len(failed)} failed", *failed)
    return 1 if failed else 0


def bench(arguments: list[str]) -> int:
    """Install the peers first, which takes minutes: only for a bench that is to run. Usage and help need none."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in BENCHES:
        raise Refused(f"there is no bench {arguments[0]!r}; there are {', '.join(BENCHES)}")
    runs = arguments and arguments[0] in BENCHES and "--help" not in arguments
    return _become(["-m", "benchmarks", *arguments], extra="bench" if runs else "dev")


def drill(arguments: list[str]) -> int:
    """Pass on to `smena drill`; without a verb it is `run`. `settle` is no fleet's but the protocol's own."""
    if arguments[:1] == ["settle"]:
        return _become(["-m", "tests.settling", *arguments[1:]], own_services=False)
    verb = [] if arguments[:1] in (["list"], ["run"], ["--help"], ["-h"]) else ["run"]
    return _become([str(VENV / "bin" / "smena"), "drill", *verb, *arguments])


def local(arguments: list[str]) -> int:
    """Pass on to `smena local`."""
    return _become([str(VENV / "bin" / "smena"), "local", *arguments])


def build(arguments: list[str]) -> int:
    """Build both wheels into dist/."""
    if arguments:
        raise Refused("it takes no arguments")
    _furnish("dev")
    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    for project in WHEELS:
        wheel = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target)]
        _quietly([str(PYTHON), *wheel, str(ROOT / project)], f"the wheel of {project} could not be built")
    print(*sorted(str(wheel.relative_to(ROOT)) for wheel in target.glob("*.whl")), sep="\n")
    return 0


def shell(arguments: list[str]) -> int:
    """Start the services and a shell that knows them."""
    if arguments:
        raise Refused("it takes no arguments")
    _furnish("dev")
    environ = _environ(own_services=True)
    smena = str(VENV / "bin" / "smena")
    if subprocess.run([smena, "local", "up"], env=environ, check=False).returncode != 0:
        raise Refused("the services did not come up")
    listed = subprocess.run([smena, "local", "env"], env=environ, check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        environ[name] = value.strip("'")
    sys.stdout.flush()
    command = _interactive(environ)
    os.execvpe(command[0], command, environ)


def clean(arguments: list[str]) -> int:
    """Stop every set of services and remove what was made here; unpacked programs in the user's cache stay."""
    if arguments:
        raise Refused("it takes no arguments")
    stop = [sys.executable, "-m", "workers.local", "down", str(SERVICES)]
    if subprocess.run(stop, cwd=ROOT, check=False).returncode != 0:
        raise Refused("the services could not be stopped; nothing was removed")
    made = [name for name in (SERVICES, VENV, ROOT / "dist", *(ROOT / cache for cache in CACHES)) if name.exists()]
    for name in made:
        shutil.rmtree(name, ignore_errors=True)
    for cache in ROOT.rglob("__pycache__"):
        shutil.rmtree(cache, ignore_errors=True)
    print("removed", ", ".join(str(name.relative_to(ROOT)) for name in made) or "nothing but caches")
    return 0


COMMANDS: Final = {
    "demo": Command("process a shop's sales on a real fleet, kill a worker meanwhile, and judge the result", demo),
    "test": Command("run the tests (arguments go to pytest)", test),
    "check": Command(
        "lint, format, types and import floors; --proofs [NAME…]: each guard is missed when taken out",
        check,
        passes_on=False,
    ),
    "bench": Command(f"measure beside others: {', '.join(BENCHES)}", bench),
    "drill": Command(
        "make faults on purpose and judge what was lost or doubled: list, NAME…, --all, --controls, settle", drill
    ),
    "local": Command("private RabbitMQ, PostgreSQL and Valkey: up, down, status, env", local),
    "build": Command("build the wheels smena and smena-fleet into dist/", build, passes_on=False),
    "shell": Command("a shell with the services up and their addresses set", shell, passes_on=False),
    "clean": Command("stop the services and remove .venv, .smena, dist and caches", clean, passes_on=False),
}


def _print_commands(status: int) -> int:
    print("usage: ./run COMMAND [ARGUMENTS]\n", file=sys.stderr if status else sys.stdout)
    for name, command in COMMANDS.items():
        print(f"  {name:<7}{command.summary}", file=sys.stderr if status else sys.stdout)
    return status


# Running something in the environment


def _become(arguments: Sequence[str], *, extra: str = "dev", own_services: bool = True) -> NoReturn:
    """Replace this process, so that signals and the exit status are the command's own."""
    _furnish(extra)
    sys.stdout.flush()
    # -P: a folder that the caller happens to stand in must not shadow the house's packages.
    os.execve(PYTHON, [str(PYTHON), "-P", *arguments], _environ(own_services=own_services))


def _environ(*, own_services: bool) -> dict[str, str]:
    environ = dict(os.environ)
    environ["VIRTUAL_ENV"] = str(VENV)
    environ["PATH"] = f"{VENV / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}"
    # Who wants no bytecode beside the sources gets it beside the packages: without any, each of a fleet's processes
    # compiles everything anew, a third of its start.
    if environ.pop("PYTHONDONTWRITEBYTECODE", None):
        environ.setdefault("PYTHONPYCACHEPREFIX", str(VENV / "bytecode"))
    if own_services:
        environ.setdefault("SMENA_LOCAL_DIR", str(SERVICES))
    return environ


def _interactive(environ: dict[str, str]) -> list[str]:
    """Return the command of the user's shell, with `.venv` in front of whatever the user's own files put there.

    An interactive shell reads those files after it got its environment, and tools like pyenv put their folders
    first in them; so `.venv` is put in front once more behind them. Other shells than bash and zsh get the
    environment alone. Changes ``environ``.
    """
    program = environ.get("SHELL") or "/bin/sh"
    enter = f'export VIRTUAL_ENV={shlex.quote(str(VENV))}\nexport PATH={shlex.quote(str(VENV / "bin"))}:"$PATH"\n'
    folder = SERVICES / "shell"
    match Path(program).name:
        case "bash":
            rc = _written(folder / "bashrc", f'[ ! -f ~/.bashrc ] || . ~/.bashrc\n{enter}PS1="(smena) $PS1"\nhash -r\n')
            return [program, "--rcfile", str(rc), "-i"]
        case "zsh":
            own = shlex.quote(environ.get("ZDOTDIR") or environ.get("HOME", "/"))
            read = "[[ ! -f $ZDOTDIR/{0} ]] || . $ZDOTDIR/{0}\n"
            ours = f"_own_zdotdir=$ZDOTDIR\nZDOTDIR={shlex.quote(str(folder))}\n"
            mark = 'PROMPT="(smena) $PROMPT"\nrehash\n'
            _written(folder / ".zshenv", f"ZDOTDIR={own}\n{read.format('.zshenv')}{ours}")
            _written(folder / ".zshrc", f"ZDOTDIR=$_own_zdotdir\n{read.format('.zshrc')}{enter}{mark}")
            environ["ZDOTDIR"] = str(folder)
    return [program]


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _passes(name: str, arguments: Sequence[str]) -> bool:
    """Run it to its end; a signal is handed on to it, and is ours when it has ended: it may have to clean up."""
    print(f"--- {name}", flush=True)
    came: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def hand_on(number: int, _frame: object) -> None:
        came.append(number)
        for child in children:
            child.send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        children.append(subprocess.Popen([str(PYTHON), *arguments], cwd=ROOT))
        if came:  # before there was one to hand it on to
            children[0].send_signal(came[0])
        passed = children[0].wait() == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise SystemExit(128 + came[0])
    return passed


# Making the environment


def _furnish(extra: str) -> None:
    """Make `.venv` hold what ``extra`` names, or do nothing when it does."""
    stamp, wanted = VENV / f".furnished-{extra}", _fingerprint(*(file.read_bytes() for file in INPUTS))
    if _is_home() and _reads(stamp, wanted):
        return
    with _alone():
        if _is_home() and _reads(stamp, wanted):  # another call has done it while this one waited
            return
        print(f"setting up .venv ({extra}, once) ...", file=sys.stderr, flush=True)
        if not _is_home():
            _make_venv()
        _install("hatchling", "editables")
        _install("--no-build-isolation", "--editable", f"{ROOT}[dev]" if extra == "dev" else f"{ROOT}[dev,{extra}]")
        stamp.write_text(wanted, encoding="ascii")


def _is_home() -> bool:
    """Say whether `.venv` was made here (not copied from elsewhere) by this Python, and whole."""
    return PYTHON.exists() and _reads(VENV / ".home", _home())


def _home() -> str:
    return _fingerprint(str(ROOT).encode(), sys.version.encode())


def _fingerprint(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _reads(file: Path, wanted: str) -> bool:
    return file.exists() and file.read_text(encoding="ascii") == wanted


def _make_venv() -> None:
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        raise Refused("Python's venv module is missing: install python3-venv (Debian, Ubuntu)")
    _quietly([sys.executable, "-m", "venv", "--clear", str(VENV)], "the virtual environment could not be made")
    (VENV / ".home").write_text(_home(), encoding="ascii")


def _install(*what: str) -> None:
    pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _quietly([*pip, "--constraint", str(CONSTRAINTS), *what], "the dependencies could not be installed")


def _quietly(command: Sequence[str], failure: str) -> None:
    done = subprocess.run(command, check=False, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Refused(f"{failure}:\n{done.stdout.strip()[-2000:]}")


@contextmanager
def _alone() -> Iterator[None]:
    held = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
