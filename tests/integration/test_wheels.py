"""Both wheels build from the tree, hold what they should, and install beside each other."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.fixtures import page

ROOT = Path(__file__).resolve().parent.parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
FLAGS = ["--no-deps", "--no-build-isolation", "--no-index"]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Give the two wheels, built as `./run build` builds them."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("smena", "fleet"):
        subprocess.run([*PIP, "wheel", *FLAGS, "--wheel-dir", str(folder), str(ROOT / "packaging" / name)], check=True)
    return sorted(folder.glob("*.whl"))


def roots(wheel: Path) -> set[str]:
    return {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def test_each_wheel_holds_its_roots_and_no_other(wheels: list[Path]) -> None:
    library, fleet = wheels
    assert roots(library) == {"smena"}
    assert roots(fleet) == {"sharding", "workers"}


def test_wheels_are_typed_licensed_and_free_of_caches(wheels: list[Path]) -> None:
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        assert {f"{root}/py.typed" for root in roots(wheel)} <= set(names)
        assert any(name.endswith("licenses/LICENSE") for name in names)
        assert not [name for name in names if "__pycache__" in name]


def test_the_command_runs_from_installed_wheels(wheels: list[Path], tmp_path: Path) -> None:
    subprocess.run([*PIP, "install", *FLAGS, "--target", str(tmp_path), *map(str, wheels)], check=True)
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, str(tmp_path / "bin" / "smena"), "--help"]
    shown = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "Run and operate a Smena fleet." in shown
    where = "import smena.version, workers.cli; print(smena.version.__file__, workers.cli.__file__)"
    from_ = subprocess.run([sys.executable, "-P", "-c", where], env=environ, capture_output=True, text=True, check=True)
    assert all(place.startswith(str(tmp_path)) for place in from_.stdout.split())


def test_the_page_on_installing_names_the_wheels_that_are_built(wheels: list[Path]) -> None:
    told = page.read("docs/howto/install.md")
    assert {*re.findall(r"[\w.-]+\.whl", told)} == {wheel.name for wheel in wheels}
