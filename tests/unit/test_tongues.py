"""Rules on imports that import-linter has no word for: who reads the environment, and what modules may be called."""

import ast
import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
HOUSE = ("smena", "sharding", "workers", "actors")
READERS = ("os.environ", "os.environb", "os.getenv")
READ_THE_ENVIRONMENT = ("smena/settings/", "workers/local/", "workers/cli/local.py", "workers/cli/drill.py")


def sources() -> Iterator[Path]:
    for root in HOUSE:
        yield from sorted((ROOT / root).rglob("*.py"))


def reads_environment(source: str) -> list[int]:
    """Return the lines on which ``os.environ`` or ``os.getenv`` is used or imported."""
    tree = ast.parse(source)
    used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node) in READERS]
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "os"]
    imported = [node for node in imports if any(f"os.{alias.name}" in READERS for alias in node.names)]
    return [node.lineno for node in used] + [node.lineno for node in imported]


def test_the_environment_is_read_in_settings_and_for_local_children_only() -> None:
    readers = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in sources()
        if not str(file.relative_to(ROOT)).startswith(READ_THE_ENVIRONMENT)
        for line in reads_environment(file.read_text(encoding="utf-8"))
    ]
    assert readers == []


def test_readers_of_the_environment_are_seen() -> None:
    assert reads_environment("import os\nx = 1\ny = os.environ['A']") == [3]
    assert reads_environment("from os import getenv") == [1]


def test_no_top_level_package_shadows_the_standard_library_or_a_dependency() -> None:
    taken = sys.stdlib_module_names | set(importlib.metadata.packages_distributions()) - {*HOUSE, "examples"}
    assert not set(HOUSE) & (taken - set(HOUSE))
    vague = {"utils", "helpers", "common", "misc", "manager"}
    assert [str(file.relative_to(ROOT)) for file in sources() if {file.stem, file.parent.name} & vague] == []
