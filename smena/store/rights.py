"""See before any work that the role may do what guards an effect: a missing right is met in the middle of a job."""

from __future__ import annotations

import sqlalchemy as sa

from smena.errors import Misconfigured

_LACKING = sa.text("""
SELECT string_agg(wanted, ', ') FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS wanted
WHERE NOT has_table_privilege('smena.once_keys', wanted)
""")


class RightsMissing(Misconfigured):
    """The database's role lacks rights that a worker needs."""

    code = "rights_missing"


def require_rights(connection: sa.Connection) -> None:
    """Raise `RightsMissing` where the role may not keep keys of effects, or the results that are kept with them."""
    lacking = connection.scalar(_LACKING)
    if lacking:
        raise RightsMissing(table="smena.once_keys", lacking=lacking)
