"""The catalogue is the whole truth: every event told is declared, with the fields it carries."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from smena.job import Job
from smena.records.strike import Strike
from smena.telemetry import catalogue, metric
from smena.telemetry.event import Event
from smena.telemetry.logs import RESERVED
from smena.telemetry.metric import METRICS, Metric
from smena.telemetry.redaction import is_private

ROOT = Path(__file__).parents[2]
EVENTS = {name: value for name, value in vars(catalogue).items() if isinstance(value, Event)}

WHAT_THEY_TELL = {
    "facts": Job(actor="a", queue="q").facts(),
    "told": Strike(job_id="j", attempt=1, life="l", actor="a").told(),
}
"""Fields by the method that gives several at once."""


def emit_calls() -> Iterator[tuple[str, str, list[str]]]:
    """Yield place, event and field names of each `events.emit(events.NAME, field=…)` in the product."""
    for root in ("smena", "sharding", "workers"):
        for path in (ROOT / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _is_emit(node.func) and isinstance(node.args[0], ast.Attribute):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield place, node.args[0].attr, [name for given in node.keywords for name in _names(given)]


def _names(given: ast.keyword) -> list[str]:
    if given.arg is not None:
        return [given.arg]
    method = ast.unparse(given.value).rpartition(".")[2].partition("(")[0]
    return list(WHAT_THEY_TELL.get(method, []))


def _is_emit(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "emit" and ast.unparse(function.value) == "events"


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: event.name)
def test_an_event_is_named_subject_dot_happened_and_says_what_it_means(event: Event) -> None:
    subject, _, happened = event.name.partition(".")
    assert subject.isidentifier()
    assert happened.isidentifier()
    assert event.doc.endswith(".")
    assert all(event.fields.values())


@pytest.mark.parametrize("event", EVENTS.values(), ids=lambda event: event.name)
def test_no_event_carries_arguments_or_secrets_or_a_lines_own_fields(event: Event) -> None:
    assert not [name for name in event.fields if is_private(name)]
    assert not RESERVED & event.fields.keys()


def test_each_event_is_declared_once_under_its_own_name_and_in_order() -> None:
    assert [event.name.replace(".", "_").upper() for event in EVENTS.values()] == list(EVENTS)
    prefixes = [event.name.partition(".")[0] for event in EVENTS.values()]
    assert prefixes == sorted(prefixes)


def test_what_the_product_tells_is_in_the_catalogue_with_its_fields() -> None:
    strays = [
        f"{place}: {name} {sorted(set(fields) - EVENTS[name].fields.keys() if name in EVENTS else fields)}"
        for place, name, fields in emit_calls()
        if name not in EVENTS or set(fields) - EVENTS[name].fields.keys()
    ]
    assert not strays, "\n".join(strays)


@pytest.mark.parametrize("declared", METRICS.values(), ids=lambda declared: declared.name)
def test_a_metric_is_named_as_prometheus_asks(declared: Metric) -> None:
    assert declared.name.startswith("smena_")
    assert declared.name.endswith("_total") == (declared.kind == "counter")
    assert declared.kind != "histogram" or declared.name.endswith("_seconds")
    assert declared.doc.endswith(".")


def used_names(module: ModuleType, by: Collection[str]) -> Iterator[str]:
    """Yield what the product's code uses of the module, bare or through a module called so; an import is no use."""
    for root in ("smena", "sharding", "workers"):
        for path in (ROOT / root).rglob("*.py"):
            if path != Path(str(module.__file__)):
                nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
                taken = [node for node in nodes if isinstance(node, ast.ImportFrom)]
                own = {name.name for node in taken if node.module == module.__name__ for name in node.names}
                yield from (node.id for node in nodes if isinstance(node, ast.Name) and node.id in own)
                yield from (
                    node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) in by
                )


def test_every_declared_event_is_told() -> None:
    assert not EVENTS.keys() - set(used_names(catalogue, by=["events", "catalogue"]))


def test_every_declared_metric_is_fed() -> None:
    declared = {name for name, value in vars(metric).items() if isinstance(value, Metric)}
    assert not declared - set(used_names(metric, by=["metric"]))


def test_every_declared_metric_is_in_the_table() -> None:
    assert list(METRICS.values()) == [value for value in vars(metric).values() if isinstance(value, Metric)]
