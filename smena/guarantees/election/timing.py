"""Say how long a leadership lasts, how often it is renewed, and when a leader stops believing in it."""

from __future__ import annotations

from dataclasses import dataclass

from smena.errors import Misconfigured

_BELIEF: float = 0.9
"""Share of the lease after which a leader stops: a clock that runs a tenth slower than the store's does no harm."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one leadership.

    A seat that nobody gave up is taken again within ``lease_s + retry_s``.
    """

    lease_s: float = 30.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry_s <= self.lease_s / 3:
            raise Misconfigured("a third of the lease must hold a try", lease_s=self.lease_s, retry_s=self.retry_s)

    @property
    def renew_every_s(self) -> float:
        """How long after one renewal the next begins: three fit into a lease."""
        return self.lease_s / 3

    @property
    def belief_s(self) -> float:
        """How long a leader may think that it leads after the moment at which it *asked* for its last renewal."""
        return self.lease_s * _BELIEF
