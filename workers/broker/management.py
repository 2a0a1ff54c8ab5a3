"""Ask RabbitMQ's management API what AMQP does not tell, where there is one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from smena.settings.groups import Amqp

_API_S: Final = 2.0
_PORT: Final = 15672

NO_ANSWER: Final = (urllib.error.URLError, TimeoutError, ConnectionError, ValueError)
"""What `get` raises where no management API answers."""


def get(management: str, path: str) -> Any:
    """Return the JSON that the API has at ``path``; raise one of `NO_ANSWER`."""
    parts = urlsplit(management)
    if parts.scheme not in {"http", "https"}:
        raise ValueError("the management API is spoken over http or https")
    login = f"{unquote(parts.username or 'guest')}:{unquote(parts.password or 'guest')}"
    request = urllib.request.Request(  # noqa: S310  (the scheme is checked above)
        f"{parts.scheme}://{place(management)}{path}",
        headers={"Authorization": "Basic " + b64encode(login.encode()).decode()},
    )
    with urllib.request.urlopen(request, timeout=_API_S) as answer:  # noqa: S310
        return json.load(answer)


def queue_names(management: str, vhost: str) -> list[str] | None:
    """Return the names of all queues of a virtual host, or None where no management API answers."""
    try:
        return [queue["name"] for queue in get(management, f"/api/queues/{quote(vhost, safe='')}?columns=name")]
    except NO_ANSWER:
        return None


def address_of(settings: Amqp) -> str:
    """Return where the API is, with its login: by the setting, or a guess, host and login at the plugin's own port."""
    if settings.management_url is not None:
        return settings.management_url.get_secret_value()
    parts = urlsplit(settings.required_urls()[0])
    login = f"{parts.username}:{parts.password}@" if parts.username else ""
    return f"http://{login}{parts.hostname}:{_PORT}"


def place(management: str) -> str:
    """Return host and port of the API, without the login."""
    parts = urlsplit(management)
    return f"{parts.hostname}:{parts.port or _PORT}"
