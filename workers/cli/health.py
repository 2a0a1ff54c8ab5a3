"""`smena health`: ask the supervisor of this machine, as a container's health check does."""

from __future__ import annotations

import http.client
import ipaddress

import click

from smena.errors import Misconfigured
from smena.settings import load
from smena.settings.groups import Supervisor

_TIMEOUT_S = 5.0


@click.command()
@click.argument("probe", type=click.Choice(["ready", "live"]), default="ready")
@click.option(
    "--timeout-s", type=click.FloatRange(0.1, 60), default=_TIMEOUT_S, show_default=True, help="For an answer."
)
def health(probe: str, timeout_s: float) -> None:
    """Ask the supervisor here whether its fleet is `ready` (default) or `live`; end with 1 if not.

    The address is that of `supervisor.metrics_host` and `metrics_port`. Every failure ends with 1: to a container
    engine 1 means unhealthy, and 2 means nothing.
    """
    try:
        host, port = address(load().supervisor)
        status, said = _ask(host, port, f"/{probe}", timeout_s)
    except (OSError, http.client.HTTPException) as failure:
        raise click.ClickException(f"no supervisor answers: {failure}") from failure
    except Misconfigured as refusal:
        raise click.ClickException(str(refusal)) from refusal
    click.echo(said.rstrip())
    raise click.exceptions.Exit(0 if status == http.client.OK else 1)


def address(supervisor: Supervisor) -> tuple[str, int]:
    """Return where to ask; a port that serves on all addresses serves on loopback too."""
    if supervisor.metrics_port == 0:
        raise Misconfigured("the port is free to change; set SMENA_SUPERVISOR_METRICS_PORT to one that stays")
    loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (asked, not bound)
    return loopback.get(_plain(supervisor.metrics_host), supervisor.metrics_host), supervisor.metrics_port


def _plain(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _ask(host: str, port: int, path: str, timeout_s: float) -> tuple[int, str]:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()
