"""Run the shop's revisions when Alembic asks (this file's name is Alembic's)."""

from actors.tables import SCHEMA, metadata
from smena.store.migrations import run

if __name__ == "env_py":  # the name Alembic loads it under; an import does nothing
    run(schema=SCHEMA, metadata=metadata)
