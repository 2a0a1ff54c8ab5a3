"""Put a proxy between a fleet and one of its services; load and judge keep their own way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from workers.drills.ground import Ground
from workers.drills.tcp_proxy import TcpProxy
from workers.local.services import VARIABLES

BROKER: Final = VARIABLES["rabbitmq"]
DATABASE: Final = VARIABLES["postgresql"]
_PORTS: Final = {BROKER: 5672, DATABASE: 5432}


@contextmanager
def proxied(ground: Ground, *variables: str) -> Iterator[dict[str, str]]:
    """Have proxies before the services whose addresses these are, and give the fleet's settings for them."""
    settings = {}
    try:
        for variable in variables:
            parts = urlsplit(ground.environ[variable].partition(",")[0])
            proxy = ground.proxies[variable] = TcpProxy(parts.hostname or "", parts.port or _PORTS[variable])
            proxy.start()
            login, at, _ = parts.netloc.rpartition("@")
            settings[variable] = urlunsplit(parts._replace(netloc=f"{login}{at}127.0.0.1:{proxy.port}"))
        yield settings
    finally:
        for proxy in ground.proxies.values():
            proxy.stop()
