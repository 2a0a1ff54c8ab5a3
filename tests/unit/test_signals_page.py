"""`docs/reference/signals.md` says what the code does."""

import re
from pathlib import Path

from workers.process.child import TAKEN
from workers.process.exits import MEANING, Exit
from workers.supervisor.fleet_view import STALL_S
from workers.supervisor.post import CRASH_LOOP
from workers.wiring.supervisor import HEARD

PAGE = (Path(__file__).parents[2] / "docs/reference/signals.md").read_text()
INTERNAL = {"SIGCHLD"}


def _section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def _signals(section: str) -> set[str]:
    cells = re.findall(r"^\| (`[^|]+?) \|", section, re.MULTILINE)
    return {f"SIG{name}" for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_exit_code_has_its_row() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", _section("Exit codes"), re.MULTILINE)
    assert rows == [(str(int(code)), code.name.lower(), MEANING[code]) for code in Exit]


def test_the_supervisors_signals_are_those_in_the_table() -> None:
    assert _signals(_section("Signals to the supervisor")) == {number.name for number in HEARD} - INTERNAL


def test_the_childs_signals_are_those_in_the_table() -> None:
    assert _signals(_section("Signals to a child")) == {number.name for number in TAKEN}


def test_its_numbers_are_the_codes() -> None:
    assert f"within {STALL_S:.0f} s" in PAGE
    assert {2: "two", 3: "three", 4: "four", 5: "five"}[CRASH_LOOP] + " deaths in a row" in PAGE
