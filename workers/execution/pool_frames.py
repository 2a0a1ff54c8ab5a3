"""Carry a CPU step to a pool process and its answer back: pickled, bounded, one frame each way.

A frame is a kind (one byte), a length (eight) and that many bytes. Both ends are of one build and one user, and a
step comes from an actor's own code: nothing that came from a queue is unpickled here that the actor did not hand over.
"""

from __future__ import annotations

import enum
import pickle
import struct
from collections.abc import Callable
from typing import Any, Final

from smena.errors import NotPicklable, OutOfMemory, StepFailed, StepTooLarge
from smena.telemetry.plain_text import error_text
from workers.middleware.evidence import of_error
from workers.middleware.unaskable import askable

HEAD: Final = struct.Struct("!cQ")

_TEXT_CUT: Final = 16_000


class Kind(bytes, enum.Enum):
    """What a frame holds."""

    CALL = b"C"
    RESULT = b"R"
    ERROR = b"E"
    FAILURE = b"F"
    UNPICKLABLE = b"P"
    TOO_LARGE = b"L"
    OUT_OF_MEMORY = b"M"


class _Bounded:
    """Take what a pickler writes, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.parts: list[bytes] = []
        self._left = limit

    def write(self, data: bytes | memoryview) -> int:
        """Keep a copy of the data; raise `StepTooLarge` beyond the limit, before more is made."""
        size = memoryview(data).nbytes
        self._left -= size
        if self._left < 0:
            raise StepTooLarge
        self.parts.append(bytes(data))
        return size


def request(fn: Callable[..., Any], args: tuple[Any, ...], most_bytes: int) -> bytes:
    """Return the frame of a call; raise `NotPicklable` or `StepTooLarge`."""
    try:
        return _frame(Kind.CALL, _pickled((fn, args), most_bytes))
    except StepTooLarge:
        raise StepTooLarge(step=name_of(fn), what="arguments", most_bytes=most_bytes) from None
    except Exception as error:
        raise NotPicklable(error_text(error), step=name_of(fn), what="function or arguments") from error


def answer(call: bytes | bytearray, most_bytes: int) -> bytes:
    """Run the step of a call's body and return the frame that says what came of it; for the pool process."""
    try:
        fn, args = pickle.loads(call)  # noqa: S301 - from the worker that forked us
    except MemoryError:
        return _frame(Kind.OUT_OF_MEMORY, b"")
    except Exception as error:  # noqa: BLE001 - the seam: told to the caller
        return _frame(Kind.UNPICKLABLE, _text("function or arguments", error))
    try:
        result = fn(*args)
    except MemoryError:
        return _frame(Kind.OUT_OF_MEMORY, b"")
    except BaseException as error:  # noqa: BLE001 - the seam: the process goes on, the caller gets the error
        return _raised(askable(error), most_bytes)
    try:
        return _frame(Kind.RESULT, _pickled(result, most_bytes))
    except StepTooLarge:
        return _frame(Kind.TOO_LARGE, b"result")
    except MemoryError:
        return _frame(Kind.OUT_OF_MEMORY, b"")
    except Exception as error:  # noqa: BLE001 - whatever a `__reduce__` raises
        return _frame(Kind.UNPICKLABLE, _text("result", error))


def value(kind: bytes, body: bytes | bytearray, step: str, most_bytes: int) -> Any:
    """Return the result that an answer holds, or raise what it says."""
    match Kind(kind):
        case Kind.RESULT:
            try:
                return pickle.loads(body)  # noqa: S301 - from a process of our own
            except Exception as error:
                raise NotPicklable(error_text(error), step=step, what="result") from error
        case Kind.ERROR:
            raised, trace = pickle.loads(body)  # noqa: S301 - tried in the pool process
            raised.add_note(trace)
            raise raised
        case Kind.OUT_OF_MEMORY:
            raise OutOfMemory(step=step)
        case Kind.TOO_LARGE:
            raise StepTooLarge(step=step, what=bytes(body).decode(), most_bytes=most_bytes)
        case Kind.UNPICKLABLE:
            raise NotPicklable(bytes(body).decode(errors="replace"), step=step)
        case _:
            raise StepFailed(bytes(body).decode(errors="replace"), step=step)


def name_of(fn: Callable[..., Any]) -> str:
    """Return how a step is called in errors and events."""
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', type(fn).__qualname__)}"


def _raised(error: BaseException, most_bytes: int) -> bytes:
    """Carry the error itself where that can be done, else its text; one that ends a process ends only the step."""
    trace = "in a pool process:\n" + of_error(error, "").traceback[-_TEXT_CUT:]
    if isinstance(error, Exception):
        try:
            body = _pickled((error.with_traceback(None), trace), most_bytes)
            if type(pickle.loads(body)[0]) is type(error):  # noqa: S301 - our own; many errors do not survive it
                return _frame(Kind.ERROR, body)
        except BaseException as fault:  # noqa: BLE001 - whatever an error's own code raises: then its text must do
            trace += f"\nand the error could not be carried: {error_text(fault)}"
    return _frame(Kind.FAILURE, f"{error_text(error)}\n{trace}".encode(errors="replace"))


def _pickled(content: object, most_bytes: int) -> bytes:
    held = _Bounded(most_bytes)
    pickle.Pickler(held, pickle.HIGHEST_PROTOCOL).dump(content)
    return b"".join(held.parts)


def _text(what: str, error: BaseException) -> bytes:
    return f"{what}: {error_text(error)}".encode(errors="replace")


def _frame(kind: Kind, body: bytes) -> bytes:
    return HEAD.pack(kind.value, len(body)) + body
