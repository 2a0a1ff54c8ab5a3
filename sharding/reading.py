"""Read items back from their column.

What was sent item by item was checked when the batch was opened. A query's rows were not: PostgreSQL's `json` may hold
what no value here can be, such as numbers without bound, nesting without end and halves of surrogates. Such an item
must neither stop its neighbours nor whoever lists it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from smena.errors import Permanent

_NO_VALUE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError)


class UnreadableItem(Permanent):
    """The item is JSON that PostgreSQL holds, and no value that can be given to an actor."""

    code = "unreadable_item"


def read(text: str) -> Any:
    """Return the value of an item, or of several in a list; raises `UnreadableItem`."""
    try:
        return msgspec.json.decode(text)
    except _NO_VALUE as error:
        raise UnreadableItem(str(error) or type(error).__name__) from None


def read_each(texts: list[str]) -> list[Any]:
    """Return the values of items, with an `UnreadableItem` in the place of each that has none."""
    return [_read_or_error(text) for text in texts]


def _read_or_error(text: str) -> Any:
    try:
        return read(text)
    except UnreadableItem as error:
        return error
