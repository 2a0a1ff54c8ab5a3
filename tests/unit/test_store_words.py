"""The pure parts of the store: what PostgreSQL can hold, what its errors mean, how its address is written."""

import json

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import errors as pg_errors
from psycopg.conninfo import conninfo_to_dict

from smena.errors import ClaimLost, DatabaseBusy, DatabaseLost
from smena.records.once_keys import LONGEST_KEY, OnceKey
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import connection_string
from smena.store.escapes import is_storable, json_text, storable
from smena.store.faults import translate

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@given(ANY_TEXT, st.integers(1, 50))
@example("nul \x00", 50)
@example("lone \ud800", 50)
def test_storable_text_has_nothing_that_postgresql_refuses(text: str, limit: int) -> None:
    kept = storable(text)
    assert "\x00" not in kept
    kept.encode("utf-8")
    assert storable(kept) == kept
    assert is_storable(text) == (kept == text)
    assert len(text) <= limit or "…" in storable(text, limit)


@given(
    st.recursive(st.floats() | st.binary() | ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner))
)
def test_any_value_becomes_json(value: object) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(json_text(value), parse_constant=refuse)


def test_endless_nesting_is_cut() -> None:
    value: list[object] = []
    value.append(value)
    assert "\\u2026" in json_text(value)


@given(ANY_TEXT, ANY_TEXT)
def test_keys_stay_equal_or_different_when_they_are_kept(one: str, other: str) -> None:
    kept = [OnceKey("a", key, "j").kept() for key in (one, other)]
    assert (kept[0] == kept[1]) == (one == other)
    assert all(is_storable(key) and len(key) <= LONGEST_KEY for key in kept)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (pg_errors.LockNotAvailable("x"), DatabaseBusy),
        (pg_errors.DeadlockDetected("x"), DatabaseBusy),
        (pg_errors.SerializationFailure("x"), DatabaseBusy),
        (pg_errors.QueryCanceled("x"), DatabaseBusy),
        (pg_errors.TooManyConnections("x"), DatabaseBusy),
        (pg_errors.DiskFull("x"), DatabaseBusy),
        (pg_errors.AdminShutdown("x"), DatabaseLost),
        (pg_errors.CannotConnectNow("x"), DatabaseLost),
        (pg_errors.IdleInTransactionSessionTimeout("x"), DatabaseLost),
        (pg_errors.ReadOnlySqlTransaction("x"), DatabaseLost),
        (psycopg.OperationalError("the connection is closed"), DatabaseLost),
        (pg_errors.UniqueViolation("x"), None),
        (pg_errors.UndefinedTable("x"), None),
        (psycopg.DataError("x"), None),
        (ValueError("x"), None),
    ],
)
def test_only_what_passes_by_itself_is_translated(error: Exception, meaning: type | None) -> None:
    found = translate(error)
    assert (found and type(found)) == meaning


def test_an_error_of_the_taxonomy_stays_itself_and_rows_are_not_quoted() -> None:
    ours = ClaimLost(item=1)
    assert translate(ours) is ours
    assert "secret" not in str(translate(pg_errors.DeadlockDetected("deadlock\nDETAIL: secret row")))


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_an_address_carries_the_sessions_limits_and_what_it_says_itself_wins(scheme: str) -> None:
    settings = DatabaseSettings.model_validate({"url": "postgresql://h/d", "lock_timeout_s": 2.5})
    url = f"{scheme}://u:p%40@h1:1,h2:2/d?application_name=theirs&options=-c%20lock_timeout%3D9s"
    spelled = conninfo_to_dict(connection_string(url, settings, "ours"))
    assert (spelled["host"], spelled["port"], spelled["password"]) == ("h1,h2", "1,2", "p@")
    assert (spelled["application_name"], spelled["keepalives"]) == ("theirs", "1")
    assert "lock_timeout=2500ms" in str(spelled["options"])
    assert str(spelled["options"]).endswith("-c lock_timeout=9s")
