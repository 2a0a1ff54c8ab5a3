"""Choose where RabbitMQ comes from: this machine, else Debian's packages unpacked, else a Docker engine."""

from functools import partial
from pathlib import Path
from typing import Final

from workers.local.cluster import Cluster
from workers.local.container import RabbitMQContainer, has_engine
from workers.local.faults import Missing
from workers.local.installation import Installation, installed
from workers.local.rabbitmq import RabbitMQ
from workers.local.unpacked import cache_folder, can_unpack, unpacked

UNPACKED: Final = "unpacked"
"""Folder for the broker's programs where the user has no cache of their own."""


def choose_rabbitmq(root: Path) -> RabbitMQ | RabbitMQContainer:
    """Return the broker below ``root``; nothing is fetched before it is started."""
    folder = root / "rabbitmq"
    if installed() is None and not can_unpack() and has_engine():
        return RabbitMQContainer(folder)
    return RabbitMQ(folder, partial(_find, root / UNPACKED))


def three_nodes(root: Path) -> Cluster:
    """Return a cluster below ``root``, of this machine's RabbitMQ or the unpacked one; never of containers."""
    return Cluster(root / "cluster", partial(_find, root / UNPACKED))


def _find(cache: Path) -> Installation:
    """Return the programs, unpacked into the user's cache or ``cache``; raises `Missing` with what to install."""
    here = installed()
    if here is not None:
        return here
    if can_unpack():
        return unpacked(cache_folder(cache))
    raise Missing(
        "there is no rabbitmq-server here, no apt to fetch it with, and no Docker engine that answers; "
        "install the package rabbitmq-server, or set SMENA_AMQP_URL to a RabbitMQ that runs"
    )
