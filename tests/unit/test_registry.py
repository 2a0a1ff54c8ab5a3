"""Loading books: what is found, and what refuses to boot."""

from pathlib import Path

import pytest

from smena.book import load_books
from smena.errors import DuplicateName, Misconfigured

HEAD = "from collections.abc import Iterator\nfrom smena.book import Book\n"


class Shelf:
    """A folder on the path, with modules of books."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self.prefix = prefix

    def put(self, name: str, text: str) -> str:
        module = f"{self.prefix}_{name}"
        (self.folder / f"{module}.py").write_text(HEAD + text.replace("SHELF", self.prefix))
        return module


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.syspath_prepend(tmp_path)
    return Shelf(tmp_path, f"shelf_{tmp_path.name.replace('-', '_')}")


def test_actors_are_found_by_name_and_alias_and_queues_are_listed(shelf: Shelf) -> None:
    sales = shelf.put("sales", "book = Book('sales')\n@book.actor(queue='sales')\ndef record(line: int) -> None: ...\n")
    mail = shelf.put(
        "mail",
        "book = Book('mail')\n@book.actor(queue='mail', aliases=('post.confirm',))\ndef confirm() -> None: ...\n",
    )

    registry = load_books([sales, mail])

    assert [actor.name for actor in registry.actors()] == ["sales.record", "mail.confirm"]
    assert registry.actor("post.confirm") is registry.actor("mail.confirm")
    assert registry.actor("mail.nothing") is None
    assert registry.queues() == ("mail", "sales")


def test_a_book_seen_from_two_modules_counts_once(shelf: Shelf) -> None:
    record = "@book.actor()\ndef record() -> None: ...\n"
    text = f"book = Book('sales')\n{record}@book.resource\ndef one() -> Iterator[int]:\n    yield 1\n"
    home = shelf.put("home", text)
    guest = shelf.put("guest", "from SHELF_home import book\nother = Book('other')\n")

    registry = load_books([home, guest])

    assert [book.name for book in registry.books] == ["sales", "other"]
    assert len(registry.actors()) == 1


@pytest.mark.parametrize("alias", ["", ", aliases=('sales.record',)"])
def test_one_name_in_two_books_refuses_to_boot_with_both_places(shelf: Shelf, alias: str) -> None:
    first = shelf.put("first", "book = Book('sales')\n@book.actor()\ndef record() -> None: ...\n")
    book, function = ("sales", "record") if not alias else ("other", "note")
    second = shelf.put(
        "second", f"book = Book('{book}')\n\n@book.actor(queue='q'{alias})\ndef {function}() -> None: ...\n"
    )

    with pytest.raises(DuplicateName) as refused:
        load_books([first, second])

    assert f"{first}.py:4" in str(refused.value)
    assert f"{second}.py:5" in str(refused.value)


def test_a_module_that_cannot_be_imported_refuses_to_boot_with_its_own_error(shelf: Shelf) -> None:
    broken = shelf.put("broken", "1 / 0\n")

    with pytest.raises(Misconfigured, match=f"{broken}.*ZeroDivisionError") as refused:
        load_books([broken])
    assert isinstance(refused.value.__cause__, ZeroDivisionError)
    with pytest.raises(Misconfigured, match="No module named"):
        load_books(["nowhere.at_all"])


def test_where_an_import_went_wrong_is_told_as_a_line_of_the_users_own(shelf: Shelf) -> None:
    inner = shelf.put("inner", "import json\n\njson.loads('{')\n")
    outer = shelf.put("outer", f"import {inner}\n")
    with pytest.raises(Misconfigured, match=rf"JSONDecodeError: .*{inner}\.py:\d+\)"):
        load_books([outer])


def test_a_module_without_a_book_refuses_to_boot(shelf: Shelf) -> None:
    with pytest.raises(Misconfigured, match="without a Book"):
        load_books([shelf.put("empty", "")])


def test_a_mistaken_declaration_is_told_as_it_is(shelf: Shelf) -> None:
    module = shelf.put("lost", "book = Book('sales')\n@book.actor(queue='lost')\ndef record() -> None: ...\n")

    with pytest.raises(Misconfigured, match="one of Smena's own"):
        load_books([module])
