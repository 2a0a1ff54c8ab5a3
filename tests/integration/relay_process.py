"""A relay in a process of its own, that can be killed and frozen: `python -m … DATABASE_URL AMQP_URL PREFIX`."""

import os
import sys
import threading

from pydantic import SecretStr

from sharding.partitions import Partitions
from smena.amqp.link import Connection, LinkThread
from smena.amqp.publisher import Publisher
from smena.clock import SYSTEM
from smena.outbox.claims import SLOTS, Claims
from smena.outbox.dispatch import outgoing_of
from smena.outbox.doorbell import Doorbell
from smena.settings.groups import Amqp
from smena.settings.groups import Database as DatabaseSettings
from smena.store.database import Database
from workers.roles.relay import Relay
from workers.roles.slots import GROUP, Slots

LEASE_S = 2.0


def main(database_url: str, amqp_url: str, prefix: str) -> None:
    """Relay until the process is ended."""
    database = Database(DatabaseSettings(url=SecretStr(database_url)), "relay")
    settings = Amqp(urls=amqp_url, prefix=prefix)
    link = LinkThread()
    connection = Connection(link, settings, "relay")
    publisher = Publisher(connection, settings, SYSTEM)
    doorbell = Doorbell(lambda: database.connect(autocommit=True), SYSTEM)
    owner = os.urandom(8).hex()
    slots = Slots(lambda slot: partitions.fence_of(slot), doorbell.knock)
    partitions = Partitions(database, GROUP, SLOTS, slots, lease_s=LEASE_S, clock=SYSTEM, owner=owner)
    relay = Relay(
        Claims(database, owner, 30),
        doorbell,
        publisher,
        lambda row: outgoing_of(row, prefix),
        lambda: connection.is_up and not connection.blocked,
        SYSTEM,
        slots,
        batch=50,
        poll_s=0.2,
    )
    connection.listen(relay)
    for service in (link, connection, publisher, relay, partitions):
        service.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
