"""Make the first tables: outbox, settlements, once keys, dead letters, leases."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
part = "before"

SCHEMA = "smena"


def upgrade() -> None:
    """Make them; the schema is there already, for the version table."""
    _outbox()
    _settlements()
    _once_keys()
    _dead_letters()
    _leases()


def _key(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation="C"), nullable=nullable)


def _text(name: str, *, nullable: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _whole(name: str, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=default and sa.text(default))


def _time(name: str, default: str | None = None, *, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable, server_default=default and sa.text(default))


def _message() -> tuple[sa.Column[bytes], sa.Column[sa.JSON]]:
    return sa.Column("body", sa.LargeBinary, nullable=False), sa.Column("properties", sa.JSON, nullable=False)


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("seq", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        _key("id"),
        _whole("attempt", "1"),
        _whole("snoozes", "0"),
        _text("actor", nullable=False),
        _text("queue", nullable=False),
        _text("exchange"),
        _text("routing_key"),
        _key("ordering_key", nullable=True),
        *_message(),
        _time("created_at", "now()"),
        _time("due_at", "now()"),
        sa.Column("state", sa.Text, nullable=False, server_default=sa.text("'pending'")),
        _text("owner"),
        sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        _time("lease_until", nullable=True),
        _whole("tries", "0"),
        _text("error"),
        _time("sent_at", nullable=True),
        sa.CheckConstraint("state IN ('pending', 'sent', 'parked')", name="outbox_state_check"),
        sa.UniqueConstraint("id", "attempt", "snoozes", name="outbox_id_attempt_snoozes_key"),
        schema=SCHEMA,
        # Room for a claim's heap-only update beside the row it replaces.
        postgresql_with={"fillfactor": "80"},
    )
    _partial("outbox_pending_idx", ["due_at", "seq"], "state = 'pending'")
    _partial("outbox_ordered_idx", ["ordering_key", "seq"], "state = 'pending' AND ordering_key IS NOT NULL")
    _partial("outbox_parked_idx", ["seq"], "state = 'parked'")
    _partial("outbox_sent_idx", ["sent_at"], "state = 'sent'")


def _partial(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "outbox", columns, schema=SCHEMA, postgresql_where=sa.text(where))


def _settlements() -> None:
    op.create_table(
        "settlements",
        _key("job_id"),
        sa.Column("attempt", sa.Integer, nullable=False),
        _text("kind", nullable=False),
        _text("queue", nullable=False),
        _text("exchange", nullable=False),
        _text("routing_key", nullable=False),
        *_message(),
        _time("created_at", "now()"),
        _time("confirmed_at", nullable=True),
        sa.CheckConstraint("kind IN ('retry', 'dead', 'snooze')", name="settlements_kind_check"),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="settlements_pkey"),
        schema=SCHEMA,
        postgresql_with={"fillfactor": "80"},
    )
    op.create_index("settlements_created_at_idx", "settlements", ["created_at"], schema=SCHEMA)


def _once_keys() -> None:
    op.create_table(
        "once_keys",
        _key("actor"),
        _key("key"),
        _key("job_id"),
        sa.Column("result", sa.JSON),
        _time("created_at", "now()"),
        _time("expires_at"),
        sa.PrimaryKeyConstraint("actor", "key", name="once_keys_pkey"),
        schema=SCHEMA,
    )
    op.create_index("once_keys_expires_at_idx", "once_keys", ["expires_at"], schema=SCHEMA)


def _dead_letters() -> None:
    op.create_table(
        "dead_letters",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        _key("job_id"),
        sa.Column("attempt", sa.Integer, nullable=False),
        _text("queue", nullable=False),
        _text("source"),
        _text("actor"),
        _text("reason", nullable=False),
        *(_text(name) for name in ("error_class", "error_text", "traceback", "fingerprint")),
        _time("died_at"),
        _time("first_enqueued_at", nullable=True),
        *(_text(name) for name in ("worker", "build", "request_id")),
        *_message(),
        _time("archived_at", "now()"),
        sa.UniqueConstraint("job_id", "attempt", name="dead_letters_job_id_attempt_key"),
        schema=SCHEMA,
    )
    op.create_index("dead_letters_reason_died_at_idx", "dead_letters", ["reason", "died_at"], schema=SCHEMA)
    op.create_index("dead_letters_fingerprint_idx", "dead_letters", ["fingerprint"], schema=SCHEMA)


def _leases() -> None:
    op.create_table(
        "leases",
        _key("name"),
        _text("owner"),
        sa.Column("term", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        _time("expires_at"),
        sa.PrimaryKeyConstraint("name", name="leases_pkey"),
        # Makes the term a key column: a fence FOR KEY SHARE stops a takeover and lets a renewal pass.
        sa.UniqueConstraint("name", "term", name="leases_name_term_key"),
        schema=SCHEMA,
    )
