"""Refuse a time limit that the broker's consumer timeout would undercut (P13).

A delivery that is not settled within `consumer_timeout` is taken back, and the channel closed with all that came by it:
a job that may run longer would be started again and again. AMQP does not tell the timeout. A policy's value is read
from the management API where that answers (RabbitMQ 3.12 and newer know such policies; the node's own value it does not
tell); else the setting `amqp.consumer_timeout_s` is taken for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from smena.amqp.names import work_queue
from smena.errors import Misconfigured
from smena.settings.groups import Amqp
from workers.broker.management import address_of
from workers.broker.policies import told_timeout_ms
from workers.broker.topology_check import vhost_of


@dataclass(frozen=True, slots=True)
class Longest:
    """How long an attempt of one actor may hold its message: its time limit and the grace after it."""

    actor: str
    queue: str
    hard_s: float
    place: str


def check(settings: Amqp, runs: Iterable[Longest], management: str | None = None) -> None:
    """Raise `Misconfigured` for the first actor whose limit is not below the broker's consumer timeout."""
    limited = [run for run in runs if run.hard_s < math.inf]
    address = management or address_of(settings)
    queues = {run.queue: work_queue(settings.prefix, run.queue) for run in limited}
    told = told_timeout_ms(address, vhost_of(settings), queues.values())
    for run in limited:
        policy = told.get(queues[run.queue])
        timeout_s, source = (
            (settings.consumer_timeout_s, "the setting amqp.consumer_timeout_s")
            if policy is None
            else (policy[1] / 1000, f"the broker's policy {policy[0]}")
        )
        if 0 < timeout_s <= run.hard_s:
            raise Misconfigured(
                f"a job of {run.actor} may run {run.hard_s:g} s (time_limit and grace), but the broker takes a message "
                f"back after {timeout_s:g} s, says {source}: lower the limit or cut the job into smaller ones; or "
                f"raise consumer_timeout on the broker, and say so in that place",
                place=run.place,
            )
