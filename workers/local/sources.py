"""Choose where RabbitMQ comes from: this machine, Debian's packages unpacked, or a Docker engine."""

from pathlib import Path

from workers.local.faults import Missing
from workers.local.installation import installed
from workers.local.rabbitmq import RabbitMQ
from workers.local.unpacked import cache_folder, can_unpack, unpacked


def find_rabbitmq(root: Path) -> RabbitMQ:
    """Return the node below ``root``; raises `Missing` with what to install when there is no way to one."""
    folder = root / "rabbitmq"
    here = installed()
    if here is not None:
        return RabbitMQ(folder, here)
    if can_unpack():
        return RabbitMQ(folder, unpacked(cache_folder(root / "unpacked")))
    raise Missing("there is no rabbitmq-server, no apt to fetch it with and no running Docker engine; install rabbitmq-server")
