"""`smena worker`, `relay`, `archivist`, `scheduler` and `up`: run a supervisor with the roles' processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

from smena.errors import Misconfigured
from smena.settings import Settings, load
from smena.settings.environment import choose_file
from workers.cli.settings import sources
from workers.process.exits import Exit
from workers.supervisor.lifespan import Lifespan
from workers.supervisor.post import Role
from workers.wiring.supervisor import Ending, run_supervisor

ROLES: Final[dict[str, Callable[[Settings], Role]]] = {
    "worker": lambda settings: Role(
        "worker",
        "workers.wiring.worker",
        settings.worker.processes,
        forked=True,
        most=settings.worker.processes_max,
        lifespan=Lifespan(settings.worker.max_jobs, settings.worker.max_memory_mib, settings.worker.max_age_s),
    ),
    "relay": lambda _settings: Role("relay", "workers.wiring.relay"),
    "archivist": lambda _settings: Role("archivist", "workers.wiring.archivist"),
    "scheduler": lambda _settings: Role("scheduler", "workers.wiring.scheduler"),
}
NEED_DATABASE: Final = frozenset({"relay", "archivist", "scheduler"})

Command = Callable[..., None]


def _worker_options(command: Command) -> Command:
    """Add the options that stand for settings of the group `worker`, and for the books."""
    for option in reversed(
        (
            click.option("--queues", metavar="A,B", help="Queues to work on; all of the loaded books by default."),
            click.option("--processes", type=int, help="Worker processes."),
            click.option("--threads", type=int, help="Threads of one process, which run plain actors."),
            click.option("--concurrency", type=int, help="Async actors that one process runs at once."),
            click.option("--books", metavar="A.B,C", help="Modules that hold the books of actors."),
            click.option(
                "--no-preload",
                "preload",
                flag_value=False,
                default=None,
                help="Import the books in each worker after its fork, not once before: for code that opens things.",
            ),
        )
    ):
        command = option(command)
    return command


def _shared_options(command: Command) -> Command:
    """Add the options that every fleet command has."""
    metrics_port = click.option("--metrics-port", type=int, help="Port of metrics and probes; 0 takes a free one.")
    return sources(metrics_port(command))


@click.command()
@_worker_options
@_shared_options
def worker(**options: Any) -> None:
    """Run worker processes under a supervisor."""
    _run(["worker"], options)


@click.command()
@_shared_options
def relay(**options: Any) -> None:
    """Run the relay under a supervisor."""
    _run(["relay"], options)


@click.command()
@_shared_options
def archivist(**options: Any) -> None:
    """Run the archivist under a supervisor."""
    _run(["archivist"], options)


@click.command()
@_shared_options
def scheduler(**options: Any) -> None:
    """Run the scheduler and the janitor under a supervisor."""
    _run(["scheduler"], options)


@click.command()
@click.option("--roles", metavar="A,B", help=f"Roles to run: {', '.join(ROLES)}; all that can run by default.")
@_worker_options
@_shared_options
def up(roles: str | None, **options: Any) -> None:
    """Run a fleet: one supervisor with the roles' processes."""
    _run(None if roles is None else [name.strip() for name in roles.split(",")], options)


def _run(names: Sequence[str] | None, options: dict[str, Any]) -> None:
    if config := options.pop("config"):
        choose_file(config)
    overrides = _overrides(options)
    try:
        settings = load(overrides)
        roles = [ROLES[name](settings) for name in _known(names, settings)]
        ending = run_supervisor(roles, settings, overrides)
    except Misconfigured as refusal:
        ending = Ending(Exit.MISCONFIGURED, str(refusal))
    if ending.refusal:
        click.echo(f"smena: {ending.refusal}", err=True)
    raise click.exceptions.Exit(ending.code)


def _overrides(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that options stand for, by key; options that were not given are left out."""
    keys = {"books": "books", "profile": "profile", "metrics_port": "supervisor.metrics_port"}
    named = {keys.get(name, f"worker.{name}"): value for name, value in options.items()}
    return {key: value for key, value in named.items() if value is not None}


def _known(names: Sequence[str] | None, settings: Settings) -> Sequence[str]:
    """Check the roles that were asked for; without any, choose those that can run with what is set."""
    if names is None:
        return [name for name in ROLES if settings.database.url is not None or name not in NEED_DATABASE]
    strange = [name for name in names if name not in ROLES]
    if strange:
        raise Misconfigured(f"no such role: {', '.join(strange)}; there are {', '.join(ROLES)}")
    return names
