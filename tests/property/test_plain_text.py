"""Whatever a failure path is handed, it can be stored and shown."""

import json
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.exc import IntegrityError

from smena.telemetry import log_line
from smena.telemetry.line_writer import LINE_LIMIT
from smena.telemetry.plain_text import cut, error_text, text_of
from smena.telemetry.redaction import REDACTED, public

any_text = st.text(st.characters(exclude_categories=()), max_size=300)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(max_size=50)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4), max_leaves=20
)


class Hostile:
    """An object that refuses whatever it is asked."""

    def __str__(self) -> str:
        raise RuntimeError("no")

    __repr__ = __str__


@given(any_text, st.integers(min_value=3, max_value=400))
def test_text_that_was_cut_can_be_stored_and_keeps_its_limit(text: str, limit: int) -> None:
    safe = cut(text, limit)
    assert len(safe.encode()) <= limit
    assert "\x00" not in safe


@given(st.text(max_size=100))
def test_plain_text_that_fits_is_left_as_it_is(text: str) -> None:
    assert cut(text.replace("\x00", ""), 400) == text.replace("\x00", "")


def test_p25_what_cannot_be_stored_is_escaped() -> None:
    assert cut("a\x00b\ud800c") == "a\\u0000b\\ud800c"


def test_p25_an_error_with_50_mb_of_text_is_cut() -> None:
    text = error_text(ValueError("x" * 50_000_000))
    assert text.startswith("ValueError: xxx")
    assert len(text.encode()) <= 2048


def test_an_object_that_cannot_be_printed_is_named_by_its_class() -> None:
    assert text_of(Hostile()) == "<Hostile>"
    assert public("thing", [Hostile(), {"a": Hostile()}]) == ["<Hostile>", {"a": "<Hostile>"}]
    assert public("thing", {Hostile(): 1}) == "<dict>"


@given(st.dictionaries(any_text, values, max_size=8))
def test_p25_any_fields_become_one_line_of_json_within_the_limit(fields: dict[str, object]) -> None:
    line = log_line.to_json(log_line.stamp(None, "", log_line.sanitize(None, "", {**fields, "event": "x"})))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["event"] == "x"


def at_a_terminal(fields: dict[str, object]) -> bytes:
    return log_line.console(colors=False)(log_line.stamp(None, "", log_line.sanitize(None, "", fields)))


BELOW_THE_LINE = {"exception", "stack"}
"""Fields that a terminal shows in lines of their own."""


@given(any_text.filter(lambda text: text not in {"event", "level", *BELOW_THE_LINE}), any_text)
def test_a_terminal_gets_no_control_characters_from_a_value(name: str, value: str) -> None:
    line = at_a_terminal({name: value, "event": value})
    assert line.count(b"\n") == 1
    assert b"\x1b" not in line
    assert len(line) <= LINE_LIMIT


@pytest.mark.parametrize("name", sorted(BELOW_THE_LINE))
def test_nor_from_what_it_shows_below_the_line(name: str) -> None:
    shown = at_a_terminal({name: "Traceback\nValueError: \x1b[2J\x1b]0;mine\x07\r\x9b1m", "event": "x"})
    assert not [byte for byte in shown.decode() if byte != "\n" and not byte.isprintable()]
    assert b"Traceback" in shown.splitlines()[1]
    assert b"\\x1b[2J" in shown


@pytest.mark.parametrize("count", [10, 100, 5000])
def test_many_bulky_fields_still_give_one_line(count: int) -> None:
    fields = log_line.sanitize(
        None, "", {f"field{number}": ["x" * 100] * 50 for number in range(count)} | {"event": "x"}
    )
    line = log_line.to_json(log_line.stamp(None, "", fields))
    assert len(line) <= LINE_LIMIT
    assert json.loads(line)["event"] == "x"


def test_of_a_long_traceback_the_end_is_kept() -> None:
    fields = {"event": "x", "exception": "Traceback\n" + "frame\n" * 3000 + "ValueError: the end"}
    line = json.loads(log_line.to_json(log_line.stamp(None, "", log_line.sanitize(None, "", fields))))
    assert line["exception"].endswith("ValueError: the end")
    assert line["exception"].startswith("…")


@pytest.mark.parametrize("name", ["args", "kwargs", "body", "password", "api_key", "X-Auth-Token", "Authorization"])
def test_p51_arguments_and_secrets_are_never_shown(name: str) -> None:
    assert public(name, "hunter22") == REDACTED
    assert public("detail", {name: "hunter22"}) == {name: REDACTED}


@pytest.mark.parametrize("text", ["amqp://shop:hunter22@h/", "cannot reach postgresql://u:hunter22@h:5432/x today"])
def test_p51_passwords_inside_addresses_are_masked(text: str) -> None:
    shown = str(public("error", text))
    assert "hunter22" not in shown
    assert "@h" in shown


def test_p51_a_password_that_straddles_the_cut_is_masked() -> None:
    for before in range(1990, 2060):
        assert "hunter22" not in str(public("error", "x" * before + " amqp://shop:hunter22@h/"))
        assert "shop:hu" not in str(public("error", "x" * before + " amqp://shop:hunter22@h/"))


def failures() -> list[Exception]:
    """Return errors as libraries raise them, each quoting a card number."""
    card = "4111111111111111"
    found: list[Exception] = []
    try:
        TypeAdapter(int).validate_python("x" + card)
    except ValidationError as refused:
        found.append(refused)
    violated = f'duplicate key violates constraint "cards_pkey"\nDETAIL:  Key (card)=({card}) already exists.'
    found.append(RuntimeError(violated))
    found.append(IntegrityError("INSERT INTO cards VALUES (%(card)s)", {"card": card}, RuntimeError(violated)))
    found.append(IntegrityError("INSERT INTO cards VALUES (%(card)s)", [{"card": card}] * 30, RuntimeError("x")))
    return found


@pytest.mark.parametrize("failure", failures(), ids=lambda failure: type(failure).__name__)
def test_p51_what_libraries_quote_of_the_data_is_not_shown(failure: Exception) -> None:
    shown = str(public("error", error_text(failure)))
    assert "4111" not in shown
    assert shown.startswith(type(failure).__name__)
    cause = str(failure).splitlines()[0][:20]
    assert cause in shown, "why it failed is still told"


def test_p51_a_traceback_quotes_no_data_either() -> None:
    card = "x" + "41" * 8
    with pytest.raises(ValidationError) as refusal:
        TypeAdapter(int).validate_python(card)
    told = "".join(traceback.format_exception(refusal.value))
    shown = log_line.sanitize(None, "", {"exception": told})["exception"]
    assert card in told
    assert card not in shown
    assert "int_parsing" in shown
