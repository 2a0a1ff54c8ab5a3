"""Importing any module of the product opens no socket, starts no thread or process and reads no environment."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

# Run in a process of its own. What a library does while it is imported is the library's business: only what the
# product's own modules do is caught, also when they do it through a library.
PROBE = """
import builtins, importlib, json, os, pkgutil, socket, subprocess, sys, threading, traceback

root, names = sys.argv[1], sys.argv[2:]
caught = []

def own_line():
    # The product's line that led here, unless a library that is being imported stands between.
    for frame in reversed(traceback.extract_stack()[:-2]):
        own = frame.filename.startswith(root) and "/.venv/" not in frame.filename
        if own:
            return f"{frame.filename.removeprefix(root)}:{frame.lineno}: {frame.line}"
        if frame.name == "<module>":
            return None
    return None

def own_reader():
    # A library may read variables of its own whenever it likes; the product reads through os alone.
    for frame in reversed(traceback.extract_stack()[:-2]):
        if frame.filename not in (os.__file__, "<frozen os>", "<frozen _collections_abc>"):
            own = frame.filename.startswith(root) and "/.venv/" not in frame.filename
            return f"{frame.filename.removeprefix(root)}:{frame.lineno}: {frame.line}" if own else None

def trap(holder, name):
    original = getattr(holder, name)
    def spring(*args, **kwargs):
        line = own_line()
        if line:
            caught.append(f"{name} {line}")
        return original(*args, **kwargs)
    setattr(holder, name, spring)

class Watched(type(os.environ)):
    def __getitem__(self, key):
        line = own_reader()
        if line:
            caught.append(f"environ[{key}] {line}")
        return super().__getitem__(key)

os.environ.__class__ = Watched
trap(socket.socket, "__init__")
trap(threading.Thread, "start")
trap(subprocess.Popen, "__init__")
trap(os, "fork")

imported = []
for name in names:
    package = importlib.import_module(name)
    imported.append(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        # Entry points run, and Alembic runs migration scripts; neither is imported by anyone.
        if not module.name.endswith((".__main__", "migrations.env")) and ".versions." not in module.name:
            importlib.import_module(module.name)
            imported.append(module.name)
caught += [f"thread {thread.name} runs" for thread in threading.enumerate() if thread is not threading.main_thread()]
print(json.dumps({"imported": imported, "caught": caught}))
"""


def probe(root: Path, *packages: str) -> dict[str, list[str]]:
    command = [sys.executable, "-W", "ignore", "-c", PROBE, str(root), *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_importing_does_nothing() -> None:
    found = probe(ROOT, "smena", "sharding", "workers", "actors")
    assert found["caught"] == []
    assert "workers.local.services" in found["imported"]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import os\nplace = os.environ.get('HOME')", "environ[HOME]"),
        ("import os\nplace = os.getenv('HOME')", "environ[HOME]"),
        ("import socket\nline = socket.socket()\nline.close()", "__init__"),
        ("import threading\nthreading.Thread(target=int).start()", "start"),
        ("import subprocess\nsubprocess.run(['true'])", "__init__"),
    ],
)
def test_the_trap_catches(tmp_path: Path, source: str, what: str) -> None:
    package = tmp_path / "busy"
    package.mkdir()
    (package / "__init__.py").write_text(source)
    assert any(one.startswith(what) for one in probe(tmp_path, "busy")["caught"])
