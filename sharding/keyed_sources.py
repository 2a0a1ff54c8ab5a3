"""Bring the items of a batch by partition into their table, in the order in which they are worked.

They come into a temporary table first, as they are given. From there they are numbered by partition, key and the
order of their coming, so the items of a key, and all of a partition, are one run of numbers each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, get_args

import msgspec
import sqlalchemy as sa

from sharding import sources
from sharding.sources import Asked, Query, Source, Travelling
from smena.book.partitioning import LONGEST_KEY, OnDead, refuse_count, text_of
from smena.errors import Misused, Unsendable
from smena.keyspace import in_postgresql

By: TypeAlias = Callable[[Any], str | int] | str
"""What gives an item's key: a function of the item as it was given, or the name of its field or its query's column."""

PARTITIONS: Final = 32

_SPELT: Final = ("text", "character varying", "character", "smallint", "integer", "bigint", "uuid")
"""Types of a column that have one spelling for each key."""

_ESCAPES: Final = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""What a value cannot hold as it is in a line for COPY; the backslash first."""

_BAD: Final = "SELECT number, key FROM {staged} WHERE key IS NULL OR length(key) NOT BETWEEN 1 AND {longest} LIMIT 1"
_ARRANGE: Final = """
WITH placed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY partition, key, number) - 1 AS number, partition, key, item
    FROM (SELECT number, key, item, {partition} AS partition FROM {staged}) AS given
), written AS (
    INSERT INTO smena.batch_items (batch, number, item) SELECT {batch}, number, item FROM placed
)
INSERT INTO smena.batch_keys (batch, first, last, partition, key)
SELECT {batch}, min(number), max(number), partition, key FROM placed GROUP BY partition, key
"""


@dataclass(frozen=True, slots=True)
class Keying:
    """How the items of a batch get their keys, into how many partitions these fall, and what follows a death."""

    by: By
    partitions: int
    on_dead: OnDead

    @classmethod
    def of(cls, by: By | None, partitions: int | None, on_dead: OnDead | None) -> Keying:
        """Return what was said, with the defaults; raise `Misused`."""
        if not (callable(by) or (isinstance(by, str) and by)):
            raise Misused("a batch by partition wants `by`: a function of an item, or the name of a field or a column")
        count = PARTITIONS if partitions is None else partitions
        refuse_count(count)
        follows: OnDead = "skip" if on_dead is None else on_dead
        if follows not in get_args(OnDead):
            raise Misused("`on_dead` is 'block' or 'skip'", on_dead=follows)
        return cls(by, count, follows)

    def key(self, item: Any, sent: Any, number: int) -> str:
        """Return an item's key, by what was given and how that travels; raise `Unsendable` with its number."""
        if callable(self.by):
            found = self.by(item)
        elif isinstance(sent, dict) and self.by in sent:
            found = sent[self.by]
        else:
            raise Unsendable(f"an item has no field {self.by}, which is its key", item=number)
        try:
            return text_of(found)
        except Unsendable as error:
            raise Unsendable(error.detail, **error.facts, item=number) from error


def load(connection: sa.Connection, batch: int, source: Source, travelling: Travelling, keying: Keying) -> int:
    """Write the items of ``source`` and their keys; return how many items.

    Raise `Misused` where the key of a query is no column of it, `Unsendable` with the item's number for a bad key.
    """
    staged = f"pg_temp.smena_batch_{batch:d}"
    connection.exec_driver_sql(f'CREATE TEMPORARY TABLE {staged} (number bigint, key text COLLATE "C", item json)')
    total = _stage(connection, staged, source, travelling, keying)
    bad = connection.exec_driver_sql(_BAD.format(staged=staged, longest=LONGEST_KEY)).one_or_none()
    if bad is not None:
        told = "a key is text of 1 to {} characters or a whole number; cast what is another type to text"
        raise Unsendable(told.format(LONGEST_KEY), item=bad.number)
    partition = in_postgresql("key", keying.partitions)
    arrange = _ARRANGE.format(batch=f"{batch:d}", staged=staged, partition=partition)
    connection.exec_driver_sql(arrange, execution_options={"no_parameters": True})
    connection.exec_driver_sql(f"DROP TABLE {staged}")
    return total


def _stage(connection: sa.Connection, staged: str, source: Source, travelling: Travelling, keying: Keying) -> int:
    if isinstance(source, Query):
        return sources.inserted(connection, source, lambda asked: _asked(staged, asked, keying))
    if isinstance(source, sa.Select | sa.CompoundSelect):
        return connection.execute(
            _selected(staged, source, keying), execution_options={"preserve_rowcount": True}
        ).rowcount
    into = f"{staged} (number, key, item)"
    return sources.copy(connection, source, into, lambda items, number: _lines(items, number, travelling, keying))


def _asked(staged: str, asked: Asked, keying: Keying) -> str:
    column = asked.columns.get(_column(keying, list(asked.columns)))
    kinds = ", ".join(f"'{kind}'" for kind in _SPELT)
    key = f"CASE WHEN CAST(pg_typeof({column}) AS text) IN ({kinds}) THEN CAST({column} AS text) END"
    rows = f"SELECT row_number() OVER () - 1, {key}, {asked.item} FROM {asked.rows}"  # noqa: S608 - the caller's query
    return f"INSERT INTO {staged} (number, key, item) {rows}"


def _selected(staged: str, query: sa.Select[Any] | sa.CompoundSelect[Any], keying: Keying) -> sa.Insert:
    rows, item = sources.selected(query)
    column = rows.c[_column(keying, list(rows.c.keys()))]
    kind = sa.cast(sa.func.pg_typeof(column), sa.Text)
    key = sa.case((kind.in_(_SPELT), sa.cast(column, sa.Text)))
    schema, name = staged.split(".")
    into = sa.table(name, sa.column("number"), sa.column("key"), sa.column("item"), schema=schema)
    numbered = sa.select(sa.func.row_number().over() - 1, key, item).select_from(rows)
    return into.insert().from_select(["number", "key", "item"], numbered)


def _column(keying: Keying, columns: list[str]) -> str:
    if callable(keying.by):
        raise Misused("the rows of a query stay in PostgreSQL: `by` is the name of a column there")
    if keying.by not in columns:
        raise Misused("`by` is no column of the query", by=keying.by, columns=", ".join(columns))
    return keying.by


def _lines(items: list[Any], number: int, travelling: Travelling, keying: Keying) -> str:
    """Return lines for COPY."""
    sent = travelling(items, number)
    keys = [keying.key(*both, number + place) for place, both in enumerate(zip(items, sent, strict=True))]
    texts = msgspec.json.Encoder().encode_lines(sent).decode().split("\n")
    return "".join(f"{number + place}\t{_escaped(key)}\t{_escaped(texts[place])}\n" for place, key in enumerate(keys))


def _escaped(text: str) -> str:
    for sign, written in _ESCAPES:
        text = text.replace(sign, written)
    return text
