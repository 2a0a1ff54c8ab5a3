"""The shop's own Alembic folder makes the tables that its actors write, beside Smena's and under one lock."""

from __future__ import annotations

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from actors import tables
from smena.store import migrations

FOLDER = "actors:migrations"


def test_the_folder_makes_exactly_the_shops_tables(empty_database_url: str) -> None:
    done = migrations.upgrade(empty_database_url, [FOLDER])
    assert {folder for folder, _ in done} == {"smena", FOLDER}
    assert migrations.upgrade(empty_database_url, [FOLDER]) == []
    engine = sa.create_engine(empty_database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    try:
        with engine.connect() as connection:
            assert sa.inspect(connection).has_table("alembic_version", schema="shop")
            assert compare_metadata(_context(connection), tables.metadata) == []
    finally:
        engine.dispose()


def _context(connection: sa.Connection) -> MigrationContext:
    def ours(name: str | None, kind: str, _: object) -> bool:
        return name == tables.SCHEMA if kind == "schema" else name != "alembic_version"

    return MigrationContext.configure(connection, opts={"include_schemas": True, "include_name": ours})
