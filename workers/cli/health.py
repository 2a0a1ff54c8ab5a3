"""`smena health`: ask the supervisor that runs here, as a container's health check does, and no other.

In development a default port that is taken makes way for a free one; so the default port may be another fleet's, and
only the state file of a fleet says which port is its own. A port that somebody chose is the fleet's or refuses to boot.
"""

from __future__ import annotations

import http.client
import ipaddress
from pathlib import Path

import click

from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.settings.groups import Supervisor
from workers.cli.kinds import FiniteRange
from workers.supervisor.whereabouts import folders, living

_TIMEOUT_S = 5.0


@click.command()
@click.argument("probe", type=click.Choice(["ready", "live"]), default="ready")
@click.option("--timeout-s", type=FiniteRange(0.1, 60), default=_TIMEOUT_S, show_default=True, help="For an answer.")
def health(probe: str, timeout_s: float) -> None:
    """Ask the supervisor here whether its fleet is `ready` (default) or `live`; end with 1 if not.

    With `supervisor.state_dir` set it is the one of that folder; else, with `metrics_port` set, the one at that port;
    else the one that was started in the current folder. Every failure ends with 1: to a container engine 1 means
    unhealthy, and 2 means nothing.
    """
    try:
        host, port = address(load())
        status, said = _ask(host, port, f"/{probe}", timeout_s)
    except (OSError, http.client.HTTPException) as failure:
        raise click.ClickException(f"no supervisor answers: {failure}") from failure
    except Misconfigured as refusal:
        raise click.ClickException(str(refusal)) from refusal
    click.echo(said.rstrip())
    raise click.exceptions.Exit(0 if status == http.client.OK else 1)


def address(settings: Settings) -> tuple[str, int]:
    """Return where to ask; a port that serves on all addresses serves on loopback too."""
    chosen = settings.supervisor
    if chosen.state_dir is None and "supervisor.metrics_port" in settings.sources and chosen.metrics_port:
        host, port = chosen.metrics_host, chosen.metrics_port
    else:
        host, port = _told(chosen)
    loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (asked, not bound)
    return loopback.get(_plain(host), host), port


def _told(chosen: Supervisor) -> tuple[str, int]:
    """Return host and port that the state file of this folder's fleet names."""
    here = Path.cwd()
    fleets = [state for _, state in living(folders(chosen.state_dir))]
    if chosen.state_dir is None:
        fleets = [state for state in fleets if state.get("cwd") == str(here)]
    if not fleets:
        raise ConnectionError(f"no fleet of {chosen.state_dir or here} runs")
    if len(fleets) > 1:
        ports = ", ".join(str(state["metrics"]["port"]) for state in fleets)
        raise Misconfigured(f"{len(fleets)} supervisors run here; set SMENA_SUPERVISOR_METRICS_PORT to one of {ports}")
    [metrics] = [state["metrics"] for state in fleets]
    return metrics["host"], metrics["port"]


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
