"""`import smena`: one name for everything public, loaded when it is used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import smena

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "howto").glob("*.md"))


@pytest.mark.parametrize("name", smena.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(smena, name) is not None
    assert name in dir(smena)


def test_only_public_names_are_listed() -> None:
    assert dir(smena) == sorted(smena.__all__)


def test_every_error_that_the_pages_name_to_callers_is_public() -> None:
    named = {name for page in PAGES for name in re.findall(r"`([A-Z]\w+)`", page.read_text(encoding="utf-8"))}
    assert {name for name in named if hasattr(smena.errors, name)} - set(smena.__all__) == set()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = smena.nothing


def test_importing_smena_loads_nothing_else() -> None:
    code = "import sys, smena; print(*(name for name in sys.modules if name.startswith('smena.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert loaded.stdout.split() == ["smena.version"]


def test_declaring_and_sending_loads_no_broker_library() -> None:
    code = "import sys, smena; smena.Book('b'); smena.send; print('pika' in sys.modules, 'dramatiq' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert loaded.stdout.split() == ["False", "False"]
