"""Look for policies that limit or expire Smena's queues: AMQP does not show them, the management API does.

A full queue stops all delays of its levels, an expired message is a lost one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote

from workers.broker.management import NO_ANSWER, get

_FORBIDDEN: Final = frozenset({"max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit"})
_TO_QUEUES: Final = frozenset({"all", "queues", "quorum_queues"})
_CONSUMER_TIMEOUT: Final = "consumer-timeout"


def refused_policies(management: str, vhost: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield queue and complaint where a policy sets a limit; nothing where no management API answers."""
    wanted = sorted(names)
    for kind in ("policies", "operator-policies"):
        try:
            policies = get(management, f"/api/{kind}/{quote(vhost, safe='')}")
        except NO_ANSWER:
            return
        for name in wanted:
            policy = _effective(policies, name)
            limits = sorted(_FORBIDDEN & set(policy["definition"])) if policy is not None else []
            if policy is not None and limits:
                yield name, f"the policy {policy['name']} gives it {', '.join(limits)}; take that out"


def told_timeout_ms(management: str, vhost: str, names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Return policy and consumer timeout by queue, where a policy sets one and a management API tells it.

    Of a policy and an operator's policy for one queue the lower value holds, as RabbitMQ merges them.
    """
    told: dict[str, tuple[str, int]] = {}
    for kind in ("policies", "operator-policies"):
        try:
            policies = get(management, f"/api/{kind}/{quote(vhost, safe='')}")
        except NO_ANSWER:
            return told
        for name in names:
            policy = _effective(policies, name)
            timeout_ms = None if policy is None else policy["definition"].get(_CONSUMER_TIMEOUT)
            if policy is not None and isinstance(timeout_ms, int):
                told[name] = min(told.get(name, (policy["name"], timeout_ms)), (policy["name"], timeout_ms), key=_value)
    return told


def _value(told: tuple[str, int]) -> int:
    return told[1]


def _effective(policies: Iterable[dict[str, Any]], queue: str) -> dict[str, Any] | None:
    """Return the policy that RabbitMQ applies: of those that match, the one with the highest priority."""
    matching = [
        policy
        for policy in policies
        if policy.get("apply-to", "all") in _TO_QUEUES and re.search(policy["pattern"], queue) is not None
    ]
    return max(matching, key=lambda policy: policy.get("priority", 0), default=None)
