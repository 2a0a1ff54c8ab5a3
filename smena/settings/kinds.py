"""Say what kinds of values a setting may hold: their units, how they are written, what is secret.

A value comes from code and TOML with its own type, from the environment and from mounted files as
text. Lists are written with commas there: ``SMENA_BOOKS=actors.sales,actors.mail``.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, parse_qs, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr, StringConstraints

from smena.queue_name import fault_of

AMQP_PARAMETERS: Final = (
    "blocked_connection_timeout",
    "channel_max",
    "client_properties",
    "connection_attempts",
    "frame_max",
    "heartbeat",
    "locale",
    "retry_delay",
    "socket_timeout",
    "ssl_options",
    "stack_timeout",
    "tcp_options",
)
"""What may follow the question mark of an AMQP address: pika's own words. Those with a setting are overridden by it."""


@dataclass(frozen=True)
class Unit:
    """Name what a number counts; shown in the reference page and by `smena settings`."""

    name: str


@dataclass(frozen=True)
class SecretValues:
    """Mark a setting whose values are never shown whole."""


def _split(value: Any) -> Any:
    """Turn text into a list: commas or new lines separate, spaces around do not count."""
    if isinstance(value, str):
        return [part.strip() for part in value.replace("\n", ",").split(",") if part.strip()]
    return value


def _parts(value: str, reads: str) -> SplitResult:
    """Take an address apart; raise an error that says how one reads, and nothing of the value."""
    try:
        parts = urlsplit(value)
        if parts.port != 0:
            return parts
    except ValueError:  # of a port or brackets, with the value in its text
        pass
    raise ValueError(f"{reads}; the port is a number from 1 to 65535")


def _amqp_url(value: SecretStr) -> SecretStr:
    reads = "an AMQP address reads amqp://user:password@host:5672/vhost"
    parts = _parts(value.get_secret_value(), reads)
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
        raise ValueError(reads)
    for name in parse_qs(parts.query, keep_blank_values=True):
        if name not in AMQP_PARAMETERS:
            raise ValueError(_no_such_parameter(name))
    return value


def _no_such_parameter(name: str) -> str:
    """Say what may stand there, but not what does: it could be the rest of a password."""
    near = get_close_matches(name, AMQP_PARAMETERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(AMQP_PARAMETERS)}"
    return f"an AMQP address has a parameter that nothing reads; {hint}"


def _database_url(value: SecretStr) -> SecretStr:
    """Name the driver in the address, whatever name it came with."""
    reads = "a database address reads postgresql://user:password@host:5432/name"
    scheme, _, rest = value.get_secret_value().partition("://")
    if not rest or scheme not in {"postgres", "postgresql", "postgresql+psycopg"}:
        raise ValueError(reads)
    _parts(value.get_secret_value(), reads)  # without a host it is the server's local socket
    return SecretStr(f"postgresql+psycopg://{rest}")


def _redis_url(value: SecretStr) -> SecretStr:
    reads = "a Redis address reads redis://:password@host:6379/0"
    parts = _parts(value.get_secret_value(), reads)
    if parts.scheme not in {"redis", "rediss", "unix"} or not (parts.hostname or parts.scheme == "unix"):
        raise ValueError(reads)
    return value


def _management_url(value: SecretStr) -> SecretStr:
    reads = "an address of RabbitMQ's management API reads http://user:password@host:15672"
    parts = _parts(value.get_secret_value(), reads)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(reads)
    return value


def _queue_name(name: str) -> str:
    if fault := fault_of(name):
        raise ValueError(fault)
    return name


Seconds = Annotated[float, Unit("s")]
WholeSeconds = Annotated[int, Unit("s")]
Bytes = Annotated[int, Unit("bytes")]

ModulePath = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")]
ModulePaths = Annotated[tuple[ModulePath, ...], BeforeValidator(_split)]
AlembicFolders = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=500)], ...], BeforeValidator(_split)
]
QueueName = Annotated[str, AfterValidator(_queue_name)]
QueueNames = Annotated[tuple[QueueName, ...], BeforeValidator(_split)]

AmqpUrl = Annotated[SecretStr, AfterValidator(_amqp_url)]
AmqpUrls = Annotated[tuple[AmqpUrl, ...], BeforeValidator(_split), SecretValues()]
ManagementUrl = Annotated[SecretStr, AfterValidator(_management_url)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database_url)]
RedisUrl = Annotated[SecretStr, AfterValidator(_redis_url)]
