"""Run the revisions of one Alembic folder on a connection that is handed in.

A folder is Alembic's own layout: `env.py` and `versions/`. Its `env.py` is two lines::

    from smena.store.migrations import run

    run(schema="shop")

so Smena and the plain `alembic` command (with `sqlalchemy.url` set) run it alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from alembic import context
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, MigrationStep
from alembic.script import Script, ScriptDirectory
from sqlalchemy.sql.ddl import CreateSchema

from smena.errors import Misconfigured

_CONNECTION: Final = "smena_connection"
_LOOK_ONLY: Final = "smena_look_only"


class Part(StrEnum):
    """When a revision is run, seen from the deploy of the build that brings it."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Revision:
    """One step of a chain."""

    id: str
    part: Part
    summary: str


class Folder:
    """An Alembic folder, by path (from the working directory) or as ``package:folder``."""

    def __init__(self, location: str | Path) -> None:
        self.name = str(location)
        self._config = Config()
        self._config.set_main_option("script_location", self.name.replace("%", "%%"))
        if ":" not in self.name and not (Path(location) / "env.py").is_file():
            raise Misconfigured("no Alembic folder there", migrations=self.name)
        self._scripts = ScriptDirectory.from_config(self._config)

    def chain(self) -> list[Revision]:
        """Return all revisions, the oldest first."""
        return [_revision(script) for script in reversed(list(self._scripts.walk_revisions()))]

    def applied(self, connection: sa.Connection) -> set[str]:
        """Return the ids of the revisions that the database has; changes nothing there.

        An id that this folder does not have is a newer build's, and whatever this folder has lies below it.
        """
        heads: list[str] = []

        def look(rev: Any, here: MigrationContext) -> list[MigrationStep]:  # noqa: ARG001 - Alembic's signature
            heads.extend(here.get_current_heads())
            return []

        self._run_env(connection, look, look_only=True)
        known = {revision.id for revision in self.chain()}
        if not heads or not known.issuperset(heads):
            return known.union(heads) if heads else set()
        return {script.revision for script in self._scripts.iterate_revisions(tuple(heads), "base")}

    def upgrade_to(self, connection: sa.Connection, target: str) -> None:
        """Run what is missing up to the revision ``target``, each step in a transaction of its own."""

        def steps(rev: Any, here: MigrationContext) -> list[MigrationStep]:  # noqa: ARG001 - Alembic's signature
            return list(self._scripts._upgrade_revs(target, rev))  # noqa: SLF001 - as Alembic's own command does

        self._run_env(connection, steps, look_only=False)

    def _run_env(
        self,
        connection: sa.Connection,
        fn: Callable[[Any, MigrationContext], list[MigrationStep]],
        *,
        look_only: bool,
    ) -> None:
        self._config.attributes[_CONNECTION] = connection
        self._config.attributes[_LOOK_ONLY] = look_only
        with EnvironmentContext(self._config, self._scripts, fn=fn, dont_mutate=look_only):
            self._scripts.run_env()


def run(
    schema: str, *, metadata: sa.MetaData | Sequence[sa.MetaData] | None = None, version_table: str = "alembic_version"
) -> None:
    """Run this folder's revisions in ``schema``, whose version table is there too; for a folder's `env.py`.

    ``metadata`` is only for autogenerating; the schema is made where it is missing.
    """
    lent: sa.Connection | None = context.config.attributes.get(_CONNECTION)
    with nullcontext(lent) if lent is not None else _own_connection() as connection:
        if not context.config.attributes.get(_LOOK_ONLY):
            connection.execute(CreateSchema(schema, if_not_exists=True))
            connection.commit()
        context.configure(
            connection=connection,
            target_metadata=metadata,
            version_table=version_table,
            version_table_schema=schema,
            include_schemas=True,
            include_name=lambda name, kind, _: kind != "schema" or name == schema,
            transaction_per_migration=True,
        )
        with context.begin_transaction():
            context.run_migrations()


def _own_connection() -> sa.Connection:
    url = context.config.get_main_option("sqlalchemy.url")
    if not url:
        raise Misconfigured("run these migrations with `smena db upgrade`, or give Alembic a sqlalchemy.url")
    return sa.create_engine(url, poolclass=sa.NullPool).connect()


def _revision(script: Script) -> Revision:
    part = getattr(script.module, "part", Part.BEFORE)
    return Revision(script.revision, Part(part), (script.doc or "").strip().splitlines()[0] if script.doc else "")
