"""Judge a whole configuration: values that do not fit each other, or do not belong in production.

What is right for a developer's machine (well-known passwords, no encryption) is refused in the
profile `production`, so that it cannot come there by oversight.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from smena.settings.finding import Finding, error, warning
from smena.settings.model import Settings

KNOWN_PASSWORDS = frozenset(
    {"guest", "smena", "postgres", "rabbitmq", "redis", "password", "secret", "changeme", "test"}
)
DEVELOPMENT_MARK = "development"
"""A password with this word in it says itself that it is not for production."""


def judge(settings: Settings) -> list[Finding]:
    """Return all that is wrong or unwise, errors first."""
    findings = [*_misfits(settings), *_leaderless(settings), *_gaps(settings)]
    if settings.profile == "production":
        findings += [*_unsafe(settings), *_unwise(settings)]
    return sorted(findings, key=lambda finding: finding.level)


def _misfits(settings: Settings) -> Iterator[Finding]:
    """Yield pairs of values that contradict each other."""
    retry, supervisor, outbox, database = settings.retry, settings.supervisor, settings.outbox, settings.database
    if retry.base_s > retry.cap_s:
        yield error("retry.base_s", f"is above retry.cap_s ({retry.base_s:g} > {retry.cap_s:g})")
    if supervisor.restart_base_s > supervisor.restart_cap_s:
        yield error("supervisor.restart_base_s", "is above supervisor.restart_cap_s")
    if outbox.poll_s > outbox.lease_s:
        yield error("outbox.poll_s", "is above outbox.lease_s: a claim would lapse between two looks")
    if database.idle_in_transaction_s >= outbox.lease_s:
        yield error(
            "database.idle_in_transaction_s", "must be below outbox.lease_s, else a frozen relay blocks the next"
        )
    if database.lock_timeout_s > database.statement_timeout_s:
        yield error("database.lock_timeout_s", "is above database.statement_timeout_s and could never act")
    if settings.amqp.publish_timeout_s >= settings.amqp.consumer_timeout_s:
        yield error("amqp.publish_timeout_s", "must be below amqp.consumer_timeout_s")


def _leaderless(settings: Settings) -> Iterator[Finding]:
    """Yield what would leave the fleet without a leader for longer than it says."""
    leadership = settings.leadership
    if settings.database.idle_in_transaction_s >= leadership.lease_s:
        yield error(
            "database.idle_in_transaction_s", "must be below leadership.lease_s, else a frozen leader blocks the next"
        )
    if leadership.retry_s > leadership.lease_s / 3:
        yield error("leadership.retry_s", "must be at most a third of leadership.lease_s")
    if leadership.backend == "redis" and settings.redis.url is None:
        yield error("leadership.backend", "is redis, which has no address (SMENA_REDIS_URL)")


def _gaps(settings: Settings) -> Iterator[Finding]:
    """Yield what is not set, with the features that miss it."""
    if not settings.amqp.urls:
        yield warning("amqp.urls", "not set: nothing can be sent or worked on (SMENA_AMQP_URL)")
    if settings.database.url is None:
        yield warning("database.url", "not set: no outbox, no `once`, no dead-letter rows (SMENA_DATABASE_URL)")
    if settings.redis.url is None:
        yield warning("redis.url", "not set: limits hold for each host alone (SMENA_REDIS_URL)")
    if not settings.books:
        yield warning("books", "not set: workers know no actors (SMENA_BOOKS)")


def _addresses(settings: Settings) -> Iterator[tuple[str, str]]:
    yield from (("amqp.urls", url.get_secret_value()) for url in settings.amqp.urls)
    if settings.database.url is not None:
        yield "database.url", settings.database.url.get_secret_value()
    if settings.leadership.database_url is not None:
        yield "leadership.database_url", settings.leadership.database_url.get_secret_value()
    if settings.redis.url is not None:
        yield "redis.url", settings.redis.url.get_secret_value()


def _unsafe(settings: Settings) -> Iterator[Finding]:
    for key, address in _addresses(settings):
        password = unquote(urlsplit(address).password or "")
        if password.lower() in KNOWN_PASSWORDS or DEVELOPMENT_MARK in password.lower():
            yield error(key, "holds a well-known or development password, which profile production refuses")
    if settings.telemetry.log_level == "debug":
        yield error("telemetry.log_level", "debug writes a line for each job; profile production refuses it")


def _unwise(settings: Settings) -> Iterator[Finding]:
    for key, address in _addresses(settings):
        parts = urlsplit(address)
        if parts.scheme in {"amqp", "redis"} and not _is_loopback(parts.hostname or ""):
            yield warning(key, f"goes over the network without encryption; use {parts.scheme}s://")
    if not _is_loopback(settings.supervisor.metrics_host):
        yield warning("supervisor.metrics_host", "metrics and probes can be read by anyone who reaches this address")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
