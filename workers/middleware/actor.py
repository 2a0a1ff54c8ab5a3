"""Call the actor's function: the innermost step, where the job's own code begins."""

from __future__ import annotations

from typing import Any

from workers.middleware.attempt import Attempt
from workers.middleware.outcome import DONE, Done


def call_actor(attempt: Attempt) -> Done:
    """Call a plain actor with what it asks for, then its arguments."""
    attempt.began = True
    actor = attempt.actor
    if actor.injects:
        result = actor.fn(*_injected(attempt), *attempt.args, **attempt.kwargs)
    else:
        result = actor.fn(*attempt.args, **attempt.kwargs)
    return DONE if result is None else Done(result)


async def call_actor_async(attempt: Attempt) -> Done:
    """Call an async actor with what it asks for, then its arguments."""
    attempt.began = True
    result = await attempt.actor.fn(*_injected(attempt), *attempt.args, **attempt.kwargs)
    return DONE if result is None else Done(result)


def _injected(attempt: Attempt) -> tuple[Any, ...]:
    """Return the context and the session, as far as the actor asks for them."""
    return tuple(attempt.context if wanted == "context" else attempt.session for wanted in attempt.actor.injects)
