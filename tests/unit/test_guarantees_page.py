"""The page of guarantees is whole, and all that it names exists."""

import re

import pytest

from tests.fixtures import page

PAGE = page.read("docs/reference/guarantees.md")
WORDS = (
    "holds",
    "holds in part",
    "holds on one host",
    "holds; a copy may run twice",
    "refuses to boot",
    "not there yet",
)
WHERE = page.rows(page.section(PAGE, "What holds where"))
EVIDENCE = dict(page.rows(page.section(PAGE, "What tries to break it")))
REFUSALS = page.rows(page.section(PAGE, "What refuses to boot without PostgreSQL"))


def test_every_guarantee_has_a_word_for_each_set_of_services() -> None:
    assert [int(row[0].split()[0]) for row in WHERE] == list(range(1, 11))
    assert {cell for row in WHERE for cell in row[1:]} <= set(WORDS)


def test_what_holds_names_what_tries_to_break_it() -> None:
    assert [row[0].split()[0] for row in WHERE if row[2] != "not there yet"] == list(EVIDENCE)


@pytest.mark.parametrize("guarantee", EVIDENCE)
def test_what_is_named_exists(guarantee: str) -> None:
    named = re.findall(r"`([^`]+)`", EVIDENCE[guarantee])
    assert named
    assert [name for name in named if not page.is_evidence(name)] == []


def test_every_refusal_is_one_that_is_tried() -> None:
    assert {row[0].split()[0] for row in WHERE if "refuses to boot" in row} == {row[0] for row in REFUSALS}
