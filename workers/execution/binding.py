"""Bind the loaded books' actors to this process: each gets its policy and its chain of rings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smena.book import Registry
from smena.book.retry import RetryDefaults
from smena.book.time_limit import LimitDefaults, time_policy
from smena.errors import Misconfigured
from workers.middleware.actor import call_actor, call_actor_async
from workers.middleware.bound import BoundActor
from workers.middleware.once import OnceRing
from workers.middleware.rings import Ring, compose, compose_async


def bind_actors(
    registry: Registry,
    defaults: RetryDefaults,
    outer: Sequence[Ring],
    once: OnceRing | None,
    limits: LimitDefaults,
) -> Mapping[str, BoundActor]:
    """Return every actor by each of its names.

    ``outer`` are the rings that stand round every actor; the once ring joins where it is needed. Actors that declare
    no time limit have the one of ``limits``.
    Raises `Misconfigured` when an actor needs PostgreSQL and there is none.
    """
    bound: dict[str, BoundActor] = {}
    for actor in registry.actors():
        made = BoundActor(actor, actor.retry.policy(defaults), time_policy(actor.time_limit, limits))
        rings = (*outer, _needed(once, made, actor.place)) if made.needs_transaction else tuple(outer)
        if made.is_async:
            made.async_call = compose_async(rings, call_actor_async)
        else:
            made.call = compose(rings, call_actor)
        for name in (actor.name, *actor.aliases):
            bound[name] = made
    return bound


def _needed(once: OnceRing | None, actor: BoundActor, place: str) -> OnceRing:
    if once is None and actor.partitions is not None:
        raise Misconfigured(
            "an actor with `partition_by` needs PostgreSQL: set SMENA_DATABASE_URL", actor=actor.name, place=place
        )
    if once is None:
        raise Misconfigured(
            "an actor with `once` or a session needs PostgreSQL: set SMENA_DATABASE_URL", actor=actor.name, place=place
        )
    return once
