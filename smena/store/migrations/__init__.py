"""Bring a database to the schema that this build needs, and say how far it is.

`upgrade` runs Smena's own revisions (schema `smena`), then those of further Alembic folders, each with its
own schema and version table. Replicas that start together do it once: the others wait, with a bound.

A revision names its part: `part = "before"` (the default: new tables and columns, which the running build does
not mind) is run before a deploy, `part = "after"` (what only the old build still used) after it. Upgrading to
before-deploy ends at the last such revision of the chain; after-deploy ones that lie below it belong to an
earlier deploy, which is over, and are run with it.
"""

from smena.store.migrations.folders import Folder, Part, Revision, run
from smena.store.migrations.upgrading import MigrationBusy, State, check, history, upgrade

__all__ = ["Folder", "MigrationBusy", "Part", "Revision", "State", "check", "history", "run", "upgrade"]
