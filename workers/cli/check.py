"""`smena check`: would this boot, and what will not work?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from smena.amqp.names import addresses
from smena.book import Registry, load_books
from smena.clock import SYSTEM
from smena.errors import SmenaError
from smena.schedules.keeping import check_declared
from smena.settings import Finding, Settings, examine
from smena.settings.finding import error, warning
from smena.store import migrations
from smena.store.database import Database
from smena.store.migrations import Part
from smena.store.refused import refusals
from workers.broker import consumer_timeout, topology_check
from workers.broker.visit import connected
from workers.cli.settings import sources
from workers.middleware.bound import BoundActor
from workers.wiring.role import check_rights, check_schema
from workers.wiring.user_path import open_user_path
from workers.wiring.worker import longest_runs, wanted_queues


@click.command()
@sources
@click.option("--offline", is_flag=True, help="Ask no service, only look at settings and books.")
@click.pass_context
def check(context: click.Context, profile: str | None, config: Path | None, offline: bool) -> None:
    """Check settings, books and services as a fleet does at boot.

    Errors, warnings and what was found in order are printed apart. Ends with 2 if there is an error. Resources, and
    the settings under `app` that they read, are not opened.
    """
    examined = examine(profile=profile, toml_path=config)
    report = Report(list(examined.findings))
    if examined.settings is not None:
        _look(report, examined.settings, offline=offline)
    errors = [finding for finding in report.findings if finding.level == "error"]
    warnings = [finding for finding in report.findings if finding.level == "warning"]
    _section("errors", errors)
    _section("warnings", warnings)
    _section("checked", report.checked)
    click.echo(f"{len(errors)} error(s), {len(warnings)} warning(s)")
    context.exit(2 if errors else 0)


@dataclass
class Report:
    """What is wrong, and what was looked at and found in order."""

    findings: list[Finding]
    checked: list[str] = field(default_factory=list)

    @contextmanager
    def refusals_of(self, key: str) -> Iterator[None]:
        """Take an error of ours, or a refusal of the database's, as one about this setting."""
        try:
            with refusals():
                yield
        except SmenaError as refusal:
            self.findings.append(error(key, str(refusal)))


def _look(report: Report, settings: Settings, *, offline: bool) -> None:
    registry = _books(report, settings)
    if not settings.amqp.urls:
        told = "not set: nothing can be sent or worked on (SMENA_AMQP_URL)"
        report.findings = [finding for finding in report.findings if finding.key != "amqp.urls"]
        report.findings.append(error("amqp.urls", told))
    if offline:
        return
    if settings.amqp.urls:
        _broker(report, settings, registry)
        if registry is not None:
            _time_limits(report, settings, registry)
    if settings.database.url is not None:
        _database(report, settings)


def _books(report: Report, settings: Settings) -> Registry | None:
    """Import the books as a worker would, and see that their actors have what they need."""
    registry = None
    with report.refusals_of("books"):
        open_user_path(Path.cwd())
        registry = load_books(settings.books)
        if settings.books:
            queues = wanted_queues(registry, settings.worker.queues)
            _needs(report, settings, registry)
            check_declared(registry)
            told = f"{len(registry.actors())} actor(s) on {', '.join(queues) or 'no queue'}"
            report.checked.append(f"books: {', '.join(settings.books)}: {told}")
    return registry


def _needs(report: Report, settings: Settings, registry: Registry) -> None:
    """Tell of actors that need a database where there is none.

    A schedule is a warning: workers boot without, and only `smena scheduler`, which fires it, does not.
    """
    if settings.database.url is not None:
        return
    for actor in registry.actors():
        if BoundActor(actor, actor.retry.policy(settings.retry)).needs_transaction:
            what = "`once` or a session" if actor.partitions is None else "`partition_by`"
            told = f"actor {actor.name} has {what} and needs PostgreSQL; set SMENA_DATABASE_URL"
            report.findings.append(error("database.url", f"{told} ({actor.place})"))
        elif actor.schedule is not None:
            told = f"the schedule of actor {actor.name} fires only with PostgreSQL; set SMENA_DATABASE_URL"
            report.findings.append(warning("database.url", f"{told} ({actor.place})"))


def _broker(report: Report, settings: Settings, registry: Registry | None) -> None:
    """Log in to one of the broker's nodes, and compare the queues that are there with those that are declared."""
    with report.refusals_of("amqp.urls"):
        with connected(settings.amqp, "check", SYSTEM) as connection:
            version = connection.server_version
        report.checked.append(f"broker: RabbitMQ {version}")
        if registry is not None:
            queues = sorted({*registry.queues(), *settings.worker.queues})
            topology_check.check(settings.amqp, addresses(queues, registry.partitions))
            report.checked.append(
                f"queues: those of prefix {settings.amqp.prefix} are as declared, or still to be made"
            )


def _time_limits(report: Report, settings: Settings, registry: Registry) -> None:
    """See that the broker takes no message back while its job may still run."""
    queues = settings.worker.queues or registry.queues()
    with report.refusals_of("worker.time_limit_s"):
        consumer_timeout.check(settings.amqp, longest_runs(registry, queues, settings.worker))
        report.checked.append("time limits: below the broker's consumer timeout")


def _database(report: Report, settings: Settings) -> None:
    """Reach the database, compare its schema with this build, and see that a process would work on it."""
    with report.refusals_of("database.url"), closing(Database(settings.database, "check", 1)) as database:
        is_there = True
        for state in migrations.check(settings.database.libpq_url(), settings.migrations):
            if state.due(Part.BEFORE):
                how = "is too old" if state.applied else "is not there"
                report.findings.append(error("database.url", f"schema {state.folder} {how}; run `smena db upgrade`"))
                is_there = False
            elif state.pending:
                told = f"schema {state.folder} has after-deploy steps to come; run `smena db upgrade`"
                report.findings.append(warning("database.url", told))
            else:
                last = state.applied[-1].id if state.applied else "without revisions"
                newer = f", and {', '.join(state.unknown)} of a newer build" if state.unknown else ""
                report.checked.append(f"database: schema {state.folder} at {last}{newer}")
        if is_there:
            check_schema(database)
            check_rights(database)


def _section(title: str, lines: Sequence[object]) -> None:
    if lines:
        click.echo(f"{title}:")
        click.echo("\n".join(f"  {line}" for line in lines) + "\n")
