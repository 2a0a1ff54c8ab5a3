"""Processes with one guard taken out, to see that the judge notices.

Each module here stands in for `workers.wiring.worker`, or the scheduler's, in a fleet that `python -m
workers.drills.unguarded` starts. No setting and no option of `smena` leads here: production wiring names its own
modules.
"""

from __future__ import annotations

from typing import Final

GUARDS: Final = {
    "ack-first": "workers.drills.unguarded.ack_first",
    "by-delivery-count": "workers.drills.unguarded.by_delivery_count",
    "no-leader-term": "workers.drills.unguarded.no_leader_term",
    "no-term": "workers.drills.unguarded.no_term",
    "no-slice-term": "workers.drills.unguarded.no_slice_term",
    "no-once-key": "workers.drills.unguarded.no_once_key",
    "no-session-lock": "workers.drills.unguarded.no_session_lock",
    "rows-apart": "workers.drills.unguarded.rows_apart",
    "spans-untold": "workers.drills.unguarded.spans_untold",
}
"""What can be taken out, and the module that does."""

OF_THE_SCHEDULER: Final = frozenset({"no-leader-term", "no-session-lock", "rows-apart", "spans-untold"})
"""Guards whose module stands in for `workers.wiring.scheduler`."""
