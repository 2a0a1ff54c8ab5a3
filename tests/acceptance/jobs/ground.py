"""What the actors share: their book, the folder of the cues, and the table `effects` (key, actor, attempt, process)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from pydantic import BaseModel

import smena
from smena import Context

POLL_S = 0.02

CREATE = "CREATE TABLE effects (key text, actor text, attempt int, pid int)"
EFFECT = sa.text("INSERT INTO effects VALUES (:key, :actor, :attempt, :pid)")


class Place(BaseModel):
    """Where cues are given."""

    folder: Path


def _refuse_to_load() -> None:
    """Stand for a book that a pool's server cannot load, while the cue `pool-is-broken` stands."""
    folder = os.environ.get("SMENA_APP_FOLDER")
    if sys.argv[0].endswith("wiring/pool.py") and folder and (Path(folder) / "pool-is-broken").exists():
        raise RuntimeError("the pool is to be broken")


_refuse_to_load()
book = smena.Book("jobs")


@book.resource
def place() -> Iterator[Path]:
    """Give the folder of the cues, and leave a mark when closed."""
    folder = smena.app_settings(Place).folder
    yield folder
    (folder / f"closed-{os.getpid()}").touch()


def values(ctx: Context, key: str) -> dict[str, object]:
    return {"key": key, "actor": ctx.actor, "attempt": ctx.attempt, "pid": os.getpid()}


def _lives(pid: str) -> bool:
    """Say whether a process may still run code of its own: one that is ending has let go of its files before."""
    try:
        return any(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def second_time(ctx: Context, key: str) -> bool:
    """Say whether the job ran before; the first time leave the process's id, the second what became of it."""
    mark = ctx.resource(place) / f"first-{key}"
    if not mark.exists():
        mark.write_text(str(os.getpid()), encoding="ascii")
        return False
    lives = _lives(mark.read_text(encoding="ascii"))
    (ctx.resource(place) / f"second-{key}").write_text("beside the first" if lives else "after the first")
    return True
