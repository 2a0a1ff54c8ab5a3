"""Each drill is one file with one page, and says enough of itself."""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from smena.errors import Refused
from tests.fixtures import page
from workers.cli import main as smena
from workers.cli.drill import addresses, allowed
from workers.drills import deaths, weather, work
from workers.drills.bar import Bar, windows, worst_of_hundred
from workers.drills.catalogue import drills
from workers.drills.drill import Drill
from workers.drills.stage import Stage
from workers.drills.unguarded import GUARDS

DRILLS = drills().values()


def test_every_drill_has_its_page_and_every_page_its_drill() -> None:
    pages = {path.stem for path in (page.ROOT / "docs" / "runbooks").glob("drill-*.md")}
    assert pages == {f"drill-{drill.name}" for drill in DRILLS}


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_a_drill_is_named_after_its_file_and_proves_that_it_bites(drill: Drill) -> None:
    room = {"deaths": deaths, "weather": weather, "work": work}[drill.group]
    assert drill.fault.__module__ == f"{room.__name__}.{drill.name.replace('-', '_')}"
    assert drill.least_bite > 0
    assert {control.guard for control in drill.controls} <= GUARDS.keys()


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_the_page_of_a_drill_says_what_happens_what_to_do_and_how_to_rehearse(drill: Drill) -> None:
    text = page.read(f"docs/runbooks/drill-{drill.name}.md")
    for part in ("**What happens.**", "**What the fleet does by itself.**", "**By hand on the day.**", "**Rehearse.**"):
        assert part in text, part
    assert f"`smena drill run {drill.name}`" in text


@pytest.mark.parametrize("drill", DRILLS, ids=lambda drill: drill.name)
def test_the_page_of_a_drill_states_its_bars_as_the_code_has_them(drill: Drill) -> None:
    rehearsal = " ".join(page.read(f"docs/runbooks/drill-{drill.name}.md").partition("**Rehearse.**")[2].split())
    assert f"t least {drill.least_bite:,} " in rehearsal
    for bar in stated_bars(drill):
        assert bar in rehearsal, bar


def stated_bars(drill: Drill) -> Iterator[str]:
    """Yield, as a page says them, the bounds that a drill's file, and what it takes from others, gives to bars."""
    own = sys.modules[drill.fault.__module__]
    taken = {getattr(thing, "__module__", "") for thing in vars(own).values() if inspect.isfunction(thing)}
    for module in {own.__name__, *(name for name in taken if name.startswith("workers.drills."))}:
        yield from _bounds(sys.modules[module])


def _bounds(module: ModuleType) -> Iterator[str]:
    for call in ast.walk(ast.parse(inspect.getsource(module))):
        match call:
            case ast.Call(func=ast.Attribute(attr="bar"), args=[_, _, ast.Name(id=name)], keywords=kind):
                bound = getattr(module, name)
                seconds = f"within {bound:g} s" if isinstance(bound, float) else f"at most {bound}"
                yield f"{bound * 100:g} %" if kind else seconds


def test_the_list_names_all_drills() -> None:
    shown = CliRunner().invoke(smena, ["drill", "list"]).output
    assert [line.split()[0] for line in shown.splitlines()] == [drill.name for drill in DRILLS]


def test_an_unknown_drill_and_no_drill_at_all_are_refused() -> None:
    told = CliRunner().invoke(smena, ["drill", "run", "dance"]).stderr
    assert told.startswith("drill: There is no drill of that name: 'dance'; there are deploy, ")
    assert told.count("no drill") == 1
    assert CliRunner().invoke(smena, ["drill", "run"]).exit_code == 2


def test_a_bar_holds_on_its_own_side() -> None:
    assert Bar("seconds", 1, 2).holds
    assert not Bar("seconds", 3, 2).holds
    assert Bar("rate", 3, 2, at_most=False).holds
    assert not Bar("rate", 1, 2, at_most=False).holds


def test_every_window_of_a_second_is_counted_not_only_whole_seconds() -> None:
    at = [0.1, 0.2, 0.3, 1.8, 1.9, 2.0]
    assert min(windows(at, 0.0, 2.0, 1.0)) == 0
    assert windows(at, 0.0, 1.0, 1.0) == [3]


def test_a_destructive_drill_is_left_out_where_services_are_given_unless_it_is_named(tmp_path: Path) -> None:
    harmless = drills()["kill-worker"]
    harmful = replace(harmless, name="flood", destructive=True)
    given = Stage({"SMENA_LOCAL_DIR": str(tmp_path), "SMENA_AMQP_URL": "amqp://staging"})
    private = Stage({"SMENA_LOCAL_DIR": str(tmp_path)})
    assert list(allowed([harmless, harmful], given, [])) == [harmless]
    assert list(allowed([harmless, harmful], given, ["flood"])) == [harmless, harmful]
    assert list(allowed([harmless, harmful], private, [])) == [harmless, harmful]


def test_a_private_drill_is_never_held_against_services_that_are_given(tmp_path: Path) -> None:
    given = Stage({"SMENA_LOCAL_DIR": str(tmp_path), "SMENA_AMQP_URL": "amqp://staging"})
    private = drills()["node-loss"]
    assert not list(allowed([private], given, []))
    with pytest.raises(Refused, match="node-loss is only held on private services"):
        list(allowed([private], given, ["node-loss"]))


def test_against_takes_each_address_by_its_scheme_and_refuses_others() -> None:
    assert addresses(["amqp://a/", "postgresql+psycopg://b/", "rediss://c/"]) == {
        "SMENA_AMQP_URL": "amqp://a/",
        "SMENA_DATABASE_URL": "postgresql+psycopg://b/",
        "SMENA_REDIS_URL": "rediss://c/",
    }
    refused = CliRunner().invoke(smena, ["drill", "run", "term", "--against", "http://staging"])
    assert refused.exit_code == 2
    assert "'http'" in refused.stderr


def test_the_worst_of_a_few_is_the_worst() -> None:
    assert worst_of_hundred([3.0, 1.0, 2.0]) == 3.0
    assert worst_of_hundred([float(number) for number in range(1000)]) == 990.0
