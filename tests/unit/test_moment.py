"""Every command prints a moment the same way."""

from datetime import UTC, datetime, timedelta, timezone

from workers.cli.moment import readable, utc


def test_a_moment_is_printed_in_utc_to_the_second() -> None:
    at = datetime(2026, 1, 5, 10, 12, 44, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert utc(at) == readable(at) == "2026-01-05 09:12:44Z"
    assert utc(at.astimezone(UTC)) == utc(at)


def test_other_fields_are_printed_as_they_are_and_none_is_empty() -> None:
    assert (readable(7), readable("text"), readable(None)) == ("7", "text", "")
