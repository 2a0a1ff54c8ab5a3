"""Compare what is on the broker with what Smena declares, without changing anything.

Arguments are compared by asking to declare what is there already: the broker answers with the difference
(406). Policies cannot be seen over AMQP; they are read from the management API where there is one. A policy
that limits or expires a queue is refused: a full queue stops all delays of its levels, an expired message
is a lost one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from smena.amqp import arguments
from smena.amqp.arguments import Binding, Declaration, Exchange, Queue
from smena.amqp.faults import refused_declaration
from smena.amqp.link import Connection
from smena.amqp.names import check_address
from smena.clock import SYSTEM, Clock
from smena.errors import BrokerLost, NoQueue, SmenaError, TopologyMismatch
from smena.settings.groups import Amqp
from workers.broker.asking import Asking
from workers.broker.management import address_of
from workers.broker.policies import refused_policies
from workers.broker.targets import Targets
from workers.broker.visit import connected


@dataclass(frozen=True, slots=True)
class Difference:
    """One queue or exchange that is not there, or not as declared."""

    name: str
    kind: Literal["missing", "differs", "policy"]
    detail: str


def plan(prefix: str, queues: Iterable[str]) -> list[Declaration]:
    """Return all that a fleet with these queues declares, bindings aside: declaring them again is harmless."""
    declared = list(arguments.delays(prefix))
    for queue in queues:
        declared += arguments.work_queue(prefix, check_address(queue))
    return [one for one in declared if not isinstance(one, Binding)]


def check(settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM) -> None:
    """Raise one `TopologyMismatch` that names everything that differs; what is missing is declared later."""
    wrong = [one for one in compare_once(settings, queues, clock) if one.kind != "missing"]
    if wrong:
        found = "; ".join(f"{one.name}: {one.detail}" for one in wrong)
        raise TopologyMismatch(found, way_out="smena topology diff")


def compare_once(
    settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM, management: str | None = None
) -> list[Difference]:
    """Compare over a connection that is made for it; raise `BrokerLost` when none answers."""
    planned = plan(settings.prefix, queues)
    with connected(settings, "topology", clock) as connection:
        differences = compare(connection, planned, settings.publish_timeout_s)
    names = {one.name for one in planned if isinstance(one, Queue)}
    address = management or address_of(settings)
    refused = refused_policies(address, vhost_of(settings), names)
    return differences + [Difference(name, "policy", complaint) for name, complaint in refused]


def declare_once(settings: Amqp, queues: Sequence[str], clock: Clock = SYSTEM) -> None:
    """Declare queues and partitions with their dead letters, queues as targets of delays; raise why one cannot be."""
    names = [check_address(queue) for queue in queues]
    with connected(settings, "topology", clock) as connection:
        targets = Targets(connection, settings.prefix)
        for queue in names:
            targets.declare(queue, settings.publish_timeout_s)


def compare(connection: Connection, planned: Sequence[Declaration], timeout_s: float) -> list[Difference]:
    """Return the differences; from any thread but the link's."""
    asking = Asking(connection)
    answers: list[tuple[str, BaseException | None]] = []
    all_answered = threading.Event()

    def answer(name: str, reason: BaseException | None) -> None:
        answers.append((name, reason))
        if len(answers) == len(planned):
            all_answered.set()

    def ask_all() -> None:
        for one in planned:
            name = one.target if isinstance(one, Binding) else one.name
            asking.ask(partial(_ask, one), partial(answer, name))

    connection.thread.post(ask_all)
    if not all_answered.wait(timeout_s):
        raise BrokerLost("no answer about queues and exchanges", after_s=timeout_s)
    return [found for name, reason in answers if (found := _difference(name, reason)) is not None]


def _ask(declaration: Declaration, channel: Any, answered: Any) -> None:
    """Ask whether it is there, and only if it is, for it to be declared as it should be."""
    match declaration:
        case Queue(name, given):
            again = partial(channel.queue_declare, name, durable=True, arguments=dict(given), callback=answered)
            channel.queue_declare(name, passive=True, callback=lambda _frame: again())
        case Exchange(name, kind, given):
            again = partial(
                channel.exchange_declare, name, kind, durable=True, arguments=dict(given), callback=answered
            )
            channel.exchange_declare(name, passive=True, callback=lambda _frame: again())
        case Binding():
            answered(None)


def _difference(name: str, reason: BaseException | None) -> Difference | None:
    if reason is None:
        return None
    error: SmenaError = refused_declaration(reason, name)
    match error:
        case NoQueue():
            return Difference(name, "missing", "not on the broker; it is declared before its first use")
        case TopologyMismatch():
            facts = error.facts
            if "argument" not in facts:
                return Difference(name, "differs", error.detail)
            text = f"{facts['argument']} should be {facts['wanted']} and is {facts['actual']}"
            return Difference(name, "differs", text)
    raise error


def vhost_of(settings: Amqp) -> str:
    """Return the virtual host that the first address names."""
    return unquote(urlsplit(settings.required_urls()[0]).path[1:]) or "/"
