"""`./run` says what it can do, and says in one sentence what is missing."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import main as benches

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def house() -> ModuleType:
    """Give `packaging/house.py`, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("house", ROOT / "packaging" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_run_alone_lists_its_commands() -> None:
    shown = subprocess.run([ROOT / "run"], capture_output=True, text=True, check=True, cwd="/").stdout
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert listed == ["demo", "test", "check", "bench", "drill", "local", "build", "shell", "clean"]
    assert all(len(line.split()) > 2 for line in shown.splitlines() if line.startswith("  "))


def test_an_unknown_command_lists_the_known_ones() -> None:
    done = subprocess.run([ROOT / "run", "dance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "dance" in done.stderr
    assert "demo" in done.stderr


@pytest.mark.parametrize("command", ["check", "build", "shell", "clean"])
def test_help_of_a_command_that_starts_no_program_is_what_it_does(command: str, house: ModuleType) -> None:
    done = subprocess.run([ROOT / "run", command, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout == f"./run {command}: {house.COMMANDS[command].summary}\n"


def test_without_a_new_enough_python_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    for tool in ("sh", "dirname"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        [ROOT / "run", "test"], capture_output=True, text=True, check=False, env={"PATH": str(tmp_path)}
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "install python3" in done.stderr


def test_without_venv_one_sentence_says_what_to_install(house: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(house.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(house.Refused, match="install python3-venv"):
        house._make_venv()


def test_an_environment_that_was_copied_from_elsewhere_is_made_anew(
    house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "VENV", tmp_path)
    monkeypatch.setattr(house, "PYTHON", Path("/bin/sh"))
    (tmp_path / ".home").write_text(house._home())
    assert house._is_home()
    monkeypatch.setattr(house, "ROOT", tmp_path / "elsewhere")
    assert not house._is_home()


def test_a_path_that_is_not_there_is_told_before_anything_is_started(
    house: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[str] = []
    monkeypatch.setattr(house, "_furnish", started.append)
    monkeypatch.setattr(house, "_become", lambda _arguments, **_options: 0)
    monkeypatch.chdir("/")
    assert house.main(["test", "-x", "-k", "no/path", "tests/unit/test_house.py::test_x", "tests"]) == 0
    assert started == ["dev"]
    assert house.main(["test", "tests/unit", "-x", "tests/unit/test_nope.py::test_x"]) == 2
    assert started == ["dev"]
    assert "there is no tests/unit/test_nope.py" in capsys.readouterr().err


def test_a_bench_that_is_not_there_is_told_before_its_peers_are_installed(
    house: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(house, "_become", lambda arguments, **_options: started.append(arguments))
    assert house.main(["bench", "dance", "--json"]) == 2
    assert started == []
    assert capsys.readouterr().err.startswith("./run bench: there is no bench 'dance'; there are drain, ")
    house.main(["bench", "drain", "--json"])
    assert len(started) == 1


@pytest.mark.parametrize("words", [[], ["--help"], ["drain", "--help"], ["--json", "drain"]])
def test_a_call_that_runs_no_bench_asks_for_no_peers(
    words: list[str], house: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnished: list[str] = []
    monkeypatch.setattr(house, "_furnish", furnished.append)
    monkeypatch.setattr(house.os, "execve", lambda *_command: None)
    house.main(["bench", *words])
    assert furnished == ["dev"]
    house.main(["bench", "drain", "--json"])
    assert furnished == ["dev", "bench"]


@pytest.mark.parametrize(("words", "status"), [([], 2), (["drain", "--help"], 0)])
def test_usage_and_help_of_the_benches_are_said_where_no_peer_is_installed(words: list[str], status: int) -> None:
    hide = "import sys; sys.modules |= dict.fromkeys(['celery', 'taskiq', 'faststream'])"
    program = [sys.executable, "-P", "-c", f"{hide}; from benchmarks.__main__ import run; run()", *words]
    said = subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)
    assert said.returncode == status, said
    assert "Usage: ./run bench" in said.stdout + said.stderr


def test_the_house_knows_every_bench(house: ModuleType) -> None:
    assert set(house.BENCHES) == benches.commands.keys()


def test_a_shell_finds_this_environment_first_whatever_the_users_own_files_put_there(
    house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "SERVICES", tmp_path / "smena")
    home, shims = tmp_path / "home", tmp_path / "shims"
    home.mkdir()
    (home / ".bashrc").write_text(f'export PATH="{shims}:$PATH" MINE=read PS1="> "\n')
    bash = str(shutil.which("bash"))
    environ = {"SHELL": bash, "HOME": str(home), "PATH": "/usr/bin:/bin"}
    told = subprocess.run(
        house._interactive(environ),
        input='echo "$PATH|$MINE|$VIRTUAL_ENV|$PS1"\n',
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    path, mine, venv, prompt = told.rstrip("\n").splitlines()[-1].split("|")
    assert path.split(":")[:2] == [str(house.VENV / "bin"), str(shims)]
    assert (mine, venv, prompt) == ("read", str(house.VENV), "(smena) > ")


def test_a_shell_without_such_a_way_gets_the_environment_alone(house: ModuleType) -> None:
    environ = {"SHELL": "/usr/bin/fish"}
    assert house._interactive(environ) == ["/usr/bin/fish"]
    assert environ == {"SHELL": "/usr/bin/fish"}


def test_who_wants_no_bytecode_beside_the_sources_gets_it_beside_the_packages(
    house: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environ = house._environ(own_services=False)
    assert "PYTHONDONTWRITEBYTECODE" not in environ
    assert environ["PYTHONPYCACHEPREFIX"] == str(house.VENV / "bytecode")


def test_where_bytecode_lies_is_left_as_it_is_otherwise(house: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    assert "PYTHONPYCACHEPREFIX" not in house._environ(own_services=False)
