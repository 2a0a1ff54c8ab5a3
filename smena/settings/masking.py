"""Show a secret value without its secret."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

MASK = "**********"


def masked(value: Any) -> str:
    """Return text fit for a screen: of an address its host and name, of any other secret nothing."""
    if isinstance(value, SecretStr):
        return _masked_address(value.get_secret_value())
    if isinstance(value, tuple | list):
        return ", ".join(masked(item) for item in value)
    return "" if value is None else str(value)


def _masked_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return MASK
    if not host:
        return MASK
    user = f"{parts.username or ''}:{MASK}@" if parts.password else f"{parts.username}@" if parts.username else ""
    place = f"{host}:{port}" if port else host
    return f"{parts.scheme}://{user}{place}{parts.path}"  # a query may hold a password too: left out
