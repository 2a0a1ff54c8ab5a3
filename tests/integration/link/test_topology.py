"""What is on the broker is compared with what is declared, and a difference is one clear error (P18, P55)."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from smena.amqp import arguments, names
from smena.amqp.arguments import Exchange, Queue
from smena.errors import BrokerLost, TopologyMismatch
from tests.fixtures.fix_shell import Shell
from tests.integration.link.conftest import Broker, Settle
from workers.broker.topology_check import check, compare_once, declare_once
from workers.cli import main
from workers.local.services import LocalServices


def management(services: LocalServices, amqp_url: str) -> str:
    return services.rabbitmq.pages()["management"].replace("http://", "http://guest:guest@")


def test_what_was_declared_is_as_declared(settings: Settle, broker: Broker, queue: str) -> None:
    missing = [one for one in compare_once(settings(), [queue]) if queue in one.name]
    assert {one.kind for one in missing} == {"missing"}
    declare_once(settings(), [queue])
    assert compare_once(settings(), [queue]) == []
    check(settings(), [queue])


def test_comparing_creates_nothing(settings: Settle, broker: Broker, queue: str) -> None:
    compare_once(settings(), [queue])
    assert {one.kind for one in compare_once(settings(), [queue])} == {"missing"}


def test_p55_differences_are_told_together_with_both_values_and_the_way_out(
    settings: Settle, broker: Broker, queue: str
) -> None:
    dead, work = names.dead_queue("test", queue), names.work_queue("test", queue)
    broker.channel().queue_declare(dead, durable=True)
    given = next(dict(one.arguments) for one in arguments.work_queue("test", queue) if one.name == work)  # type: ignore[union-attr]
    broker.channel().queue_declare(work, durable=True, arguments={**given, "x-delivery-limit": 3})
    with pytest.raises(TopologyMismatch) as caught:
        check(settings(), [queue])
    told = str(caught.value)
    assert f"{work}: x-delivery-limit should be 2147483647 and is 3" in told
    assert dead in told
    assert "smena topology diff" in told


def test_a_policy_that_limits_a_queue_is_refused(
    settings: Settle, broker: Broker, queue: str, services: LocalServices, amqp_url: str
) -> None:
    declare_once(settings(), [queue])
    work = names.work_queue("test", queue)
    services.rabbitmq.ctl("set_policy", queue, f"^{work}$", '{"max-length": 10}', "--apply-to", "queues")
    try:
        found = compare_once(settings(), [queue], management=management(services, amqp_url))
    finally:
        services.rabbitmq.ctl("clear_policy", queue)
    assert [(one.name, one.kind) for one in found] == [(work, "policy")]
    assert "max-length" in found[0].detail


def test_no_broker_is_said_so(settings: Settle) -> None:
    nobody = settings(urls=("amqp://guest:guest@127.0.0.1:1",), connect_timeout_s=0.3)
    with pytest.raises(BrokerLost):
        check(nobody, [])


def test_the_commands_declare_and_compare(shell: Shell, amqp_url: str, broker: Broker, queue: str) -> None:
    shell.set(amqp_url=amqp_url, amqp_prefix="test")
    run = CliRunner().invoke
    assert run(main, ["topology", "diff", queue]).exit_code == 0
    assert run(main, ["topology", "declare", queue]).output == f"declared {queue}\n"
    as_declared = run(main, ["topology", "diff", queue])
    assert (as_declared.exit_code, as_declared.output) == (0, "as declared\n")
    work = names.work_queue("test", queue)
    broker.channel().queue_delete(work)
    broker.channel().queue_declare(work, durable=True)
    differs = run(main, ["topology", "diff", queue])
    assert differs.exit_code == 1
    assert f"differs  {work}" in differs.output


@pytest.mark.parametrize("command", ["declare", "diff"])
@pytest.mark.parametrize(("name", "why"), [("a b", "1 to 127 letters"), ("mail.dead", "one of Smena's own")])
def test_what_can_be_no_queues_name_is_wrong_usage(command: str, name: str, why: str) -> None:
    refused = CliRunner().invoke(main, ["topology", command, name])
    assert refused.exit_code == 2
    assert why in refused.output
    assert "configured" not in refused.output


def test_every_queue_is_held_for_ever_and_dead_letters_have_somewhere_to_go() -> None:
    plan = (*arguments.delays("p"), *arguments.work_queue("p", "q"))
    exchanges = {one.name for one in plan if isinstance(one, Exchange)}
    for one in plan:
        if not isinstance(one, Queue):
            continue
        assert one.arguments["x-queue-type"] == "quorum"
        assert not {"x-max-length", "x-max-length-bytes", "x-expires"} & set(one.arguments)
        if "x-message-ttl" in one.arguments:
            assert one.arguments["x-dead-letter-strategy"] == "at-least-once"
            assert one.arguments["x-dead-letter-exchange"] in exchanges
        else:
            assert one.arguments["x-delivery-limit"] == arguments.NO_LIMIT
