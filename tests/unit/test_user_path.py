"""The user's modules are found behind the machine's own."""

import sys
from pathlib import Path

import pytest

from smena.errors import Misconfigured
from workers.wiring.user_path import open_user_path

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_the_folder_comes_last(tmp_path: Path) -> None:
    open_user_path(tmp_path)
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("place", ["workers/__init__.py", "workers/jobs.py", "sharding.py", "smena/x.py"])
def test_a_module_called_like_one_of_ours_is_refused_with_both_paths(tmp_path: Path, place: str) -> None:
    path = tmp_path / place
    path.parent.mkdir(exist_ok=True)
    path.touch()

    with pytest.raises(Misconfigured) as refusal:
        open_user_path(tmp_path)

    name = place.partition("/")[0]
    assert str(tmp_path / name) in str(refusal.value)
    assert str(ROOT / name.removesuffix(".py")) in str(refusal.value)


def test_our_own_checkout_and_a_folder_without_code_are_welcome(tmp_path: Path) -> None:
    (tmp_path / "workers").mkdir()
    open_user_path(tmp_path)
    open_user_path(ROOT)
