"""`smena topology …`: declare queues, and compare them with the broker's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from smena import settings as sources
from smena.amqp.names import addresses, check_address
from smena.book import load_books
from smena.errors import Misconfigured, SmenaError
from smena.keyspace import MOST_PARTITIONS
from smena.settings import Settings
from workers.broker.topology_check import compare_once, declare_once
from workers.cli.kinds import ManagementUrl
from workers.wiring.user_path import open_user_path

T = TypeVar("T")


def _checked(_context: click.Context, _parameter: click.Parameter, queues: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what can be no queue's name as one of what was typed: the process is configured well."""
    for queue in queues:
        try:
            check_address(queue)
        except Misconfigured as refusal:
            raise click.BadParameter(f"{refusal.detail}: {queue!r}") from refusal
    return queues


@click.group()
def topology() -> None:
    """Declare queues and compare them with the broker's."""
    _or_complain(lambda: open_user_path(Path.cwd()))  # the books say which queues there are


@topology.command()
@click.argument("queues", nargs=-1, required=True, callback=_checked)
@click.option(
    "--partitions", type=click.IntRange(1, MOST_PARTITIONS), help="They are ordered queues, cut into so many."
)
def declare(queues: tuple[str, ...], partitions: int | None) -> None:
    """Declare QUEUES with their dead letters and as targets of delays.

    For clients that publish without Smena: Smena's own publishers and workers declare what they use.
    """
    settings = _or_complain(sources.load)
    places = addresses(queues, dict.fromkeys(queues, partitions or 0))
    _or_complain(lambda: declare_once(settings.amqp, places))
    click.echo(f"declared {', '.join(queues)}")


@topology.command()
@click.argument("queues", nargs=-1, callback=_checked)
@click.option("--management", type=ManagementUrl(), help="The management API (default: amqp.management_url).")
def diff(queues: tuple[str, ...], management: str | None) -> None:
    """Compare what is declared with what is on the broker; exit status 1 when something differs.

    Without QUEUES those of the loaded books, and the setting worker.queues, are compared.
    """
    settings = _or_complain(sources.load)
    chosen = _or_complain(lambda: _known(settings, queues))
    found = _or_complain(lambda: compare_once(settings.amqp, chosen, management=management))
    for one in found:
        click.echo(f"{one.kind:8} {one.name}: {one.detail}")
    if any(one.kind != "missing" for one in found):
        click.echo(
            "\nArguments of a queue cannot be changed. Stop what publishes to it, let its workers empty it, delete it "
            "(the next to use it declares it anew); or give this fleet another amqp.prefix and let workers of both "
            "prefixes run until the old queues are empty."
        )
        raise click.exceptions.Exit(1)
    if not found:
        click.echo("as declared")


def _known(settings: Settings, queues: Sequence[str]) -> list[str]:
    registry = load_books(settings.books)
    return addresses(sorted(queues or {*registry.queues(), *settings.worker.queues}), registry.partitions)


def _or_complain(call: Callable[[], T]) -> T:
    try:
        return call()
    except SmenaError as error:
        raise click.ClickException(str(error)) from error
