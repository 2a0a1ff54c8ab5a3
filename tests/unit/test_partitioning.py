"""Ordered actors: what may be declared, and where their jobs go."""

from dataclasses import dataclass
from typing import Any

import pytest

from smena.amqp import arguments, codec, names
from smena.book import Book, Registry, by_name
from smena.book.actor import Actor
from smena.book.partitioning import Partitioning
from smena.errors import InvalidArguments, Misconfigured, Misdeclared, Misused, Unsendable
from smena.job import Job
from smena.keyspace import partition_of
from smena.outbox import columns


@dataclass
class Move:
    sku: str
    quantity: int


def move(move: Move) -> None: ...


def count(sku: str, *, by: int = 1) -> None: ...


def ordered(fn: Any, key: Any, **said: Any) -> Actor[..., Any]:
    return Actor(fn, book="stock", queue="stock", partitioning=Partitioning(key, **said))


def test_the_sender_computes_key_and_partition_from_checked_arguments() -> None:
    actor = ordered(move, lambda move: move.sku, partitions=8)

    job = actor.message({"sku": "85123A", "quantity": "2"})

    assert (job.queue, job.partition_key, job.partition) == ("stock", "85123A", partition_of("85123A", 8))
    assert ordered(count, lambda sku: sku).message("x", by=2).partition == partition_of("x", 32)


def test_by_name_a_key_and_the_number_of_partitions_are_given() -> None:
    job = by_name("stock.move", queue="stock").keyed(7, partitions=32).message({"sku": "a"})

    assert (job.partition_key, job.partition) == ("7", partition_of("7", 32))


@pytest.mark.parametrize("key", [None, "", "x" * 256, "nul\0", 1.5])
def test_a_job_without_a_key_that_can_travel_is_refused_to_its_sender(key: Any) -> None:
    with pytest.raises((InvalidArguments, Unsendable)):
        ordered(count, lambda: key).message("x")


@pytest.mark.parametrize("said", [{"partitions": 0}, {"partitions": 5000}, {"partitions": True}, {"on_dead": "retry"}])
def test_what_cannot_be_is_refused_at_the_declaration(said: Any) -> None:
    with pytest.raises(Misdeclared):
        ordered(count, lambda sku: sku, **said)


def test_a_partition_function_that_does_not_fit_says_so_by_its_own_name() -> None:
    with pytest.raises(Misdeclared, match="`partition_by` asks for 'code'"):
        ordered(count, lambda code: code)


def test_a_queue_is_cut_the_same_way_by_all_its_actors() -> None:
    def registry(*actors: Actor[..., Any]) -> Registry:
        book = Book("stock")
        for actor in actors:
            book._actors[actor.name] = actor
        return Registry([book])

    first, second = ordered(count, lambda sku: sku), ordered(move, lambda move: move.sku)
    assert registry(first, second).partitions == {"stock": 32}
    for other in (ordered(move, lambda move: move.sku, partitions=4), Actor(move, book="stock", queue="stock")):
        with pytest.raises(Misdeclared, match="the same `partitions`, or none"):
            registry(first, other)


def test_a_queue_may_not_be_named_like_a_partition() -> None:
    with pytest.raises(Misconfigured, match="Smena's own"):
        Book("b").actor(queue="stock.p07")(count)
    with pytest.raises(Misconfigured, match="Smena's own"):
        names.check_queue_name("stock.p07")
    assert names.check_queue_name("stock.p7") == "stock.p7"


@pytest.mark.parametrize("partition", [None, 0, 7, 99, 100, 4095])
def test_a_partitions_name_tells_queue_and_partition(partition: int | None) -> None:
    assert names.parts(names.address("eu.stock", partition)) == ("eu.stock", partition)


def test_a_partition_has_one_consumer_and_shares_its_queues_dead_letters() -> None:
    dead, queue = arguments.work_queue("smena", "stock.p07")
    plain = arguments.work_queue("smena", "stock")

    assert dead == plain[0]
    assert (dead.name, queue.name) == ("smena.stock.dead", "smena.stock.p07")  # type: ignore[union-attr]
    assert queue.arguments == {**plain[1].arguments, "x-single-active-consumer": True}  # type: ignore[union-attr]


def test_what_lies_in_a_partition_is_a_job_of_its_queue() -> None:
    wire = codec.encode(ordered(count, lambda sku: sku).message("x"))

    job = codec.decode(wire.body, wire.properties, "stock.p03")

    assert (job.queue, job.partition, job.partition_key) == ("stock", 3, "x")


def test_an_outbox_row_of_an_ordered_job_names_its_partition_and_its_order() -> None:
    actor = ordered(count, lambda sku: sku)
    jobs = [actor.message("x"), Job(actor="a.b", queue="q", timestamp_ms=1), actor.message("k" * 255)]

    values = columns.of(jobs, 0.0, None)

    assert values["queues"] == [f"stock.p{partition_of('x', 32):02d}", "q", f"stock.p{partition_of('k' * 255, 32):02d}"]
    assert values["ordering_keys"][:2] == ["stock:x", None]
    assert len(values["ordering_keys"][2]) <= 255


def test_an_ordered_job_cannot_be_delayed() -> None:
    with pytest.raises(Unsendable, match="cannot be delayed"):
        columns.of([ordered(count, lambda sku: sku).message("x")], 5.0, None)


@pytest.mark.parametrize("partitions", [0, 5000, "4", True])
def test_a_number_of_partitions_that_cannot_be_is_refused_by_name_too(partitions: Any) -> None:
    with pytest.raises(Misused, match="from 1 to 4096"):
        by_name("stock.move", queue="stock").keyed(7, partitions=partitions)


@pytest.mark.parametrize(
    "key", ["", "k" * 256, 10**5000, 1.5, True, None, "\ud800"], ids=lambda key: type(key).__name__
)
def test_a_key_that_cannot_travel_is_refused_by_name_too(key: Any) -> None:
    with pytest.raises(Unsendable):
        by_name("stock.move", queue="stock").keyed(key, partitions=32).message(1)
