"""Bring a batch's items into their table, whatever they come from, in bounded memory.

Items are numbered from 0 in the order they come in. A query's rows go from table to table inside PostgreSQL; all
else travels by COPY, in chunks, so that neither memory nor any one statement's time grows with the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec
import psycopg
import sqlalchemy as sa

from sharding.files import of_file
from smena.errors import Misused
from smena.store.tables import batch_items

FIRST_CHUNK: Final = 100
GROWTH: Final = 8
MOST_ITEMS: Final = 5000
MOST_BYTES: Final = 4 * 1024 * 1024
"""What is held at a time: a few items at first, then as many as make that many bytes."""

LONGEST_S: Final = 1.0
"""Time for which items are waited for before those that came are written."""

OPEN_S: Final = 2.0
"""Time after which one COPY gives way to the next, for the server bounds a statement's time."""

_ROW: Final = "smena_row"
"""What a row of the caller's query is called; see `_row_beside`."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as text, for those who have no SQLAlchemy at hand."""

    text: str


Source = Iterable[Any] | sa.Select[Any] | sa.CompoundSelect[Any] | Query | Path
"""Items, a query, or a file: `.jsonl` a JSON value a line, `.csv` a dict a row (named by its head), else text lines."""

Travelling = Callable[[list[Any], int], list[Any]]
"""Return items as JSON values, or raise for one that cannot travel; it is told the first one's number."""


def load(connection: sa.Connection, batch: int, source: Source, travelling: Travelling) -> int:
    """Write the items of ``source``; return how many.

    A query's rows are not checked here: one column is the item itself, several are an object by their names.
    """
    if isinstance(source, Query):
        try:
            return _written(connection, batch, source)
        except (sa.exc.DataError, sa.exc.ProgrammingError, UnicodeError) as error:
            raise Misused(f"the query is refused: {getattr(error, 'orig', error)}".strip()) from error
    if isinstance(source, sa.Select | sa.CompoundSelect):
        return connection.execute(_selected(batch, source), execution_options={"preserve_rowcount": True}).rowcount
    items = of_file(source) if isinstance(source, Path) else source
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise Misused(
            "a batch is opened of many items: a list, a generator, a query or a file", got=type(items).__name__
        )
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise Misused("a batch is opened through psycopg 3 (postgresql+psycopg://)", got=type(driver).__name__)
    return _copy(driver, batch, iter(items), travelling)


def _written(connection: sa.Connection, batch: int, query: Query) -> int:
    """Write the rows of a query as its text stands: nothing in it is a parameter, and it may end with a comment."""
    text = query.text.strip().rstrip(";")
    as_it_is = {"no_parameters": True, "preserve_rowcount": True}
    asked = connection.exec_driver_sql(f"SELECT * FROM ({text}\n) AS _ LIMIT 0", execution_options=as_it_is)  # noqa: S608
    names = list(asked.keys())
    if len(set(names)) < len(names):
        raise Misused("two columns of the query have one name", columns=", ".join(names))
    row = _row_beside(names)
    item, alias = f"row_to_json({row})", row
    if len(names) == 1:
        item, alias = f"coalesce(to_json({row}.item), 'null')", f"{row}(item)"
    numbered = f"SELECT {batch:d}, row_number() OVER () - 1, {item} FROM ({text}\n) AS {alias}"  # noqa: S608
    insert = f"INSERT INTO smena.batch_items (batch, number, item) {numbered}"
    return connection.exec_driver_sql(insert, execution_options=as_it_is).rowcount


def _selected(batch: int, query: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.Insert:
    rows = query.subquery(_row_beside(query.selected_columns.keys()))
    columns = list(rows.c)
    nothing: sa.ColumnClause[Any] = sa.literal_column("CAST('null' AS json)")
    only = sa.func.coalesce(sa.func.to_json(columns[0]), nothing)
    item = only if len(columns) == 1 else sa.func.row_to_json(rows.table_valued())
    number = sa.func.row_number().over() - 1
    numbered = sa.select(sa.literal(batch, sa.BigInteger), number, item).select_from(rows)
    return batch_items.insert().from_select(["batch", "number", "item"], numbered)


def _row_beside(columns: Iterable[str]) -> str:
    """Return a name for the row, which a column of that name would hide."""
    taken, row = set(columns), _ROW
    while row in taken:
        row += "_"
    return row


def _copy(driver: psycopg.Connection[Any], batch: int, items: Iterator[Any], travelling: Travelling) -> int:
    number, size, chunk = 0, FIRST_CHUNK, _chunk(items, FIRST_CHUNK)
    with driver.cursor() as cursor:
        while chunk:
            close_s = monotonic() + OPEN_S
            with cursor.copy("COPY smena.batch_items (batch, number, item) FROM STDIN") as copy:
                while True:  # the server takes a chunk in while the next is made
                    lines = _lines(batch, number, travelling(chunk, number))
                    copy.write(lines)
                    number += len(chunk)
                    size = min(MOST_ITEMS, size * GROWTH, max(1, MOST_BYTES * len(chunk) // len(lines)))
                    chunk = _chunk(items, size)
                    if not chunk or monotonic() >= close_s:
                        break
    return number


def _chunk(items: Iterator[Any], size: int) -> list[Any]:
    """Take so many items, fewer where they are slow to come: a transaction must not be idle for long."""
    chunk: list[Any] = []
    late_s = monotonic() + LONGEST_S
    for item in items:
        chunk.append(item)
        if len(chunk) >= size or monotonic() > late_s:
            break
    return chunk


def _lines(batch: int, number: int, items: list[Any]) -> str:
    """Return lines for COPY; JSON holds no tab and no end of line, so only its backslashes are escaped."""
    texts = msgspec.json.Encoder().encode_lines(items).decode().split("\n")
    return "".join([f"{batch}\t{n}\t{text}\n" for n, text in enumerate(texts[:-1], number)]).replace("\\", "\\\\")
