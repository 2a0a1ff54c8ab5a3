"""Make a child's files in the supervisor's folder, or refuse in one sentence: the folder is full, or gone."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class FolderRefused(Exception):
    """Say that a child can keep no files in the supervisor's folder, and why; it is worth another try later."""


@contextmanager
def refusal_named(folder: Path) -> Iterator[None]:
    """Raise `FolderRefused` for an `OSError`."""
    try:
        yield
    except OSError as failure:
        raise FolderRefused(f"no file of a child can be made in {folder}: {failure.strerror}") from failure


def map_new_file(path: Path, size: int) -> mmap.mmap:
    """Make a file of ``size`` zeros and map it for writing; raises `FolderRefused`.

    All its room is taken here: a store to a page for which the disk has none would be SIGBUS.
    """
    with refusal_named(path.parent):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
            return mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
