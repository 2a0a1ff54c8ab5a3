"""Publish a shop's sales: the service that uses Smena from outside the fleet.

    python -m examples.shop.publisher FILE

Reads the file once, in bounded memory. Each line becomes a job `sales.record` and a job `stock.apply`, sent
straight to the broker and confirmed; when the file has ended, each invoice becomes an order and, through the
outbox of the same transaction, a job `payments.charge`. The actors' code is not needed here: they are named.

The stock's moves are one ordered stream: this process alone sends them, in the file's order, and those of the
next lines only when all before were taken over.

The jobs of every twentieth line are sent twice under one id, and so are, from the outbox, every twentieth charge and
mail, until stdin closes. On stdout each line is one JSON object that says how far it is; the first with
`"published": true` means that everything was accepted.

Run again on the same database, it sends the lines again under new ids, which the actors' `once` keys
absorb, and leaves the orders that are there as they are.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import psycopg

import smena
from examples.shop import retail_file
from examples.shop.copies import EVERY, Copies
from examples.shop.orders import Orders
from examples.shop.retail_line import Rejected, RetailLine
from smena.backoff import Backoff, Pause
from smena.book import by_name, send_many
from smena.clock import SYSTEM, Deadline
from smena.errors import Refused, SmenaError, Transient
from smena.job import Job
from smena.settings import load

RECORD: Final = by_name("sales.record", queue="sales")
APPLY: Final = by_name("stock.apply", queue="stock")
STOCK_PARTITIONS: Final = 32
"""As `stock.apply` declares them."""

_CHUNK: Final = 1_000
_LOOK_S: Final = 0.5
_GIVE_UP_S: Final = 60.0
_REJECTED_SHOWN: Final = 5

_T = TypeVar("_T")


@dataclass
class Progress:
    """How far the publisher is; ``copies`` were sent of ``lines`` and of the ``relayed`` charges and what follows."""

    lines: int = 0
    rejected: int = 0
    orders: int = 0
    copies: int = 0
    relayed: int = 0
    published: bool = False

    def tell(self) -> None:
        """Write one line to stdout."""
        print(json.dumps(asdict(self)), flush=True)


def publish(path: Path, connection: psycopg.Connection, progress: Progress) -> None:
    """Publish the whole file; when this returns every job was accepted."""
    orders = Orders(connection)
    for chunk in _chunks(retail_file.read(path), _CHUNK):
        lines = [entry for entry in chunk if isinstance(entry, RetailLine)]
        _refuse([entry for entry in chunk if isinstance(entry, Rejected)], progress)
        orders.keep(lines)
        accepted(_jobs(lines, progress))
        progress.tell()
    for placed in orders.place():
        progress.orders += placed
        progress.tell()
    progress.published = True
    progress.tell()


def accepted(jobs: Sequence[Job]) -> None:
    """Send until each job is confirmed; raise what cannot pass, or what has not passed within a minute.

    Where a job of an ordered queue has failed, those behind it have failed too: sent again, all keep the order.
    """
    deadline, pause = Deadline.within(_GIVE_UP_S, SYSTEM), Pause(Backoff(base_s=0.2, cap_s=3.0, floor_s=0.05))
    while jobs:
        failures = [(job, error) for job, error in zip(jobs, send_many(jobs), strict=True) if error is not None]
        _raise_hopeless([error for _, error in failures], deadline)
        jobs = [job for job, _ in failures]
        if jobs:
            time.sleep(min(pause.next_s(), deadline.left_s()))


def _raise_hopeless(errors: Iterable[SmenaError], deadline: Deadline) -> None:
    for error in errors:
        if not isinstance(error, Transient) or deadline.passed():
            raise error


def _jobs(lines: Iterable[RetailLine], progress: Progress) -> list[Job]:
    """Return the lines' jobs in the order of the lines, those of every twentieth line twice."""
    jobs: list[Job] = []
    for line in lines:
        of_line = (_sale(line), _move(line))
        progress.lines += 1
        jobs += of_line
        if progress.lines % EVERY == 0:
            jobs += of_line
            progress.copies += len(of_line)
    return jobs


def _sale(line: RetailLine) -> Job:
    return RECORD.message(
        {
            "number": line.number,
            "invoice": line.invoice,
            "stock_code": line.stock_code,
            "quantity": line.quantity,
            "unit_price": str(line.unit_price),
        }
    )


def _move(line: RetailLine) -> Job:
    of_code = APPLY.keyed(line.stock_code, partitions=STOCK_PARTITIONS)
    return of_code.message({"line": line.number, "stock_code": line.stock_code, "quantity": line.quantity})


def _refuse(rejected: Sequence[Rejected], progress: Progress) -> None:
    for entry in rejected:
        progress.rejected += 1
        if progress.rejected <= _REJECTED_SHOWN:
            print(f"line {entry.number} is refused: {entry.reason}", file=sys.stderr, flush=True)


def send_copies(connection: psycopg.Connection, progress: Progress) -> None:
    """Send second copies from the outbox until stdin closes."""
    copies = Copies(connection)
    while not _stdin_closes(within_s=_LOOK_S):
        jobs = copies.due()
        accepted(jobs)
        progress.copies += len(jobs)
        progress.relayed = copies.sent.total()
        progress.tell()


def _stdin_closes(within_s: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return bool(ready) and not sys.stdin.readline()


def _chunks(entries: Iterator[_T], size: int) -> Iterator[list[_T]]:
    while chunk := list(islice(entries, size)):
        yield chunk


def main() -> int:
    """Publish the file; return 0, or 2 with one sentence when it cannot be read."""
    parser = argparse.ArgumentParser(prog="publisher", description="Publish a shop's sales.")
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    try:
        retail_file.inspect(options.file)
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    settings, progress = load(), Progress()
    with smena.connect(settings), psycopg.connect(settings.database.libpq_url(), autocommit=True) as connection:
        publish(options.file, connection, progress)
        send_copies(connection, progress)
    return 0


if __name__ == "__main__":
    sys.exit(main())
