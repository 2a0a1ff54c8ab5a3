"""The how-to's actor is declared, sent and called as the page says."""

import importlib
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

import smena
from smena.book import load_books

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/write-an-actor.md"


@pytest.fixture
def payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    (tmp_path / "howto_payments.py").write_text(code[1], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return importlib.import_module("howto_payments")


def test_the_pages_actor_is_found_sent_to_and_called(payments: Any) -> None:
    order = payments.Order(5, Decimal("1.10"))
    job = payments.charge.message(order, note="gift")

    assert [actor.name for actor in load_books(["howto_payments"]).actors()] == ["payments.charge"]
    assert (job.args, job.kwargs) == (({"number": 5, "amount": "1.10"},), {"note": "gift"})
    assert payments.charge.once(order, note="gift") == "5"
    assert payments.charge(smena.Context(job), Session(), order) is None
