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


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query by its text comes to, in SQL: where its rows come from, an item, and each of its columns."""

    rows: str
    item: str
    columns: dict[str, str]


def load(connection: sa.Connection, batch: int, source: Source, travelling: Travelling) -> int:
    """Write the items of ``source``; return how many.

    A query's rows are not checked here: one column is the item itself, several are an object by their names.
    """
    if isinstance(source, Query):
        return inserted(connection, source, lambda asked: _numbered(batch, asked))
    if isinstance(source, sa.Select | sa.CompoundSelect):
        return connection.execute(_selected(batch, source), execution_options={"preserve_rowcount": True}).rowcount
    into = "smena.batch_items (batch, number, item)"
    return copy(connection, source, into, lambda items, number: _lines(batch, number, travelling(items, number)))


def inserted(connection: sa.Connection, query: Query, statement: Callable[[Asked], str]) -> int:
    """Run a statement over a query's rows, and return how many it wrote; raise `Misused` where the query is refused.

    The query stands as its text: nothing in it is a parameter, and it may end with a comment.
    """
    as_it_is = {"no_parameters": True, "preserve_rowcount": True}
    text = query.text.strip().rstrip(";")
    try:
        looked = connection.exec_driver_sql(f"SELECT * FROM ({text}\n) AS _ LIMIT 0", execution_options=as_it_is)  # noqa: S608
        return connection.exec_driver_sql(
            statement(_asked(text, list(looked.keys()))), execution_options=as_it_is
        ).rowcount
    except (sa.exc.DataError, sa.exc.NotSupportedError, sa.exc.ProgrammingError, UnicodeError) as error:
        raise Misused(f"the query is refused: {getattr(error, 'orig', error)}".strip()) from error


def copy(connection: sa.Connection, source: Any, into: str, lines: Callable[[list[Any], int], str]) -> int:
    """Write items that are no query; ``lines`` makes some of them, and the first one's number, lines for COPY."""
    items = of_file(source) if isinstance(source, Path) else source
    if isinstance(items, str | bytes | dict) or not isinstance(items, Iterable):
        raise Misused(
            "a batch is opened of many items: a list, a generator, a query or a file", got=type(items).__name__
        )
    driver = connection.connection.driver_connection
    if not isinstance(driver, psycopg.Connection):
        raise Misused("a batch is opened through psycopg 3 (postgresql+psycopg://)", got=type(driver).__name__)
    return _copy(driver, iter(items), into, lines)


def selected(query: sa.Select[Any] | sa.CompoundSelect[Any]) -> tuple[sa.Subquery, sa.ColumnElement[Any]]:
    """Return a query's rows, and an item of them; raise `Misused` where its columns do not make one."""
    _refuse_names([str(column.key) for column in query.selected_columns])
    rows = query.subquery(_row_beside(query.selected_columns.keys()))
    columns = list(rows.c)
    nothing: sa.ColumnClause[Any] = sa.literal_column("CAST('null' AS json)")
    only = sa.func.coalesce(sa.func.to_json(columns[0]), nothing)
    return rows, only if len(columns) == 1 else sa.func.row_to_json(rows.table_valued())


def _asked(text: str, names: list[str]) -> Asked:
    _refuse_names(names)
    row = _row_beside(names)
    if len(names) == 1:
        item = f"{row}.item"
        return Asked(f"({text}\n) AS {row}(item)", f"coalesce(to_json({item}), 'null')", {names[0]: item})
    columns = {name: '{}."{}"'.format(row, name.replace('"', '""')) for name in names}
    return Asked(f"({text}\n) AS {row}", f"row_to_json({row})", columns)


def _refuse_names(names: list[str]) -> None:
    if not names:
        raise Misused("the query has no column")
    if len(set(names)) < len(names):
        raise Misused("two columns of the query have one name", columns=", ".join(names))


def _numbered(batch: int, asked: Asked) -> str:
    numbered = f"SELECT {batch:d}, row_number() OVER () - 1, {asked.item} FROM {asked.rows}"  # noqa: S608
    return f"INSERT INTO smena.batch_items (batch, number, item) {numbered}"


def _selected(batch: int, query: sa.Select[Any] | sa.CompoundSelect[Any]) -> sa.Insert:
    rows, item = selected(query)
    number = sa.func.row_number().over() - 1
    numbered = sa.select(sa.literal(batch, sa.BigInteger), number, item).select_from(rows)
    return batch_items.insert().from_select(["batch", "number", "item"], numbered)


def _row_beside(columns: Iterable[str]) -> str:
    """Return a name for the row, which a column of that name would hide."""
    taken, row = set(columns), _ROW
    while row in taken:
        row += "_"
    return row


def _copy(
    driver: psycopg.Connection[Any], items: Iterator[Any], into: str, lines: Callable[[list[Any], int], str]
) -> int:
    number, size, chunk = 0, FIRST_CHUNK, _chunk(items, FIRST_CHUNK)
    with driver.cursor() as cursor:
        while chunk:
            close_s = monotonic() + OPEN_S
            with cursor.copy(f"COPY {into} FROM STDIN".encode()) as writing:
                while True:  # the server takes a chunk in while the next is made
                    text = lines(chunk, number)
                    writing.write(text)
                    number += len(chunk)
                    size = min(MOST_ITEMS, size * GROWTH, max(1, MOST_BYTES * len(chunk) // len(text)))
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
