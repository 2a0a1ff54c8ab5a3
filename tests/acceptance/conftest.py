"""Give the acceptance tests fleets of real workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smena.settings.groups import Amqp
from tests.acceptance.fleet.real import RealFleet
from tests.fixtures.fix_broker import BrokerView


@pytest.fixture
def real_fleet(tmp_path: Path, amqp: Amqp, broker: BrokerView, database_url: str) -> Iterator[RealFleet]:
    """Give a fleet that is not started yet, with a database, and leave nothing of it."""
    broker.knows("jobs", "elsewhere")
    grip = RealFleet(tmp_path, amqp, database_url)
    yield grip
    grip.clear()


@pytest.fixture
def bare_fleet(tmp_path: Path, amqp: Amqp, broker: BrokerView) -> Iterator[RealFleet]:
    """Give a fleet that is not started yet, without a database, and leave nothing of it."""
    broker.knows("jobs", "elsewhere")
    grip = RealFleet(tmp_path, amqp, None)
    yield grip
    grip.clear()
