"""`smena local …`: private services for this checkout."""

import os
from pathlib import Path
from typing import Final

import click

from smena.errors import SmenaError
from workers.local.services import VARIABLES, LocalServices, ServiceStatus, found_below

_FOLDER: Final = "SMENA_LOCAL_DIR"


@click.group()
def local() -> None:
    """Start and stop private RabbitMQ, PostgreSQL and Valkey.

    They live below .smena of the working directory, or below SMENA_LOCAL_DIR, on free loopback ports. A service whose
    address is given (SMENA_AMQP_URL, SMENA_DATABASE_URL, SMENA_REDIS_URL) is used as it is, unless the address is that
    of a service that lives there.
    """


@local.command()
def up() -> None:
    """Start what does not run and wait until all of it answers."""
    services = _services()
    if not all(one.ready for one in services.status()):
        click.echo(f"starting services in {services.root} ...", err=True)
    try:
        started = services.up()
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"started {', '.join(started)}" if started else "all was up already")
    _print_status(services.status())


@local.command()
def down() -> None:
    """Stop everything; data stays, no process does."""
    services = _services()
    try:
        stopped = services.down()
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
    told = f"stopped {', '.join(stopped)}; data stays" if stopped else "nothing ran"
    click.echo(f"{told} in {services.root}")
    for name in services.given:
        click.echo(f"{name} is left alone: {VARIABLES[name]} names another than that of {services.root}")
    for root in found_below(services.root):
        if root != services.root and any(one.pid for one in LocalServices(root, environ={}).status()):
            click.echo(f"others run in {root}: SMENA_LOCAL_DIR={root} smena local down")


@local.command()
def status() -> None:
    """Print how each service stands; exit status 1 when one does not answer."""
    standing = _services().status()
    _print_status(standing)
    if not all(one.ready for one in standing):
        raise click.exceptions.Exit(1)


@local.command()
def env() -> None:
    """Print the services' addresses as shell exports, for eval."""
    for name, value in _services().env().items():
        click.echo(f"export {name}='{value}'")


def _services() -> LocalServices:
    return LocalServices(Path(os.environ.get(_FOLDER) or ".smena"))


def _print_status(standing: list[ServiceStatus]) -> None:
    for one in standing:
        state = "given" if not one.ours else "up" if one.ready else "down"
        pid = f"pid {one.pid}" if one.pid else ""
        click.echo(f"{one.name:<11}{state:<6}{pid:<12}{one.url if one.ready else ''}".rstrip())
        for page, url in one.pages.items() if one.ready else ():
            click.echo(f"{'':<29}{page}: {url}")
