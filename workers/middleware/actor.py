"""Call the actor's function: the innermost step, where the job's own code begins."""

from __future__ import annotations

import os
from os import getpid
from typing import Any, NoReturn

from smena.book.injection import Injected
from workers.middleware.attempt import Attempt
from workers.middleware.outcome import DONE, Done
from workers.middleware.time_limit import in_time, in_time_async
from workers.middleware.unaskable import askable


def call_actor(attempt: Attempt) -> Done:
    """Call a plain actor with what it asks for, then its arguments; until its time is up, where that is limited."""
    due_s = attempt.due_s
    return _called(attempt) if due_s is None else in_time(attempt, due_s, _called)


async def call_actor_async(attempt: Attempt) -> Done:
    """Call an async actor; the twin of `call_actor`."""
    due_s = attempt.due_s
    return await (_called_async(attempt) if due_s is None else in_time_async(attempt, due_s, _called_async))


def _called(attempt: Attempt) -> Done:
    attempt.began = True
    actor = attempt.target
    pid = getpid()
    try:
        if actor.injects:
            result = actor.fn(*_injected(attempt, actor.injects), *attempt.args, **attempt.kwargs)
        else:
            result = actor.fn(*attempt.args, **attempt.kwargs)
    except BaseException as error:
        plain = askable(error)
        if getpid() != pid:
            _end_fork(plain)
        if plain is not error:
            raise plain from None
        raise
    if getpid() != pid:
        _end_fork(None)
    return DONE if result is None else Done(result)


async def _called_async(attempt: Attempt) -> Done:
    attempt.began = True
    actor = attempt.target
    pid = getpid()
    try:
        result = await actor.fn(*_injected(attempt, actor.injects), *attempt.args, **attempt.kwargs)
    except BaseException as error:
        plain = askable(error)
        if getpid() != pid:
            _end_fork(plain)
        if plain is not error:
            raise plain from None
        raise
    if getpid() != pid:
        _end_fork(None)
    return DONE if result is None else Done(result)


def _end_fork(error: BaseException | None) -> NoReturn:
    """End a child that the actor forked and that came out of the actor's function, by whatever way.

    The job is its parent's: a child that went on would settle it too, and speak on the parent's sockets.
    """
    status = 0 if error is None else 1
    try:
        code = error.code if isinstance(error, SystemExit) else None
        if isinstance(code, int):
            status = code & 0xFF
        else:
            os.write(2, b"smena: a process that an actor forked left the actor's function; it ends here\n")
    finally:
        os._exit(status)


def _injected(attempt: Attempt, injects: tuple[Injected, ...]) -> tuple[Any, ...]:
    """Return the context and the session, as far as they are asked for."""
    return tuple(attempt.context if wanted == "context" else attempt.session for wanted in injects)
