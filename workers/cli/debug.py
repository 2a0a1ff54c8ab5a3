"""`smena debug …`: look into a running child of a supervisor on this machine."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import click

from smena.errors import Misconfigured
from smena.settings import load
from smena.telemetry.plain_text import visible
from workers.cli.kinds import FiniteRange
from workers.cli.terminal import say_lines
from workers.supervisor import probe, whereabouts
from workers.supervisor.whereabouts import Whereabouts

_SHOWN = 15
_TARGET = click.argument("target", metavar="TARGET")
_STATE_DIR = click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="The supervisor's folder; by default `supervisor.state_dir`, or all of this user's.",
)


@click.group()
def debug() -> None:
    """Look into a running child: TARGET is its process id, its post (such as worker-0) or a job that it runs."""


@debug.command()
@_TARGET
@_STATE_DIR
def stacks(target: str, state_dir: Path | None) -> None:
    """Print where each thread is, with the job that it runs."""
    child = _find(target, state_dir)
    try:
        say_lines(_jobs(child) + probe.stacks(child).rstrip())
    except probe.NoAnswer as failure:
        raise click.ClickException(str(failure)) from failure


@debug.command()
@_TARGET
@_STATE_DIR
@click.option("--seconds", type=FiniteRange(0, 3600), default=0, help="Look again after so long: what has grown?")
def memory(target: str, state_dir: Path | None, seconds: float) -> None:
    """Print what the process holds: memory in KiB, threads, descriptors."""
    child = _find(target, state_dir)
    try:
        before = probe.memory(child)
        time.sleep(seconds)
        now = probe.memory(child) if seconds else before
    except probe.NoAnswer as failure:
        raise click.ClickException(str(failure)) from failure
    for name, value in now.items():
        grown = f"  {value - before.get(name, 0):+d}" if seconds else ""
        click.echo(f"{name:<14}{value:>10}{grown}")


@debug.command()
@_TARGET
@_STATE_DIR
@click.option("--seconds", type=FiniteRange(0.5, 3600), default=5, show_default=True, help="How long to look.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write all stacks here, as flame graph tools read them.",
)
def profile(target: str, state_dir: Path | None, seconds: float, output: Path | None) -> None:
    """Print where the threads were most often, waiting included."""
    if output is not None and not output.absolute().parent.is_dir():
        raise click.BadParameter(f"there is no folder {output.parent}", param_hint="'--output'")
    child = _find(target, state_dir)
    try:
        samples = probe.profile(child, seconds)
    except probe.NoAnswer as failure:
        raise click.ClickException(str(failure)) from failure
    if output is not None:
        _save(output, "".join(f"{stack} {count}\n" for stack, count in samples.most_common()))
    innermost: Counter[str] = Counter()
    for stack, count in samples.items():
        innermost[stack.rpartition(";")[2]] += count
    total = sum(innermost.values())
    for call, count in innermost.most_common(_SHOWN):
        click.echo(f"{100 * count / total:5.1f} %  {call}")


def _save(output: Path, text: str) -> None:
    try:
        output.write_text(text)
    except OSError as error:
        raise click.ClickException(f"{output} cannot be written: {error.strerror}") from error


def _find(target: str, state_dir: Path | None) -> Whereabouts:
    try:
        among = whereabouts.folders(state_dir or load().supervisor.state_dir)
    except Misconfigured as refusal:
        raise click.ClickException(str(refusal)) from refusal
    found = whereabouts.find(target, among)
    if not found:
        raise click.ClickException(f"no child of a supervisor here is, or runs, {target}")
    if len(found) > 1:
        several = "".join(f"\n  {child.pid} of the supervisor in {child.folder}" for child in found)
        raise click.ClickException(f"{target} names several; give a process id, or --state-dir:{several}")
    return found[0]


def _jobs(child: Whereabouts) -> str:
    now = time.time()
    lines = [
        f"  slot {job.slot} runs {visible(job.actor)} {visible(job.job_id)} "
        f"attempt {job.attempt} for {now - job.since:.1f} s"
        for job in child.running()
    ]
    return "\n".join((f"{child.post or 'leaving'}, process {child.pid}", *lines, "", ""))
