"""Trace context follows the W3C's format, and what is malformed begins a new trace."""

import pytest

from smena.telemetry.trace import new_request_id, new_traceparent, trace_id

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def test_a_child_stays_in_its_parents_trace_under_a_span_of_its_own() -> None:
    child = new_traceparent(PARENT)
    assert trace_id(child) == trace_id(PARENT)
    assert child.split("-")[2] != PARENT.split("-")[2]
    assert child.endswith("-00"), "the sender's decision to sample is kept"


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "x",
        PARENT.upper(),
        PARENT + "\n",
        PARENT + "-00",
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "\ud800" * 55,
    ],
)
def test_a_malformed_parent_begins_a_new_trace(parent: str | None) -> None:
    made = new_traceparent(parent)
    assert trace_id(made) not in {None, trace_id(PARENT)}
    assert trace_id(parent) is None


def test_ids_differ() -> None:
    assert len({new_request_id() for _ in range(1000)}) == 1000
    assert len({new_traceparent() for _ in range(1000)}) == 1000
