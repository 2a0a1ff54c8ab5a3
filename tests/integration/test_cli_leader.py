"""`smena leader`: who leads is seen, and a leadership can be taken away."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from click.testing import CliRunner, Result

from smena.clock import SYSTEM
from smena.errors import TermLost
from smena.guarantees.election.contract import Unseated
from smena.store import terms
from smena.store.terms import Term
from tests.integration.election.backends import BACKENDS, election
from tests.integration.election.conftest import Ground
from workers.cli import main
from workers.local.services import LocalServices


@pytest.fixture(params=BACKENDS)
def ground(request: pytest.FixtureRequest, services: LocalServices, database_url: str, unique: str) -> Iterator[Ground]:
    """Give one backend's store."""
    with ExitStack() as ends:
        yield Ground(request.param, services, database_url, unique, ends)


def smena(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), env={"SMENA_DATABASE_URL": url})


def test_a_leadership_is_listed_and_taken_away_wherever_it_is_held(ground: Ground) -> None:
    with ExitStack() as ends:
        leader, other = (
            election(ends, ground.backend, ground.address, ground.database_url, ground.duty, 60, SYSTEM)
            for _ in range(2)
        )
        ends.callback(leader.close)
        ends.callback(other.close)
        assert leader.campaign(0.1) == 1
        listed = smena(ground.database_url, "leader", "list").output
        assert ground.duty in listed
        assert "term 1" in listed
        assert "s more" in listed
        if ground.backend != "kubernetes":  # there the owner is called as who asks for the lease wants it
            assert f"{socket.gethostname()}:{os.getpid()}_" in listed
        assert "term 2" in smena(ground.database_url, "leader", "resign", ground.duty).output
        with pytest.raises(TermLost), ground.database.transaction() as connection:
            terms.fence(connection, Term(leader.lease_name, "", 1))
        with pytest.raises(Unseated):
            leader.renew(8)
        assert other.campaign(0.1) == 3


def test_what_nobody_ever_led_is_no_leadership(database_url: str) -> None:
    assert "nobody has led" in smena(database_url, "leader", "list").output
    refused = smena(database_url, "leader", "resign", "cooking")
    assert refused.exit_code == 1
    assert "'cooking'" in refused.output
