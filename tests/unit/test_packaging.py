"""The development install and the two wheels agree with each other."""

import re
import tomllib
from pathlib import Path
from typing import Any

from smena.version import __version__

ROOT = Path(__file__).resolve().parent.parent.parent


def project(path: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((ROOT / path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


WORKSPACE, LIBRARY, FLEET = project("."), project("packaging/smena"), project("packaging/fleet")


def test_all_carry_one_version() -> None:
    assert {one["version"] for one in (WORKSPACE, LIBRARY, FLEET)} == {__version__}


def test_the_fleet_needs_the_library_of_its_own_version() -> None:
    assert f"smena=={__version__}" in FLEET["dependencies"]


def test_the_development_install_has_what_both_wheels_need() -> None:
    wheels = {*LIBRARY["dependencies"], *FLEET["dependencies"]} - {f"smena=={__version__}"}
    assert set(WORKSPACE["dependencies"]) == wheels
    assert WORKSPACE["scripts"] == FLEET["scripts"]
    assert WORKSPACE["optional-dependencies"]["local"] == FLEET["optional-dependencies"]["local"]


def test_every_requirement_is_pinned_and_no_pin_names_a_place() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="ascii")
    pinned = {_plain(line.split("==")[0]) for line in pins.splitlines() if "==" in line}
    extras = [wish for wishes in WORKSPACE["optional-dependencies"].values() for wish in wishes]
    wanted = {_plain(re.split(r"[\[<>=~ ]", wish)[0]) for wish in [*WORKSPACE["dependencies"], *extras]}
    assert wanted - {"smena-workspace"} <= pinned
    assert not re.search(r"https?:|file:|index-url|find-links|@ ", pins)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
