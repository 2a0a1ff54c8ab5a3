"""Get RabbitMQ from Debian's packages without installing them: downloaded, unpacked into a cache, never as root.

`apt` is used as this machine's owner set it up (sources, keys, proxies), but with package lists of our own, so that it
works when the machine's are empty and writes nothing outside the cache. The programs may be shared by all checkouts
of a user; data never is.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from workers.local.faults import Missing
from workers.local.installation import Installation, without_scripts

_SERVER: Final = "rabbitmq-server"
_TOOLS: Final = ("apt-get", "apt-cache", "dpkg-deb")
_STATUS: Final = Path("/var/lib/dpkg/status")
_APT_S: Final = 600.0


def can_unpack() -> bool:
    """Say whether this machine has the tools of Debian and its kin."""
    return all(shutil.which(tool) for tool in _TOOLS) and _STATUS.exists()


def cache_folder(fallback: Path) -> Path:
    """Return the user's cache for unpacked programs, or ``fallback`` where the user has no home to write to."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ.get("HOME", "/nonexistent")) / ".cache")
    folder = Path(base) / "smena" / "rabbitmq"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return fallback
    return folder if os.access(folder, os.W_OK) else fallback


def unpacked(cache: Path) -> Installation:
    """Return RabbitMQ from the cache, filling it first when it is empty; raises `Missing` when apt cannot give it."""
    cache.mkdir(parents=True, exist_ok=True)
    tree = cache / "tree"
    with _locked(cache / "lock"):
        if not tree.exists():
            _fill(cache, tree)
    installation = without_scripts(tree / "usr" / "lib")
    _check_libraries(Path(installation.epmd).with_name("beam.smp"))
    return installation


def _fill(cache: Path, tree: Path) -> None:
    """Unpack into a folder of another name and rename it at the end, so that a whole tree is all there ever is."""
    print("fetching RabbitMQ from Debian's packages (once, about 30 MB) ...", file=sys.stderr, flush=True)  # noqa: T201
    work = cache / "unfinished"
    shutil.rmtree(work, ignore_errors=True)
    downloads, target = work / "downloads", work / "tree"
    for folder in (downloads, target, work / "lists" / "partial", work / "archives" / "partial"):
        folder.mkdir(parents=True)
    _apt(work, "apt-get", "update")
    _apt(work, "apt-get", "download", _SERVER, *_erlang_packages(work))
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(target)], downloads)
    target.rename(tree)
    shutil.rmtree(work)


def _erlang_packages(work: Path) -> list[str]:
    quiet = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    listed = _apt(work, "apt-cache", "depends", "--recurse", *quiet, _SERVER).splitlines()
    names = {line.strip() for line in listed if line.startswith("erlang-")}
    return sorted(name for name in names if not name.startswith("erlang-base-"))  # variants of erlang-base


def _apt(work: Path, tool: str, *arguments: str) -> str:
    options = {
        "Dir::State::lists": work / "lists",
        "Dir::State::status": _STATUS,
        "Dir::Cache": work,
        "Dir::Cache::archives": work / "archives",
        "APT::Sandbox::User": "",  # apt's own user cannot write into this folder
        "Debug::NoLocking": "true",
        "Acquire::Retries": "3",
        "Acquire::Languages": "none",
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return _run([tool, "-qq", *given, *arguments], work / "downloads")


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
        timeout=_APT_S,
        check=False,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Missing(
            f"RabbitMQ could not be fetched from Debian's packages ({command[0]}: {last}); "
            "install the package rabbitmq-server, or set SMENA_AMQP_URL to a RabbitMQ that runs"
        )
    return done.stdout


def _check_libraries(program: Path) -> None:
    if shutil.which("ldd") is None:
        return
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    missing = [line.split()[0] for line in listed.splitlines() if "not found" in line]
    if missing:
        raise Missing(f"Erlang needs libraries that are not installed: {', '.join(missing)}")


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
