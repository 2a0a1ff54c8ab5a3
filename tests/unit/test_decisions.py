"""Decisions are indexed and short, and every dependency has its reason on the page."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "adr"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name not in {"README.md", "dependencies.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_is_indexed_and_has_at_most_40_lines(page: Path) -> None:
    assert f"({page.name})" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 40


def test_the_dependencies_page_lists_what_is_installed_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for group in project["optional-dependencies"].values() for one in group)]
    names = {re.split(r"[\[<>=~! ]", one)[0] for one in wanted} - {project["name"]}
    page = (FOLDER / "dependencies.md").read_text(encoding="utf-8")
    assert names == set(re.findall(r"^\| ([a-z][a-z0-9-]*) \|", page, re.MULTILINE)) - {"package"}
