"""Choose loopback ports that nobody uses, and keep them for the next start.

They come from below the range that the kernel hands to outgoing connections: a client that reconnects to a dead
service could otherwise be given the service's own port, and talk to itself.
"""

import json
import random
import socket
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from smena.clock import SYSTEM, Deadline
from workers.local.patience import wait_until

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 15_000
_USUAL_EPHEMERAL_START: Final = 32_768
_EPHEMERAL_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LET_GO_S: Final = 2.0
_TRIES: Final = 1_000


def keep_ports(file: Path, names: Sequence[str]) -> dict[str, int]:
    """Return a free port for each name: those in ``file`` when they are all free, else new ones, written there."""
    kept = read_ports(file)
    if set(kept) == set(names) and _become_free(kept.values()):
        return kept
    chosen = dict(zip(names, _choose(len(names)), strict=True))
    file.write_text(json.dumps(chosen), encoding="ascii")
    return chosen


def read_ports(file: Path) -> dict[str, int]:
    """Return the ports written in ``file``; none when there is no such file or it is not whole."""
    try:
        return {str(name): int(port) for name, port in json.loads(file.read_text(encoding="ascii")).items()}
    except (FileNotFoundError, ValueError):
        return {}


def _become_free(ports: Collection[int]) -> bool:
    """Say whether all ports are free, or are so soon: the last threads of a killed server may still hold them."""
    return wait_until(lambda: all(_is_free(port) for port in ports), Deadline.within(_LET_GO_S, SYSTEM))


def _choose(count: int) -> list[int]:
    chosen: set[int] = set()
    highest = _ephemeral_start() - 1
    for _ in range(_TRIES):
        if len(chosen) == count:
            break
        port = random.randint(_LOWEST, highest)  # noqa: S311 - spread, not secrecy
        if _is_free(port):
            chosen.add(port)
    return sorted(chosen)


def _ephemeral_start() -> int:
    try:
        start = int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_EPHEMERAL_START
    return start if start > _LOWEST + 1_000 else _USUAL_EPHEMERAL_START


def _is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # What every server does; without it the closing states of earlier connections would count as use.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
