"""The `smena` command: one file for each family of commands, imported only when that family is called.

The table below is the whole list. A family's file holds a click command or group under the given name; it parses
arguments and calls the room that does the work.
"""

import importlib
import io
import sys
from typing import Any, Final, NamedTuple

import click

from smena.version import __version__
from workers.supervisor.signals import hold_steering_back

INTERRUPTED: Final = 130
"""The status of a command that a Ctrl-C ended, as shells know it: 128 and SIGINT's number."""


class Family(NamedTuple):
    """Say where a command lives (`module:attribute`) and what it does, without importing it."""

    target: str
    summary: str


FAMILIES: Final[dict[str, Family]] = {
    "up": Family("workers.cli.fleet:up", "Run a fleet: one supervisor with the roles' processes."),
    "worker": Family("workers.cli.fleet:worker", "Run worker processes under a supervisor."),
    "relay": Family("workers.cli.fleet:relay", "Run the relay: outbox rows to the broker."),
    "archivist": Family("workers.cli.fleet:archivist", "Run the archivist: dead letters to rows."),
    "scheduler": Family(
        "workers.cli.fleet:scheduler", "Run the scheduler: schedules' ticks, and the janitor's upkeep."
    ),
    "health": Family("workers.cli.health:health", "Ask this machine's supervisor: ready? live? For health checks."),
    "local": Family("workers.cli.local:local", "Private RabbitMQ, PostgreSQL and Valkey for this checkout."),
    "settings": Family("workers.cli.settings:settings", "Print each setting, its value and where it came from."),
    "check": Family("workers.cli.check:check", "Check settings, books and services; errors and warnings apart."),
    "db": Family("workers.cli.db:db", "Upgrade, check and list the database's migrations."),
    "topology": Family("workers.cli.topology:topology", "Declare queues and compare them with the broker's."),
    "dead": Family("workers.cli.dead:dead", "List and show dead letters."),
    "batch": Family("workers.cli.batch:batch", "Submit work in bulk, watch it, stop it, take up what died."),
    "doctor": Family("workers.cli.doctor:doctor", "Look for what makes a fleet slow or stuck without an error."),
    "leader": Family("workers.cli.leader:leader", "See who leads what, and take a leadership away."),
    "evidence": Family("workers.cli.evidence:evidence", "Show which processes died while a job ran, and how."),
    "debug": Family("workers.cli.debug:debug", "Look into a running child: its stacks, memory, time."),
    "drill": Family("workers.cli.drill:drill", "Make faults on purpose and judge what they did."),
    "schedule": Family("workers.cli.schedule:schedule", "See what is due and what became of it; fire, pause, add."),
    "partition": Family("workers.cli.partition:partition", "Look after ordered queues: held keys, partitions."),
    "once": Family("workers.cli.once:once", "List work that is done once in a fleet's life, or run it again by name."),
    "outbox": Family("workers.cli.outbox:outbox", "Show what waits in the outbox."),
}


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


class LazyGroup(click.Group):
    """Know the commands from a table and import a command's file when it is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse what no name, key or setting can hold: bytes of the command line that are no UTF-8."""
        for place, argument in enumerate(args, start=1):
            if not _is_text(argument):
                raise click.UsageError(f"argument {place} is not UTF-8 text: {argument!a:.100}")
        return super().parse_args(ctx, args)

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        return list(FAMILIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the named command, or None for an unknown name."""
        family = FAMILIES.get(cmd_name)
        if family is None:
            return None
        module, _, attribute = family.target.partition(":")
        if module == "workers.cli.fleet":
            ctx.call_on_close(hold_steering_back())
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, for every family alike: a Ctrl-C is no fault, what a database refuses is a sentence."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from smena.store.refused import sentence  # drivers are heavy, and most commands succeed

            told = sentence(error)
            if told is None:
                raise
            raise click.ClickException(told) from error

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table alone, so that help imports no family."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, family.summary) for name, family in FAMILIES.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="smena")
def main() -> None:
    """Run and operate a Smena fleet."""
    # A setting may be a path of no UTF-8: what cannot be shown as it is comes escaped.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
