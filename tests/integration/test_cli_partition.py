"""`smena partition` says who owns which partition, who should, and what nobody owns."""

import json
from contextlib import closing
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from sharding import leases, members, plans
from smena.settings import groups as settings
from smena.store.database import Database
from tests.fixtures.fix_shell import Shell
from workers.cli import main


@pytest.fixture(autouse=True)
def _group(shell: Shell, database_url: str) -> None:
    """Four partitions, planned for two members: one owns two, of the other's two one is released, one ran out."""
    shell.set(database_url=database_url)
    with (
        closing(Database(settings.Database(url=SecretStr(database_url)), "test", pool_size=1)) as database,
        database.connect(autocommit=True) as connection,
    ):
        plans.begin(connection, "stock", 4)
        for member in ("a", "b"):
            members.beat(connection, "stock", 4, member, f"worker-{member}", 60)
        view = plans.look(connection, "stock")
        assert view is not None
        assert plans.settle(connection, view) == 0
        planned = plans.look(connection, "stock")
        assert planned is not None
        for member, lease_s in (("a", 60.0), ("b", 0.0)):
            names = [leases.lease_name("stock", partition) for partition in planned.plan.of(member)]
            leases.claim(connection, names, member, lease_s)


def told(*arguments: str) -> Any:
    ended = CliRunner().invoke(main, ["partition", *arguments])
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout) if "--json" in arguments else ended.stdout


def test_groups_are_listed_with_what_nobody_owns() -> None:
    assert told("list", "--json") == [
        {"group": "stock", "partitions": 4, "members": 2, "unowned": 2, "moving": 0, "plan": 1}
    ]
    assert told("list").split() == ["stock", *["4", "partitions,", "2", "members,", "2", "unowned,", "0", "moving"]]


def test_owners_are_named_by_their_process_and_term() -> None:
    owned = {one["partition"]: (one["owner"], one["worker"], one["term"]) for one in told("owners", "stock", "--json")}
    assert sorted(map(str, owned.values())) == ["('a', 'worker-a', 1)"] * 2 + ["(None, None, 1)"] * 2
    lines = told("owners", "stock").splitlines()
    assert sum("worker-a (a)" in line for line in lines) == 2
    assert sum("nobody  should be b" in line for line in lines) == 2


def test_a_group_that_there_is_not_is_an_error() -> None:
    ended = CliRunner().invoke(main, ["partition", "owners", "nothing"])
    assert ended.exit_code == 1
    assert "no group is called nothing" in ended.output
