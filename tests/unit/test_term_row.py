"""What becomes of a leader's row that hangs or was another's meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from smena.errors import DatabaseLost, TermLost
from smena.guarantees.election.term_row import TermRow
from smena.store import terms
from smena.store.database import Database
from tests.fixtures.eventually import PATIENCE_S


@pytest.fixture
def row() -> TermRow:
    @contextmanager
    def transaction() -> Iterator[mock.Mock]:
        yield mock.Mock()

    return TermRow(mock.Mock(Database, transaction=transaction), "leader:x", 30)


@pytest.mark.parametrize("error", [TermLost, DatabaseLost])
def test_giving_up_a_row_that_is_anothers_or_cannot_be_written_is_no_error(
    row: TermRow, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(terms, "release", mock.Mock(side_effect=error("x")))
    row.release("me", 1)


def test_a_renewal_under_a_term_that_is_over_is_told(row: TermRow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "renew", mock.Mock(side_effect=TermLost("x")))
    with pytest.raises(TermLost):
        row.renew("me", 1, PATIENCE_S)
