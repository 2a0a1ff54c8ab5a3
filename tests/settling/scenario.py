"""One course of events through every outcome, to be struck at each of its steps in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.settling.world import Post, World

SCRIPTS = (["fail", "done"], ["bug", "dead"], ["later", "done"])


def play(world: World, prepare: Callable[[Post], object], scripts: Sequence[list[str]] = SCRIPTS) -> None:
    """Let one process begin with jobs, each sent twice, and the fleet bring them to their ends.

    ``prepare`` arms the fault in that process.
    """
    for script in scripts:
        world.send(script, copies=2)
    world.send_raw(0)
    world.send_raw(1)
    prepare(world.posts[0])
    for _ in range(3):
        world.cycle(0)
        world.pass_time(3.0)
    world.heal()
    world.check_end()
