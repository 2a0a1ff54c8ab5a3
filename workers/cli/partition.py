"""`smena partition …`: the keys of ordered queues that wait, and the number of partitions."""

from __future__ import annotations

import click

from workers.cli.partition_keys import keys, release, resize, skip
from workers.cli.partition_owners import list_groups, owners


@click.group()
def partition() -> None:
    """Look after ordered queues: held keys, partitions."""


partition.add_command(list_groups)
partition.add_command(owners)
partition.add_command(keys)
partition.add_command(release)
partition.add_command(skip)
partition.add_command(resize)
