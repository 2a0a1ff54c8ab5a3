"""Say which partition a key belongs to: the same answer in every process, version and language.

The key's bytes go through SHA-256; the digest's first four bytes are a number (big-endian, unsigned), and its
remainder by the number of partitions is the partition. Every language has that in its standard library, and
PostgreSQL as the function `sha256`. `docs/reference/partitions.md` has it in other languages, and test vectors.

This never changes: a key that moved to another partition would lose its order.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

MOST_PARTITIONS: Final = 4096
"""A quorum queue, a lease and a consumer each; the remainder's bias is then below one in a million."""


def partition_of(key: str | bytes | int, partitions: int) -> int:
    """Return the key's partition, from 0 on.

    Text counts as its UTF-8 bytes, unnormalised; a whole number as its decimal digits, so 7 and "7" are one key.
    Raise `TypeError` for any other key (a float or a bool has no one spelling) and `ValueError` for text that
    UTF-8 cannot hold or a number of partitions out of bounds.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"a group has 1 to {MOST_PARTITIONS} partitions, not {partitions}")
    return int.from_bytes(sha256(_bytes_of(key)).digest()[:4]) % partitions


def in_postgresql(key: str, partitions: int) -> str:
    """Return the SQL that gives the partition of a key, which is an expression of type text there."""
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"a group has 1 to {MOST_PARTITIONS} partitions, not {partitions}")
    first = f"left(encode(sha256(convert_to({key}, 'UTF8')), 'hex'), 8)"
    return f"CAST(CAST(CAST('x' || {first} AS bit(32)) AS bigint) % {partitions} AS integer)"


def _bytes_of(key: str | bytes | int) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    if type(key) is not bool and isinstance(key, int):
        return b"%d" % key
    raise TypeError(f"a key is text, bytes or a whole number, not {type(key).__name__}")
