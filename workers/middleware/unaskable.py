"""Replace an error that cannot be asked what it is by one that can.

`isinstance` asks an error for its ``__class__`` and believes it, so an error's own code runs wherever one is looked at,
between the job and its settlement, and may raise there. What says another class than its own, or fails to say one, is
replaced where it comes in; after that only what an error says of itself in words is left to be asked with care.
"""

from __future__ import annotations

from smena.telemetry.plain_text import error_text, true_traceback


class Unaskable(Exception):
    """A job's error raises when it is looked at, or says that it is of another class than its own."""


def askable(error: BaseException) -> BaseException:
    """Return the error, or in its place an `Unaskable` with its class, its text and its traceback; never raises."""
    if _is_askable(error):
        return error
    return Unaskable(error_text(error)).with_traceback(true_traceback(error))


def _is_askable(error: BaseException) -> bool:
    try:
        return error.__class__ is type(error) and type(error.args) is tuple
    except BaseException:  # noqa: BLE001 - the seam: an error's own properties are the job's code
        return False
