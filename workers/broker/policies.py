"""Look for policies that limit or expire Smena's queues: AMQP does not show them, the management API does.

A full queue stops all delays of its levels, an expired message is a lost one.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

_FORBIDDEN: Final = frozenset({"max-length", "max-length-bytes", "message-ttl", "expires", "delivery-limit"})
_TO_QUEUES: Final = frozenset({"all", "queues", "quorum_queues"})
_CONSUMER_TIMEOUT: Final = "consumer-timeout"
_API_S: Final = 2.0
_PORT: Final = 15672


def refused_policies(management: str, vhost: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield queue and complaint where a policy sets a limit; nothing where no management API answers."""
    wanted = sorted(names)
    for kind in ("policies", "operator-policies"):
        try:
            policies = _get(management, f"/api/{kind}/{quote(vhost, safe='')}")
        except (urllib.error.URLError, TimeoutError, ValueError):
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
            policies = _get(management, f"/api/{kind}/{quote(vhost, safe='')}")
        except (urllib.error.URLError, TimeoutError, ValueError):
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


def _get(management: str, path: str) -> Any:
    parts = urlsplit(management)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("the management API is spoken over http or https")
    login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
    request = urllib.request.Request(  # noqa: S310  (the scheme is checked above)
        f"{parts.scheme}://{parts.hostname}:{parts.port or _PORT}{path}",
        headers={"Authorization": "Basic " + b64encode(login.encode()).decode()},
    )
    with urllib.request.urlopen(request, timeout=_API_S) as answer:  # noqa: S310
        return json.load(answer)


def likely_management(url: str) -> str:
    """Guess: the same host and login, at the port that the plugin takes by default."""
    parts = urlsplit(url)
    login = f"{parts.username}:{parts.password}@" if parts.username else ""
    return f"http://{login}{parts.hostname}:{_PORT}"
