"""Read the receipts' files as a stranger does: their hash, and what they say in their text chunks.

The format is PNG (ISO/IEC 15948): a signature, then chunks of length, type, data and checksum. A file that is not
whole, or says nothing, is reported with what could be read of it: the ledger finds that it fits no invoice.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_HEAD: Final = struct.Struct("!I4s")
_CHECK: Final = struct.Struct("!I")

Drawn = tuple[str, str, str | None, int | None, str | None]
"""Path below the folder, SHA-256 in hexadecimal, and invoice, lines and amount as the image says them."""


def drawn_receipts(folder: Path) -> Iterator[Drawn]:
    """Yield what every file below the folder is; one left half-written has a name that no row gives."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            content = file.read_bytes()
            said = _said(content)
            lines = said.get("Lines", "")
            yield (
                str(file.relative_to(folder)),
                hashlib.sha256(content).hexdigest(),
                said.get("Invoice"),
                int(lines) if lines.isdecimal() else None,
                said.get("Amount"),
            )


def _said(content: bytes) -> dict[str, str]:
    """Return the image's international text chunks; nothing when it is not whole."""
    if not content.startswith(SIGNATURE):
        return {}
    said: dict[str, str] = {}
    at = len(SIGNATURE)
    while at + _HEAD.size + _CHECK.size <= len(content):
        size, kind = _HEAD.unpack_from(content, at)
        end = at + _HEAD.size + size
        if end + _CHECK.size > len(content):
            return {}
        if zlib.crc32(content[at + 4 : end]) != _CHECK.unpack_from(content, end)[0]:
            return {}
        if kind == b"IEND":
            return said
        if kind == b"iTXt":
            name, _, rest = content[at + _HEAD.size : end].partition(b"\0")
            said[name.decode("latin-1")] = rest[2:].split(b"\0", 2)[2].decode(errors="replace")
        at = end + _CHECK.size
    return {}
