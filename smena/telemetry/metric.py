"""Declare every metric of the product, once.

The table in `docs/reference/metrics.md` and the help lines of the exposition are made from this file.
Names follow Prometheus: base units, counters end in `_total`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its labels in the order in which `|` joins them in a snapshot, and its meaning.

    ``fold`` says how a gauge of several processes becomes one figure.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    doc: str
    fold: Literal["sum", "max", "min"] = "sum"


JOBS: Final = Metric("smena_jobs_total", "counter", ("actor", "outcome"), "Deliveries by what they came to.")
STALE_SETTLES: Final = Metric(
    "smena_stale_settles_total", "counter", (), "Settles dropped because their channel had ended."
)
BATCH_ITEMS: Final = Metric(
    "smena_batch_items_total", "counter", ("actor", "outcome"), "Items of batches by what a try came to."
)
STALE_WRITES: Final = Metric(
    "smena_stale_writes_total",
    "counter",
    ("what",),
    "Writes refused because a term was over: `outbox`, `batch`, `schedule`, or the name of an ordered queue.",
)
PUBLISHED: Final = Metric(
    "smena_published_total",
    "counter",
    ("result",),
    "Messages by what came of publishing them: `confirmed`, or the code of the error.",
)
RECONNECTS: Final = Metric(
    "smena_reconnects_total", "counter", ("connection",), "Connections to the broker made again."
)
HOOK_FAILURES: Final = Metric("smena_hook_failures_total", "counter", ("hook",), "Observing hooks that raised.")
LOOP_FAILURES: Final = Metric("smena_loop_failures_total", "counter", ("loop",), "Rounds of loops that failed.")
CHILDREN_REPLACED: Final = Metric(
    "smena_children_replaced_total", "counter", ("role",), "Child processes replaced by the supervisor."
)
STRIKES: Final = Metric(
    "smena_strikes_total", "counter", ("actor", "why"), "Jobs that ran in a process when that died, by what is known."
)
SUSPECTS: Final = Metric(
    "smena_suspects_total",
    "counter",
    ("actor", "verdict"),
    "Jobs that were run apart: cleared, crashed, or convicted of going on when their time was up.",
)
LEADER_ATTEMPTS: Final = Metric(
    "smena_leader_attempts_total", "counter", ("duty", "result"), "Tries to lead: won, or lost to another."
)
LEADER_LOSSES: Final = Metric(
    "smena_leader_losses_total",
    "counter",
    ("duty", "reason"),
    "Leaderships that ended: resigned, taken, expired, session_lost.",
)
PARTITION_MOVES: Final = Metric(
    "smena_partition_moves_total", "counter", ("group",), "Partitions that a change of the members moved."
)
PARTITION_LOSSES: Final = Metric(
    "smena_partition_losses_total",
    "counter",
    ("group", "why"),
    "Partitions whose lease ended under their owner: lapsed, taken, failed, stopped.",
)
HELD_KEYS: Final = Metric("smena_held_keys", "gauge", ("queue",), "Keys of ordered queues that wait for a job.")
BLOCKED_KEYS: Final = Metric(
    "smena_blocked_keys", "gauge", ("queue",), "Held keys of ordered queues that only an operator lets go on."
)
HOT_KEYS: Final = Metric("smena_hot_keys", "gauge", ("queue",), "Keys that crowd the others of their partition.")
PARKED_JOBS: Final = Metric("smena_parked_jobs", "gauge", ("queue",), "Jobs that wait in rows behind held keys.")
OUTBOX_SENT: Final = Metric("smena_outbox_sent_total", "counter", (), "Outbox rows confirmed by the broker.")
OUTBOX_PARKED: Final = Metric("smena_outbox_parked_total", "counter", (), "Outbox rows that cannot be published.")
TICKS: Final = Metric("smena_ticks_total", "counter", ("why",), "Ticks of schedules by what became of them.")
SCHEDULE_FAILURES: Final = Metric(
    "smena_schedule_failures_total", "counter", ("schedule",), "Schedules that could not be decided."
)
DEAD_LETTERS_MOVED: Final = Metric(
    "smena_dead_letters_moved_total", "counter", ("queue",), "Dead letters that became rows."
)

QUEUE_LATENCY: Final = Metric(
    "smena_queue_latency_seconds", "histogram", ("queue",), "Time from when a job was due until it started."
)
RUN_TIME: Final = Metric("smena_run_seconds", "histogram", ("actor",), "Time an actor ran.")
RELIEF_GAP: Final = Metric(
    "smena_relief_gap_seconds",
    "histogram",
    ("role",),
    "Time for which a relief (reload, recycling) left a child fewer ready than wanted.",
)

STEP_TIME: Final = Metric(
    "smena_step_seconds", "histogram", ("actor", "step"), "Time a step of a job (`ctx.step`) took."
)
TIMES_UP: Final = Metric(
    "smena_times_up_total",
    "counter",
    ("actor", "limit"),
    "Jobs interrupted because their time was up (`soft`), and jobs that did not end of it (`hard`).",
)

IN_FLIGHT: Final = Metric("smena_in_flight", "gauge", ("queue",), "Jobs that run now.")
BUFFERED: Final = Metric("smena_buffered", "gauge", (), "Deliveries held and not started.")
BACKLOG: Final = Metric("smena_backlog", "gauge", ("queue",), "Messages ready in the broker.", fold="max")
OLDEST_AGE: Final = Metric(
    "smena_oldest_age_seconds",
    "gauge",
    ("queue",),
    "Age, since they were due, of the oldest of the jobs last started; absent when none was in the last minute.",
    fold="max",
)
DEAD_LETTERS: Final = Metric(
    "smena_dead_letters", "gauge", ("queue",), "Dead letters that still lie in the broker.", fold="max"
)
OUTBOX_LAG: Final = Metric("smena_outbox_lag_seconds", "gauge", (), "Age of the oldest unsent row.", fold="max")
OUTBOX_WAITING: Final = Metric("smena_outbox_waiting", "gauge", (), "Rows that are due and not sent.", fold="max")
CANARY_LATE: Final = Metric(
    "smena_canary_late_seconds",
    "gauge",
    ("level",),
    "How late the last canary through a delay level was, or the one that is overdue is by now.",
    fold="max",
)
LEADER: Final = Metric("smena_leader", "gauge", ("duty",), "1 in the process that leads, 0 in those that stand for it.")
LEADER_HELD: Final = Metric(
    "smena_leader_held_seconds", "gauge", ("duty",), "How long the present leader has led.", fold="max"
)
LEADER_RENEWED: Final = Metric(
    "smena_leader_renewed_age_seconds", "gauge", ("duty",), "Time since the leader's last renewal.", fold="max"
)
PARTITIONS_OWNED: Final = Metric("smena_partitions_owned", "gauge", ("group",), "Partitions that are owned now.")
POOL_WAIT: Final = Metric(
    "smena_pool_wait_seconds", "gauge", (), "Longest wait for a database connection in 10 s.", fold="max"
)
LOOP_LAG: Final = Metric("smena_loop_lag_seconds", "gauge", ("loop",), "Longest lag of the last 10 s.", fold="max")
CPU_STEPS_NOW: Final = Metric(
    "smena_cpu_steps", "gauge", ("state",), "Pool processes that are busy and idle, and steps that wait for one."
)
CHILDREN: Final = Metric("smena_children", "gauge", ("role", "state"), "Child processes.")
BLOCKED: Final = Metric("smena_blocked", "gauge", ("connection",), "1 while the broker takes no publishes.", fold="max")

METRICS: Final[dict[str, Metric]] = {
    value.name: value for value in list(globals().values()) if isinstance(value, Metric)
}
