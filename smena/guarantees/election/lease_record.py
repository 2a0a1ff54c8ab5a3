"""Hold one Lease of Kubernetes (coordination.k8s.io/v1) as it was read, and make the next one of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
"""Kubernetes' MicroTime: UTC with six digits."""


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A Lease: who holds it, how often it changed hands, and the version that a change must name.

    ``raw`` is the whole object; a change keeps what others wrote there (labels, annotations).
    """

    raw: Mapping[str, Any]

    @classmethod
    def new(cls, name: str, owner: str, term: int, lease_s: float, now: datetime) -> Self:
        """Return a Lease that was not there before."""
        empty = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}
        return cls(empty).taken(owner, term, lease_s, now)

    @property
    def version(self) -> str:
        """The version of the object; each change of it gives another."""
        return str(self.raw.get("metadata", {}).get("resourceVersion", ""))

    @property
    def holder(self) -> str:
        """Who holds it; empty for nobody."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def term(self) -> int:
        """How often it changed hands."""
        return int(self._spec.get("leaseTransitions") or 0)

    @property
    def lease_s(self) -> float:
        """How long its holder says that it lasts."""
        return float(self._spec.get("leaseDurationSeconds") or 0)

    @property
    def beat(self) -> tuple[str, int, str]:
        """What a renewal or a takeover changes, and nobody's label does."""
        return self.holder, self.term, str(self._spec.get("renewTime") or "")

    def taken(self, owner: str, term: int, lease_s: float, now: datetime) -> Self:
        """Return it with a new holder and term."""
        at = now.strftime(_TIME)
        return self._with(
            holderIdentity=owner,
            leaseDurationSeconds=math.ceil(lease_s),
            leaseTransitions=term,
            acquireTime=at,
            renewTime=at,
        )

    def renewed(self, now: datetime) -> Self:
        """Return it with a later renewal."""
        return self._with(renewTime=now.strftime(_TIME))

    def released(self) -> Self:
        """Return it with nobody as holder."""
        return self._with(holderIdentity="", leaseDurationSeconds=1)

    @property
    def _spec(self) -> Mapping[str, Any]:
        spec: Mapping[str, Any] = self.raw.get("spec") or {}
        return spec

    def _with(self, **changes: object) -> Self:
        return type(self)({**self.raw, "spec": {**self._spec, **changes}})
