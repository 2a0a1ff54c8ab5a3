"""A dead letter says why, whatever is in the error, in headers that RabbitMQ bears (P18, P25)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smena.amqp.deadletter import Death, bare, dead_headers, dead_properties
from smena.amqp.fieldtable import encode_table
from smena.amqp.properties import MAX_HEADERS_BYTES, Properties, encode_properties

ANYTHING = st.text(st.characters(), max_size=50)


@given(ANYTHING, st.integers(0, 200), st.integers(100, 3000))
def test_p25_any_text_becomes_text_that_all_can_hold_and_is_no_longer_than_allowed(
    text: str, repeat: int, most: int
) -> None:
    made = bare(text * repeat, most)
    assert "\0" not in made
    assert len(made.encode()) <= most


def test_a_long_traceback_keeps_its_end_where_the_error_is_named() -> None:
    made = bare("Traceback\n" + "frame\n" * 50_000 + "ValueError: here", 16 * 1024)
    assert made.startswith("Traceback")
    assert made.endswith("ValueError: here")
    assert "cut" in made


def test_p25_huge_facts_of_a_death_stay_within_what_a_header_may_be() -> None:
    huge = "ü" * 50_000_000
    death = Death("r", 1, huge, huge, huge, huge, huge, huge, job_id=huge, actor=huge, attempt=3)
    senders = {f"own-{number}": "x" * 20_000 for number in range(9)} | {"small": "kept"}
    properties = dead_properties(Properties(headers=senders), death)
    encoded = encode_properties(properties)
    assert len(encoded.table) <= MAX_HEADERS_BYTES
    assert properties.headers is not None
    assert properties.headers["small"] == "kept"
    assert len(encode_table(dead_headers(death))) < 24 * 1024


def test_p18_nothing_rides_along_that_would_act_on_the_dead_letter() -> None:
    came = Properties(
        headers={"x-death": [], "x-delivery-count": 9, "CC": ["q"], "BCC": ["q"], "smena-seq": 4, "smena-attempt": 2},
        expiration="1000",
        reply_to="amq.rabbitmq.reply-to",
        user_id="guest",
        priority=3,
        content_encoding="gzip",
    )
    dead = dead_properties(came, Death("unexpected", 5))
    assert (dead.expiration, dead.reply_to, dead.user_id, dead.priority) == (None, None, None, None)
    assert dead.content_encoding == "gzip"
    assert dead.headers == {"smena-attempt": 2, "smena-reason": "unexpected", "smena-died-at": 5}
