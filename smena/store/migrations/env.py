"""Run Smena's own revisions when Alembic asks (this file's name is Alembic's)."""

from smena.store.migrations.folders import run
from smena.store.schema_version import TABLE
from smena.store.tables import SCHEMA, metadata

if __name__ == "env_py":  # the name Alembic loads it under; an import does nothing
    run(schema=SCHEMA, metadata=metadata, version_table=TABLE)
