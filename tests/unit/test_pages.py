"""README and docs name commands, files, tests and settings that exist, and their Python passes the type checker."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from examples.shop.result import Result
from smena.settings.groups import Amqp, Worker
from smena.settings.key import keys
from tests.fixtures import page, type_checker
from workers.cli import main as smena

PAGES = ["README.md", "CHANGELOG.md", *(str(path.relative_to(page.ROOT)) for path in page.ROOT.glob("docs/**/*.md"))]
GENERATED = "made by docs/generate.py"
WRITTEN = [path for path in PAGES if GENERATED not in page.read(path)]
OTHER_VARIABLES = {"SMENA_LOCAL_DIR", "SMENA_TEST_DATA", "SMENA_TOML", "SMENA_APP", "SMENA"}

SUPPOSED = """
import smena
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any
import httpx
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from shop.payments import Order, charge
from smena import outbox
from workers.local.services import LocalServices

engine = create_engine("postgresql+psycopg://")
order = Order(1, Decimal(1))
orders = [order]
row: Any = order
book = smena.Book("page")

"""
"""What the blocks of the how-to pages take for granted; `shop.payments` is the README's."""


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_somewhere(path: str) -> None:
    here = page.ROOT / path
    for target in page.links(page.read(path)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        found = (here.parent / file).resolve() if file else here
        assert found.exists(), target
        assert not anchor or anchor in page.anchors(found.read_text(encoding="utf-8")), target


def test_every_page_is_in_the_index() -> None:
    indexed = {f"docs/{target}" for target in page.links(page.read("docs/README.md"))}
    own_index = "docs/adr/"
    assert {path for path in PAGES if path.startswith("docs/") and not path.startswith(own_index)} - indexed == {
        "docs/README.md"
    }


@pytest.mark.parametrize("path", WRITTEN)
def test_every_command_is_one_that_there_is(path: str) -> None:
    for line in _commands(page.read(path)):
        words = shlex.split(line, comments=True)
        if words[0] == "./run":
            assert words[1:] in ([], ["…"]) or words[1] in _run_commands(), line
        elif len(words) > 1 and words[1] != "…":
            _assert_exists(words[1:], line)


def _commands(text: str) -> Iterator[str]:
    """Yield what begins like a command, in code spans and in blocks that are no program."""
    shell = [block.text for block in page.blocks(text) if block.language in {"", "sh"}]
    lines = [line.strip().removeprefix("$ ") for block in shell for line in block.splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in (*lines, *spans):
        if re.match(r"(\./run|smena)( |$)", line) and "──" not in line:
            yield line


def _assert_exists(words: list[str], line: str) -> None:
    command: click.Command = smena
    with click.Context(smena) as context:  # what a command holds until its end, signals too, it lets go of
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            names = words.pop(0).split("|")
            found = [command.get_command(context, name) for name in names if name != "…"]
            assert all(found), line
            command = found[0] or command
            if len(names) > 1:
                return
        known = {name for one in command.params for name in one.opts} | {"--help", "--version"}
        assert {word.strip("[]") for word in words if word.strip("[]").startswith("--")} <= known, line


@cache
def _run_commands() -> set[str]:
    listed = subprocess.run([page.ROOT / "run"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (\w+)", listed, re.MULTILINE))


@pytest.mark.parametrize("path", WRITTEN)
def test_every_variable_is_that_of_a_setting(path: str) -> None:
    named = {name.removesuffix("_FILE") for name in re.findall(r"\bSMENA(?:_[A-Z0-9]+)*", page.read(path))}
    known = {variable for key in keys().values() for variable in key.variables} | OTHER_VARIABLES
    assert {name for name in named if not name.startswith("SMENA_APP_")} <= known


def test_the_readmes_demo_says_what_the_demo_says() -> None:
    figures = Result(
        accepted=5306,
        effects=5269,
        lost=0,
        doubled=0,
        wrong=0,
        dead=37,
        dead_by_reason={"price_not_positive": 37},
        rejected=7,
        mails=206,
        receipts=313,
        stock_moves=4993,
        order_violations=0,
        reports=1,
        report_groups=50,
        amount="667805.07",
        killed_running=6,
        drained=True,
        redelivered=649,
        repeats_absorbed=435,
        left=0,
        seconds=17.285,
        rate=307.0,
        latency_ms={"p50": 11020.0, "p99": 15590.0},
        examples=[],
    )
    assert figures.as_text() in page.read("README.md")


def test_what_the_readme_calls_proved_is() -> None:
    proved = page.rows(page.section(page.read("README.md"), "Guarantees"))
    named = [name for _, cell in proved for name in re.findall(r"`([^`]+)`", cell)]
    assert named
    assert [name for name in named if not page.is_evidence(name)] == []


@type_checker.patient
def test_the_python_of_all_pages_passes_the_type_checker(tmp_path: Path) -> None:
    files = [_write(tmp_path, path, block) for path in WRITTEN for block in page.blocks(page.read(path), "python")]
    assert len({*files}) == len(files) > 10
    told = type_checker.check(files, tmp_path)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("path", WRITTEN)
def test_every_time_limit_is_below_what_a_broker_grants_by_default(path: str) -> None:
    most_s = Amqp().consumer_timeout_s
    for block in page.blocks(page.read(path), "python"):
        for limit_s in _time_limits(block.text):
            assert limit_s + Worker().time_limit_grace_s < most_s, f"{path}:{block.line}"


def _time_limits(program: str) -> Iterator[float]:
    """Yield the seconds of each `time_limit=` and `TimeLimit(…)` of a program."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.keyword) and node.arg == "time_limit" and isinstance(node.value, ast.Constant):
            yield ast.literal_eval(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("TimeLimit"):
            yield ast.literal_eval(node.args[0])


def test_pages_tell_of_time_limits() -> None:
    told = [_time_limits(block.text) for path in WRITTEN for block in page.blocks(page.read(path), "python")]
    assert len([limit_s for limits in told for limit_s in limits]) > 1


def _write(folder: Path, path: str, block: page.Block) -> Path:
    """Write a block to the file that its first line names, or to one of its own (behind what how-tos suppose)."""
    name = re.match(r"# ([\w/]+\.py)\n", block.text)
    whole = name is not None or path == "README.md" or "smena.Book(" in block.text
    slug = re.sub(r"\W", "_", path.removesuffix(".md"))
    file = folder / (name[1] if name else f"{slug}_{block.line}.py")
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_text(block.text if whole else SUPPOSED + block.text, encoding="utf-8")
    return file
