"""Say of a failure what a dead letter keeps: class, text, traceback, fingerprint.

The fingerprint is the same for failures that have one cause: it is made of the error's class and the
place in the innermost frame that belongs to nobody's library, not of its text, which holds ids.
"""

from __future__ import annotations

import hashlib
import os
import sysconfig
import traceback
from dataclasses import dataclass
from pathlib import Path

from smena.telemetry.plain_text import true_traceback, type_name

_LIBRARY_DIRS = tuple(
    {os.path.realpath(path) + os.sep for path in sysconfig.get_paths().values() if path != sysconfig.get_path("data")}
)
_FRAMES_KEPT = 30
_FINGERPRINT_CHARS = 16


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a failure, as text; the sizes are cut where it is written."""

    error_class: str
    error_text: str
    traceback: str
    fingerprint: str


class Reported(Exception):
    """A failure of which another process has told; its evidence was collected there."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(f"{evidence.error_class}: {evidence.error_text}".removesuffix(": "))
        self.evidence = evidence


def of_error(error: BaseException | None, reason: str) -> Evidence:
    """Collect the evidence of an error; without one, of the reason alone. Never raises."""
    if error is None:
        return Evidence("", "", "", _digest(reason))
    if type(error) is Reported:
        return error.evidence
    kind = _kind(error)
    return Evidence(kind, _text(error), _trace(error), _digest(f"{kind}@{_place(error)}"))


def of_crash(error: BaseException, kind: str, last_words: str) -> Evidence:
    """Return the evidence of a crash, which has no traceback: ``last_words`` are what its process left.

    The fingerprint is the same for crashes of one ``kind``.
    """
    return Evidence(_kind(error), _text(error), last_words, _digest(kind))


def _kind(error: BaseException) -> str:
    try:
        return f"{type(error).__module__}.{type(error).__qualname__}"
    except BaseException:  # noqa: BLE001 - the seam: a class's own class is user code
        return type_name(error)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - the seam: an error's own __str__ is user code
        return f"<{type_name(error)}: its text raised {type_name(broken)}>"


def _trace(error: BaseException) -> str:
    try:
        lines = traceback.format_exception(type(error), error, true_traceback(error), limit=-_FRAMES_KEPT)
    except BaseException as broken:  # noqa: BLE001 - the seam: formatting calls user code, such as __repr__ and __str__
        return f"<no traceback: formatting it raised {type_name(broken)}>"
    return "".join(lines)


def _place(error: BaseException) -> str:
    """Return ``file:function`` of the innermost frame outside every library, else of the innermost."""
    place = innermost = ""
    for frame, _ in traceback.walk_tb(true_traceback(error)):
        code = frame.f_code
        innermost = f"{Path(code.co_filename).name}:{code.co_name}"
        if not os.path.realpath(code.co_filename).startswith(_LIBRARY_DIRS):
            place = innermost
    return place or innermost


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_FINGERPRINT_CHARS]
