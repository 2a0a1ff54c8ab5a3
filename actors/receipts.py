"""Render a receipt for each charge: a small image, drawn in the process pool, and a row that holds its hash.

The image of an invoice is the same however often it is drawn, and takes its place by one rename; so a job that died
between file and commit writes the same file again, and a row never names a file that is not whole.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, PngImagePlugin
from pydantic import BaseModel, Field
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

import smena
from actors.tables import charges, receipts
from smena.book import Book
from smena.context import Context
from smena.errors import Permanent

book = Book("receipts")

SIZE: Final = (320, 200)
DRAW_S: Final = 10.0


class ReceiptSettings(BaseModel):
    """The section `[app]` of the settings, as far as receipts go."""

    receipts_dir: Path = Field(description="Folder of the receipt images.")


class ChargeUnknown(Permanent):
    """There is no charge of this invoice number."""

    code = "charge_unknown"


@book.actor(queue="receipts", once=lambda invoice: invoice)
def render(ctx: Context, session: Session, /, invoice: str) -> None:
    """Draw the receipt of a charged invoice and keep it; file and row stand, or neither counts."""
    charge = session.execute(
        select(charges.c.lines, charges.c.amount).where(charges.c.invoice == invoice)
    ).one_or_none()
    if charge is None:
        raise ChargeUnknown(invoice=invoice)
    image = ctx.cpu(draw, invoice, charge.lines, charge.amount, timeout_s=DRAW_S)
    path = file_of(invoice)
    put(smena.app_settings(ReceiptSettings).receipts_dir / path, image)
    row = {"invoice": invoice, "path": str(path), "sha256": hashlib.sha256(image).hexdigest(), "job_id": ctx.job.id}
    session.execute(insert(receipts), row)


def draw(invoice: str, lines: int, amount: Decimal) -> bytes:
    """Return the receipt as PNG; what it says is also in its text chunks. A CPU step."""
    said = {"Invoice": invoice, "Lines": f"{lines}", "Amount": f"{amount:f}"}
    image = Image.new("1", SIZE, color=1)
    pen = ImageDraw.Draw(image)
    pen.rectangle((4, 4, SIZE[0] - 5, SIZE[1] - 5), outline=0)
    for number, (name, text) in enumerate(said.items()):
        pen.text((16, 16 + 24 * number), f"{name}  {text}".encode("latin-1", "replace"), fill=0)
    chunks = PngImagePlugin.PngInfo()
    for name, text in said.items():
        chunks.add_itxt(name, text)
    file = io.BytesIO()
    image.save(file, "PNG", pnginfo=chunks)
    return file.getvalue()


def file_of(invoice: str) -> Path:
    """Return where below the folder an invoice's receipt lies: its number may hold anything, so its hash names it."""
    name = hashlib.sha256(invoice.encode()).hexdigest()[:32]
    return Path(name[:2]) / f"{name}.png"


def put(path: Path, content: bytes) -> None:
    """Have the file there with all its content, or not at all, also after a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(part).rename(path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
