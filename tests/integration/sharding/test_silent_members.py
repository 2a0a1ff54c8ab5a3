"""Members that died go from the table, also where nobody is left in their group to bury them."""

from sharding import members
from smena.settings import Settings
from smena.store.database import Database
from workers.wiring.duties import duties_of


def join(database: Database, group: str, member: str, silent: str = "") -> None:
    """Let a member join; ``silent`` is for how long it has been over."""
    with database.connect(autocommit=True) as connection:
        members.beat(connection, group, 4, member, "worker", 60.0)
        if silent:
            over = b"UPDATE smena.members SET expires_at = clock_timestamp() - CAST(%s AS interval) WHERE member = %s"
            connection.execute(over, (silent, member))


def left(database: Database) -> set[str]:
    with database.connect(autocommit=True) as connection:
        return {one.member for one in members.everybody(connection)}


def test_the_janitor_removes_members_of_all_groups_that_are_long_over_and_no_others(database: Database) -> None:
    join(database, "stock", "lives")
    join(database, "stock", "died just now", "1 min")
    join(database, "stock", "died yesterday", "1 day")
    join(database, "left by all", "the last", "2 h")
    (duty,) = [duty for duty in duties_of(Settings(), database) if duty.table == "members"]
    assert duty.prune(1) == 1
    assert duty.prune(1000) == 1
    assert duty.prune(1000) == 0
    assert left(database) == {"lives", "died just now"}
