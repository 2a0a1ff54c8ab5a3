"""Choose where RabbitMQ's programs come from: this machine, else Debian's packages unpacked."""

from pathlib import Path

from workers.local.faults import Missing
from workers.local.installation import Installation, installed
from workers.local.unpacked import cache_folder, can_unpack, unpacked


def find_rabbitmq(cache: Path) -> Installation:
    """Return the programs, unpacked into the user's cache or ``cache``; raises `Missing` with what to install."""
    here = installed()
    if here is not None:
        return here
    if can_unpack():
        return unpacked(cache_folder(cache))
    raise Missing("there is no rabbitmq-server here and no apt to fetch it with; install the package rabbitmq-server")
