"""A complaint of `smena doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that is not as it should be, and the way out."""

    about: str
    found: str
    do: str
