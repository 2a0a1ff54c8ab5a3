"""Hold one thing that is wrong, or unwise, about a configuration."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from smena.settings.key import PREFIX

_NEAR: Final = 0.75
"""So like are a name and its misspelling, without the prefix that all have; a word in common is not enough."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An error refuses to boot; a warning is said and goes on. ``key`` is the setting's or the variable's name."""

    level: Literal["error", "warning"]
    key: str
    text: str

    def __str__(self) -> str:
        """Return one line."""
        return f"{self.key}: {self.text}"


def error(key: str, text: str) -> Finding:
    """Return a finding that refuses to boot."""
    return Finding("error", key, text)


def warning(key: str, text: str) -> Finding:
    """Return a finding that is only said."""
    return Finding("warning", key, text)


def unknown(key: str, known: Iterable[str], where: str) -> Finding:
    """Return the error for a name that no setting has, with the nearest one that exists."""
    names = {name.removeprefix(PREFIX): name for name in known}
    wanted = key.removeprefix(PREFIX)
    near = [name for name in names if name.endswith((f"_{wanted}", f".{wanted}"))]  # its group was left out
    near = near or difflib.get_close_matches(wanted, names, n=1, cutoff=_NEAR)
    hint = f"; did you mean {names[near[0]]}?" if near else ""
    return error(key, f"no such setting ({where}){hint}")
