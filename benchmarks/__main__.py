"""`./run bench …`: measure Smena beside other systems in one run, interleaved, every round proven."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from benchmarks import claims, cpu, drain, latency, once, outbox, partitions, publish, systems
from benchmarks.ground import Ground, prepared
from benchmarks.report import Report
from benchmarks.systems import System
from workers.process.ending import Ending

Measure = Callable[[Sequence[System], Ground, int, int], Report]


@click.group()
def main() -> None:
    """Measure Smena beside other systems: all durable, one worker process with eight threads, one broker.

    Rounds are interleaved, figures are medians. Each round proves itself, and one more is killed half way
    and must lose nothing. A system that stalls is reported and stops nobody else.
    """


def _bench(measure: Measure, field: Sequence[System], jobs: int, help_: str) -> None:
    """Add one bench as a command with the options that all have."""
    name = measure.__module__.rpartition(".")[2]

    @main.command(name, help=help_)
    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object as the last line of stdout.")
    @click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of each system.")
    @click.option("--jobs", type=click.IntRange(min=200), default=jobs, show_default=True, help="Jobs of a round.")
    @click.option("--only", metavar="A,B", help=f"Systems to measure, of {', '.join(one.name for one in field)}.")
    def command(as_json: bool, rounds: int, jobs: int, only: str | None) -> None:
        chosen = _chosen(field, only)
        with prepared() as ground:
            try:
                report = measure(chosen, ground, jobs, rounds)
            finally:
                for system in field:
                    ground.forget(system)
        report.print(as_json=as_json)
        raise click.exceptions.Exit(1 if report.broken() else 0)


def _chosen(field: Sequence[System], only: str | None) -> Sequence[System]:
    if only is None:
        return field
    names = [name.strip() for name in only.split(",")]
    strange = set(names) - {system.name for system in field}
    if strange:
        raise click.BadParameter(f"not measured here: {', '.join(sorted(strange))}", param_hint="--only")
    return [system for system in field if system.name in names]


_bench(drain.measure, systems.DRAIN, 40_000, "Work off a full queue of no-op jobs: jobs a second.")
_bench(publish.measure, systems.PUBLISH, 40_000, "Send, each message confirmed: messages a second, and one send's p50.")
_bench(latency.measure, systems.LATENCY, 500, "From the call to send to the start of the job: idle and at half load.")
_bench(outbox.measure, systems.OUTBOX, 20_000, "From commit to confirm by one relay: rows a second, a lone row's wait.")
_bench(once.measure, systems.ONCE, 10_000, "Jobs that insert one row with a once key: jobs a second.")
_bench(claims.measure, systems.CLAIMS, 200_000, "A batch of no-op items from open to complete: items a second.")
_bench(
    partitions.measure, systems.PARTITIONS, 40_000, "Ordered jobs beside unordered, and how partitions change hands."
)
_bench(cpu.measure, cpu.SYSTEMS, 400, "CPU jobs of 50 ms: share of the cores; a pool call beside bare pebble.")


def run(*arguments: Any) -> None:
    """Run the command line."""
    with Ending():
        main(*arguments, prog_name="./run bench")


if __name__ == "__main__":
    run()
