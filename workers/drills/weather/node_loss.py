"""SIGKILL to the node that leads the work queue, in a cluster of three under load; later it comes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from smena.amqp.names import work_queue
from workers.drills.book import QUEUE
from workers.drills.drill import Control, Drill
from workers.drills.full_rate import FullRate
from workers.drills.ground import PATIENCE_S, Ground
from workers.drills.load import LoadPlan
from workers.drills.queues import QueueView
from workers.local.cluster import Member

_LEAST = 8
_TO_THE_LOST = frozenset({"worker-0 consume", "worker-1 publish", "relay-0 publish"})
_TO_OTHERS = frozenset({"worker-1 consume", "worker-0 publish", "smena-publish"})
"""Which connections go where when the node is lost: consumers and publishers on both sides, the sender elsewhere."""

_OPEN: Final = """
SELECT count(*) FROM drill.jobs
WHERE run = %(run)s AND accepted_at < to_timestamp(%(before)s)
  AND NOT EXISTS (SELECT FROM drill.effects WHERE effects.run = %(run)s AND effects.number = jobs.number)
"""
_SLOWEST: Final = """
SELECT coalesce(max(extract(epoch FROM at - accepted_at)) FILTER (WHERE attempts = 1), 0)::float8,
       coalesce(max(extract(epoch FROM at - accepted_at)) FILTER (WHERE attempts > 1), 0)::float8
FROM drill.jobs JOIN drill.effects USING (run, number)
WHERE run = %(run)s AND at > to_timestamp(%(since)s)
"""
_FULL_RATE_S = 10.0


@contextmanager
def clustered(ground: Ground) -> Iterator[Mapping[str, str]]:
    """Have a cluster in the broker's place, for fleet, sender and judge, and end it with the drill."""
    cluster, before = ground.services.cluster, ground.queues
    prefix = ground.environ["SMENA_AMQP_PREFIX"]
    try:
        cluster.up()
        given = {"SMENA_AMQP_URL": cluster.url}
        ground.sends_to = {**ground.sends_to, **given}
        ground.queues = lambda: QueueView(cluster.nodes[0].url, prefix, [QUEUE], cluster.held)
        yield given
    finally:
        ground.queues = before
        cluster.down()


def fault(ground: Ground) -> None:
    """Kill the leader's node while workers are full; the old rate must be there within 10 s. Then start it again."""
    cluster = ground.services.cluster
    lost = led_by(ground)
    ground.until(lambda: cluster.place(lost, _TO_THE_LOST, _TO_OTHERS), "connections to go to all nodes", PATIENCE_S)
    rate = FullRate(ground)
    running = ground.full()
    lost.kill()
    ground.strike(len(running))
    struck = ground.sight.now()
    try:
        again_s = rate.again(ground, struck, _FULL_RATE_S * 3)
        ground.bar("full rate again after the kill, s", again_s, _FULL_RATE_S)
    finally:
        lost.start()
    back = ground.sight.now()
    ground.until(lambda: ground.sight.rows(_OPEN, before=back) == [(0,)], "the jobs from before the node's return")
    ground.bar("all jobs from before the node's return ended, s", ground.sight.now() - back, _FULL_RATE_S)
    ground.notes["led by, before and after"] = f"{lost.node}, {led_by(ground).node}"
    ground.until(ground.fleet.is_ready, "the fleet to be ready")
    note_slowest(ground, struck)


def led_by(ground: Ground) -> Member:
    """Wait until all nodes hold the work queue, and return the one that leads it."""
    queue = work_queue(ground.environ["SMENA_AMQP_PREFIX"], QUEUE)
    leaders: list[Member] = []

    def held_by_all() -> bool:
        leader = ground.services.cluster.leader(queue)
        leaders.extend([] if leader is None else [leader])
        return bool(leaders)

    ground.until(held_by_all, "all nodes to hold the queue", PATIENCE_S)
    return leaders[0]


def note_slowest(ground: Ground, since: float) -> None:
    """Note how long jobs had to wait: retries may be held by the broker until the node is back."""
    [(slowest_s, retry_s)] = ground.sight.rows(_SLOWEST, since=since)
    ground.notes["slowest job, s"] = round(slowest_s, 1)
    ground.notes["slowest job with a retry, s"] = round(retry_s, 1)
    ground.notes["longest time without an end, s"] = longest_pause(ground, since)


def longest_pause(ground: Ground, since: float) -> float:
    """Return the longest time since then in which no job ended."""
    ends = [since, *(at for at in ground.sight.ended_at() if at > since)]
    return round(max((later - sooner for sooner, later in pairwise(ends)), default=0.0), 3)


DRILL = Drill(
    name="node-loss",
    group="weather",
    summary="SIGKILL to the leader's node of a cluster of three under load; it comes back",
    fault=fault,
    least_bite=_LEAST,
    destructive=True,
    private=True,
    load=LoadPlan(ahead=400),
    around=clustered,
    controls=(Control("no-once-key", "doubled"),),
)
